//! Every message of every schema, read and written for every revision.

use proptest::prelude::*;
use serde_json::{Value, json};
use tsugite_core::jsonrpc::{Id, Incoming, Message, MessageLimits, RawJson, Response, parse};
use tsugite_core::protocol::meta::ClientMeta;
use tsugite_core::protocol::{
    ClientCapabilities, HasMeta, Method, NotificationMethod, cancellation, completion, discover, elicitation,
    lifecycle, logging, ping, progress, prompts, resources, roots, sampling, subscriptions, tasks, tools,
};
use tsugite_core::revision::{
    InferResultType, MessageSender, MethodKind, Revision, Translate, UnsupportedByRevisionError,
    read_input_response, read_notification, read_params, read_result, write_input_response,
    write_notification, write_request, write_result,
};

use crate::generate::Choices;
use crate::losses::same_but_for_losses;
use crate::official::Official;

const NEWEST: Revision = Revision::V2026_07_28;
const TASKS: Revision = Revision::V2025_11_25;

fn parsed(text: &[u8]) -> Message<'_> {
    match parse(text, &MessageLimits::default()) {
        Ok(Incoming::Single(message)) => message,
        other => panic!("{other:?}\n{}", String::from_utf8_lossy(text)),
    }
}

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap()
}

/// Whether `to` may fail to say something that `source` said.
fn may_fail(error: &UnsupportedByRevisionError, to: Revision) -> bool {
    match error {
        UnsupportedByRevisionError::Method(_) => true,
        UnsupportedByRevisionError::Elicitation => !to.has_elicitation(),
        UnsupportedByRevisionError::UrlElicitation => !to.has_url_elicitation(),
        UnsupportedByRevisionError::MultipleChoice => to == Revision::V2025_06_18,
        UnsupportedByRevisionError::SamplingTools => !to.has_sampling_tools(),
        UnsupportedByRevisionError::InputRequired => !to.is_stateless(),
        UnsupportedByRevisionError::Tasks => !to.has_core_tasks() && !to.is_stateless(),
        // What only the newest leaves out, the runtime must supply.
        UnsupportedByRevisionError::MissingMember("elicitationId" | "task") => to == TASKS,
        // The newest schema does not say that one of two members must be there; its prose does.
        UnsupportedByRevisionError::MissingMember("inputRequests") => to.is_stateless(),
        UnsupportedByRevisionError::MissingMember("requestId" | "io.modelcontextprotocol/subscriptionId") => {
            true
        }
        // A state read from 2025-11-25 does not hold what the extension puts into it.
        UnsupportedByRevisionError::MissingMember("result" | "error") => to.is_stateless(),
        _ => false,
    }
}

/// The first byte chooses among the revisions that have the definition, so that each of them is a source.
pub(crate) fn source(definition: &str, bytes: &[u8]) -> Revision {
    let known: Vec<_> = Revision::ALL.into_iter().filter(|to| Official::of(*to).has(definition)).collect();
    known[usize::from(bytes.first().copied().unwrap_or(u8::MAX)) % known.len()]
}

fn request<M: Method>(definition: &str, bytes: &[u8])
where
    M::Params: Translate + Clone,
{
    // What a server asks on the newest revision is no request of its own; see `embedded` and the results that ask back.
    let source = match source(definition, bytes) {
        newest
            if newest.is_stateless()
                && !newest.has_method(MethodKind::Request, M::NAME, MessageSender::Client) =>
        {
            TASKS
        }
        source => source,
    };
    let mut original = Choices::new(bytes).value_of(Official::of(source), definition);
    original["jsonrpc"] = json!("2.0");
    original["id"].is_null().then(|| original["id"] = json!(1));
    let text = serde_json::to_vec(&original).unwrap();
    let Message::Request(message) = parsed(&text) else { panic!("{original:#}") };
    assert_eq!(message.method, M::NAME);
    let params = read_params::<M>(message.params(), source).unwrap();
    for to in Revision::ALL {
        let mut params = params.clone();
        if to.is_stateless() && !source.is_stateless() {
            params
                .meta_mut()
                .get_or_insert_default()
                .set_client_meta(&ClientMeta::new(to.as_str(), ClientCapabilities::new()));
        }
        let mut out = Vec::new();
        match write_request::<M>(&mut out, &message.id, params, to) {
            Err(error) => assert!(may_fail(&error, to) && out.is_empty(), "{to}: {error}\n{original:#}"),
            Ok(()) => {
                // The tasks extension is not part of the schema.
                if Official::of(to).has(definition) {
                    Official::of(to).accept(definition, &json(&out));
                }
                let Message::Request(back) = parsed(&out) else { panic!() };
                assert_eq!(back.id, message.id);
                let back = read_params::<M>(back.params(), to).unwrap();
                let mut again = Vec::new();
                if write_request::<M>(&mut again, &message.id, back, source).is_ok() {
                    same_but_for_losses(&original, &json(&again), source, to);
                }
            }
        }
    }
}

fn notification<N: NotificationMethod>(definition: &str, bytes: &[u8])
where
    N::Params: Translate + Clone,
{
    let source = source(definition, bytes);
    let mut original = Choices::new(bytes).value_of(Official::of(source), definition);
    original["jsonrpc"] = json!("2.0");
    let text = serde_json::to_vec(&original).unwrap();
    let Message::Notification(message) = parsed(&text) else { panic!("{original:#}") };
    assert_eq!(message.method, N::NAME);
    let params = read_notification::<N>(message.params(), source).unwrap();
    for to in Revision::ALL {
        let mut out = Vec::new();
        match write_notification::<N>(&mut out, params.clone(), to) {
            Err(error) => assert!(may_fail(&error, to) && out.is_empty(), "{to}: {error}\n{original:#}"),
            Ok(()) => {
                Official::of(to).accept(definition, &json(&out));
                let Message::Notification(back) = parsed(&out) else { panic!() };
                let back = read_notification::<N>(back.params(), to).unwrap();
                let mut again = Vec::new();
                write_notification::<N>(&mut again, back, source).unwrap();
                same_but_for_losses(&original, &json(&again), source, to);
            }
        }
    }
}

fn result<M: Method>(definition: &str, bytes: &[u8])
where
    M::Output: Translate + InferResultType + Clone,
{
    let source = match source(definition, bytes) {
        newest
            if newest.is_stateless()
                && !newest.has_method(MethodKind::Request, M::NAME, MessageSender::Client) =>
        {
            TASKS
        }
        source => source,
    };
    let mut original = Choices::new(bytes).value_of(Official::of(source), definition);
    // The schema lets both members be absent, the specification does not.
    if definition == "InputRequiredResult" && original.get("inputRequests").is_none() {
        original["requestState"] = json!("state");
    }
    if source.is_stateless() && original.get("resultType").is_some() {
        original["resultType"] =
            json!(if definition == "InputRequiredResult" { "input_required" } else { "complete" });
    }
    let text = serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": "r", "result": original})).unwrap();
    let Message::Response(Response { outcome: Ok(raw), .. }) = parsed(&text) else { panic!("{original:#}") };
    let output = read_result::<M>(raw, source).unwrap_or_else(|error| panic!("{error}\n{original:#}"));
    for to in Revision::ALL {
        let mut out = Vec::new();
        match write_result::<M>(&mut out, &Id::from("r"), output.clone(), to, None) {
            Err(error) => assert!(may_fail(&error, to) && out.is_empty(), "{to}: {error}\n{original:#}"),
            Ok(()) => {
                let written = json(&out)["result"].take();
                if Official::of(to).has(definition) {
                    Official::of(to).accept(definition, &written);
                }
                let Message::Response(Response { outcome: Ok(raw), .. }) = parsed(&out) else { panic!() };
                let back = read_result::<M>(raw, to).unwrap();
                let mut again = Vec::new();
                if write_result::<M>(&mut again, &Id::from("r"), back, source, None).is_ok() {
                    same_but_for_losses(&original, &json(&again)["result"], source, to);
                }
            }
        }
    }
}

macro_rules! generated {
    ($($name:ident: $check:ident::<$ty:ty>($($argument:expr),+);)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $name(bytes in proptest::collection::vec(any::<u8>(), 0..160)) {
                    $check::<$ty>($($argument),+, &bytes);
                }
            )*
        }
    };
}

generated! {
    discover_requests_fit_every_schema: request::<discover::Discover>("DiscoverRequest");
    discover_results_fit_every_schema: discovered::<discover::Discover>(NEWEST, "DiscoverResult");
    tools_list_requests_fit_every_schema: request::<tools::List>("ListToolsRequest");
    tools_list_results_fit_every_schema: result::<tools::List>("ListToolsResult");
    tool_calls_fit_every_schema: request::<tools::Call>("CallToolRequest");
    tool_results_fit_every_schema: result::<tools::Call>("CallToolResult");
    tool_results_that_ask_back_fit_every_schema: result::<tools::Call>("InputRequiredResult");
    tool_results_that_are_tasks_fit_their_schema: task_created::<tools::Call>(TASKS, "CreateTaskResult");
    resource_lists_fit_every_schema: result::<resources::List>("ListResourcesResult");
    resource_list_requests_fit_every_schema: request::<resources::List>("ListResourcesRequest");
    template_lists_fit_every_schema: result::<resources::ListTemplates>("ListResourceTemplatesResult");
    template_list_requests_fit_every_schema: request::<resources::ListTemplates>("ListResourceTemplatesRequest");
    read_requests_fit_every_schema: request::<resources::Read>("ReadResourceRequest");
    read_results_fit_every_schema: result::<resources::Read>("ReadResourceResult");
    reads_that_ask_back_fit_every_schema: result::<resources::Read>("InputRequiredResult");
    subscribe_requests_fit_every_schema: request::<resources::Subscribe>("SubscribeRequest");
    unsubscribe_requests_fit_every_schema: request::<resources::Unsubscribe>("UnsubscribeRequest");
    prompt_lists_fit_every_schema: result::<prompts::List>("ListPromptsResult");
    prompt_list_requests_fit_every_schema: request::<prompts::List>("ListPromptsRequest");
    prompt_requests_fit_every_schema: request::<prompts::Get>("GetPromptRequest");
    prompt_results_fit_every_schema: result::<prompts::Get>("GetPromptResult");
    completion_requests_fit_every_schema: request::<completion::Complete>("CompleteRequest");
    completion_results_fit_every_schema: result::<completion::Complete>("CompleteResult");
    listen_requests_fit_every_schema: request::<subscriptions::Listen>("SubscriptionsListenRequest");
    listen_results_fit_every_schema: listen_result::<subscriptions::Listen>(NEWEST, "SubscriptionsListenResult");
    initialize_requests_fit_every_schema: request::<lifecycle::Initialize>("InitializeRequest");
    initialize_results_fit_every_schema: handshake_result::<lifecycle::Initialize>(TASKS, "InitializeResult");
    pings_fit_every_schema: request::<ping::Ping>("PingRequest");
    empty_results_fit_every_schema: result::<ping::Ping>("EmptyResult");
    level_requests_fit_every_schema: request::<logging::SetLevel>("SetLevelRequest");
    sampling_requests_fit_every_schema: request::<sampling::CreateMessage>("CreateMessageRequest");
    sampling_results_fit_every_schema: result::<sampling::CreateMessage>("CreateMessageResult");
    newest_sampling_results_fit_every_schema: embedded::<sampling::CreateMessage>(NEWEST, "CreateMessageResult");
    roots_requests_fit_every_schema: request::<roots::List>("ListRootsRequest");
    roots_results_fit_every_schema: result::<roots::List>("ListRootsResult");
    newest_roots_results_fit_every_schema: embedded::<roots::List>(NEWEST, "ListRootsResult");
    elicitation_requests_fit_every_schema: request::<elicitation::Create>("ElicitRequest");
    elicitation_results_fit_every_schema: result::<elicitation::Create>("ElicitResult");
    newest_elicitation_results_fit_every_schema: embedded::<elicitation::Create>(NEWEST, "ElicitResult");
    task_requests_fit_their_schema: request::<tasks::Get>("GetTaskRequest");
    task_cancellations_fit_their_schema: request::<tasks::Cancel>("CancelTaskRequest");
    task_payload_requests_fit_their_schema: request::<tasks::Payload>("GetTaskPayloadRequest");
    task_payloads_fit_their_schema: handshake_result::<tasks::Payload>(TASKS, "GetTaskPayloadResult");
    task_list_requests_fit_their_schema: request::<tasks::List>("ListTasksRequest");
    task_lists_fit_their_schema: handshake_result::<tasks::List>(TASKS, "ListTasksResult");
    task_states_fit_their_schema: handshake_result::<tasks::Get>(TASKS, "GetTaskResult");
    cancelled_tasks_fit_their_schema: handshake_result::<tasks::Cancel>(TASKS, "CancelTaskResult");
    task_notices_fit_their_schema: notification::<tasks::StatusChanged>("TaskStatusNotification");
    ready_notices_fit_every_schema: notification::<lifecycle::Initialized>("InitializedNotification");
    cancellations_fit_every_schema: notification::<cancellation::Cancelled>("CancelledNotification");
    progress_notices_fit_every_schema: notification::<progress::Progress>("ProgressNotification");
    log_notices_fit_every_schema: notification::<logging::Log>("LoggingMessageNotification");
    tool_list_notices_fit_every_schema: notification::<tools::ListChanged>("ToolListChangedNotification");
    prompt_list_notices_fit_every_schema: notification::<prompts::ListChanged>("PromptListChangedNotification");
    resource_list_notices_fit_every_schema: notification::<resources::ListChanged>("ResourceListChangedNotification");
    update_notices_fit_every_schema: notification::<resources::Updated>("ResourceUpdatedNotification");
    roots_notices_fit_every_schema: notification::<roots::ListChanged>("RootsListChangedNotification");
    page_notices_fit_every_schema: notification::<elicitation::Complete>("ElicitationCompleteNotification");
    acknowledgements_fit_every_schema: notification::<subscriptions::Acknowledged>("SubscriptionsAcknowledgedNotification");
}

/// Results that only the newest revision has.
fn discovered<M: Method>(source: Revision, definition: &str, bytes: &[u8])
where
    M::Output: Translate + InferResultType + Clone,
{
    one_revision::<M>(source, definition, bytes);
}

/// A subscription ends with a result that names it.
fn listen_result<M: Method>(source: Revision, definition: &str, bytes: &[u8])
where
    M::Output: Translate + InferResultType + Clone,
{
    one_revision::<M>(source, definition, bytes);
}

fn one_revision<M: Method>(source: Revision, definition: &str, bytes: &[u8])
where
    M::Output: Translate + InferResultType + Clone,
{
    let mut original = Choices::new(bytes).value_of(Official::of(source), definition);
    if original.get("resultType").is_some() {
        original["resultType"] = json!("complete");
    }
    let text = serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": "r", "result": original})).unwrap();
    let Message::Response(Response { outcome: Ok(raw), .. }) = parsed(&text) else { panic!() };
    let output = read_result::<M>(raw, source).unwrap_or_else(|error| panic!("{error}\n{original:#}"));
    let mut out = Vec::new();
    write_result::<M>(&mut out, &Id::from("r"), output, source, None).unwrap();
    let written = json(&out)["result"].take();
    Official::of(source).accept(definition, &written);
    same_but_for_losses(&original, &written, source, source);
}

/// Results that exist with a handshake only.
fn handshake_result<M: Method>(source: Revision, definition: &str, bytes: &[u8])
where
    M::Output: Translate + InferResultType + Clone,
{
    let original = Choices::new(bytes).value_of(Official::of(source), definition);
    let text = serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": "r", "result": original})).unwrap();
    let Message::Response(Response { outcome: Ok(raw), .. }) = parsed(&text) else { panic!() };
    let output = read_result::<M>(raw, source).unwrap_or_else(|error| panic!("{error}\n{original:#}"));
    for to in Revision::ALL.into_iter().filter(|to| Official::of(*to).has(definition)) {
        let mut out = Vec::new();
        write_result::<M>(&mut out, &Id::from("r"), output.clone(), to, None).unwrap();
        let written = json(&out)["result"].take();
        Official::of(to).accept(definition, &written);
        same_but_for_losses(&original, &written, source, to);
    }
}

/// The answer to something asked inside a result is a bare object; before, it was the result of a request.
fn embedded<M: Method>(source: Revision, definition: &str, bytes: &[u8])
where
    M::Output: Translate + InferResultType + Clone,
{
    let original = Choices::new(bytes).value_of(Official::of(source), definition);
    let answer = read_input_response::<M>(&RawJson::from(original.clone())).unwrap();
    let bare = write_input_response::<M>(answer.clone()).unwrap();
    assert_eq!(bare.read::<Value>().unwrap(), original);
    for to in Revision::ALL {
        let mut out = Vec::new();
        match write_result::<M>(&mut out, &Id::from("r"), answer.clone(), to, None) {
            Err(error) => assert!(may_fail(&error, to), "{to}: {error}\n{original:#}"),
            Ok(()) => {
                Official::of(to).accept(definition, &json(&out)["result"]);
                let Message::Response(Response { outcome: Ok(raw), .. }) = parsed(&out) else { panic!() };
                let back = write_input_response::<M>(read_result::<M>(raw, to).unwrap()).unwrap();
                same_but_for_losses(&original, &back.read().unwrap(), source, to);
            }
        }
    }
}

fn task_created<M: Method>(source: Revision, definition: &str, bytes: &[u8])
where
    M::Output: Translate + InferResultType + Clone,
{
    let original = Choices::new(bytes).value_of(Official::of(source), definition);
    let text = serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": "r", "result": original})).unwrap();
    let Message::Response(Response { outcome: Ok(raw), .. }) = parsed(&text) else { panic!() };
    let output = read_result::<M>(raw, source).unwrap();
    let mut out = Vec::new();
    write_result::<M>(&mut out, &Id::from("r"), output.clone(), source, None).unwrap();
    assert_eq!(json(&out)["result"], original);
    Official::of(source).accept(definition, &json(&out)["result"]);

    // The extension writes the same task flat, under its own names, and says what kind of result it is.
    let mut out = Vec::new();
    write_result::<M>(&mut out, &Id::from("r"), output.clone(), NEWEST, None).unwrap();
    let flat = json(&out)["result"].take();
    assert_eq!(flat["resultType"], "task");
    assert_eq!(flat["taskId"], original["task"]["taskId"]);
    assert_eq!(flat["ttlMs"], original["task"]["ttl"]);
    assert_eq!(flat.get("ttl"), None);
    let Message::Response(Response { outcome: Ok(raw), .. }) = parsed(&out) else { panic!() };
    let mut again = Vec::new();
    write_result::<M>(&mut again, &Id::from("r"), read_result::<M>(raw, NEWEST).unwrap(), source, None)
        .unwrap();
    assert_eq!(json(&again)["result"], original);

    for to in [Revision::V2024_11_05, Revision::V2025_03_26, Revision::V2025_06_18] {
        assert_eq!(
            write_result::<M>(&mut Vec::new(), &Id::from("r"), output.clone(), to, None),
            Err(UnsupportedByRevisionError::Tasks)
        );
    }
}
