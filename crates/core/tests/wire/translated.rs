//! Every message with an unknown member in every open object, translated from each revision that has it to every other.
//!
//! The result is checked in three ways: against the official schema of the target, against reading and writing by type,
//! and for the unknown members, each of which must still be in its place.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tsugite_core::jsonrpc::{Id, Incoming, Message, MessageLimits, Raw, RawJson, Response, parse};
use tsugite_core::protocol::meta::ClientMeta;
use tsugite_core::protocol::{
    ClientCapabilities, HasMeta, Implementation, Method, NotificationMethod, cancellation, completion,
    discover, elicitation, lifecycle, logging, ping, progress, prompts, resources, roots, sampling,
    subscriptions, tasks, tools,
};
use tsugite_core::revision::{
    InferResultType, MessageSender, MethodKind, Revision, ServerInfoMeta, Translate,
    UnsupportedByRevisionError, read_input_response, read_notification, read_params, read_result,
    translate_raw_input_response, translate_raw_notification, translate_raw_params, translate_raw_result,
    write_input_response, write_notification, write_request, write_result,
};

use crate::generate::{Choices, STRANGE};
use crate::messages::source;
use crate::official::Official;

type Path = Vec<String>;

/// Asserts that `translated` is `original` in the shape of `typed`, with every unknown member in its place.
#[track_caller]
fn judge(original: &Value, typed: &Value, translated: &Value, what: &str) {
    let shown = || format!("{what}\nbefore {original:#}\nafter {translated:#}\nby type {typed:#}");
    assert_eq!(plain(translated), plain(typed), "{}", shown());
    let (before, after) = (strange(original), strange(translated));
    for path in &before {
        assert!(after.contains(path) || restructured(path, original, typed), "lost {path:?}: {}", shown());
    }
    for path in &after {
        assert!(
            before.contains(path) || restructured(path, translated, original),
            "moved {path:?}: {}",
            shown()
        );
    }
}

/// The same without strange members.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let known = members.iter().filter(|(name, _)| !name.starts_with(STRANGE));
            known.map(|(name, value)| (name.clone(), plain(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

/// The paths of unknown members.
fn strange(value: &Value) -> Vec<Path> {
    fn walk(value: &Value, path: &mut Path, found: &mut Vec<Path>) {
        let parts: Vec<(String, &Value)> = match value {
            Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
            Value::Array(items) => {
                items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
            }
            _ => return,
        };
        for (name, value) in parts {
            path.push(name);
            match path.last().is_some_and(|name| name.starts_with(STRANGE)) {
                true => found.push(path.clone()),
                false => walk(value, path, found),
            }
            path.pop();
        }
    }
    let mut found = Vec::new();
    walk(value, &mut Vec::new(), &mut found);
    found
}

/// Whether the container of the member is gone in `after`, has another type or another number of items: a rule did
/// that.
fn restructured(path: &[String], before: &Value, after: &Value) -> bool {
    let (mut before, mut after) = (before, after);
    for step in &path[..path.len() - 1] {
        let next = match (before, after) {
            (Value::Object(before), Value::Object(after)) => (before.get(step), after.get(step)),
            (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
                let at: usize = step.parse().unwrap();
                (before.get(at), after.get(at))
            }
            _ => return true,
        };
        let (Some(inner_before), Some(inner_after)) = next else { return true };
        (before, after) = (inner_before, inner_after);
    }
    before.is_object() != after.is_object()
}

fn value_of(definition: &str, bytes: &[u8]) -> (Revision, Value) {
    let source = source(definition, bytes);
    (source, Choices::with_strange_members(bytes).value_of(Official::of(source), definition))
}

fn raw(value: &Value) -> RawJson {
    RawJson::from(value.clone())
}

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap()
}

fn claims(to: Revision) -> ClientMeta {
    ClientMeta::new(to.as_str(), ClientCapabilities::new())
}

/// Compares two failures, or returns two values.
#[track_caller]
fn both<T>(
    typed: Result<T, UnsupportedByRevisionError>,
    translated: Result<RawJson, UnsupportedByRevisionError>,
    what: &str,
) -> Option<(T, Value)> {
    match (typed, translated) {
        (Ok(typed), Ok(translated)) => Some((typed, translated.read().unwrap())),
        (Err(typed), Err(translated)) => {
            assert_eq!(typed, translated, "{what}");
            None
        }
        (typed, translated) => panic!("{what}: {:?} by type, {:?} translated", typed.err(), translated.err()),
    }
}

fn request<M: Method>(definition: &str, bytes: &[u8])
where
    M::Params: Translate + Clone,
{
    let (source, mut original) = value_of(definition, bytes);
    let params = original.get("params").cloned().unwrap_or(json!({}));
    for to in Revision::ALL {
        let what = format!("{definition} {source} {to}");
        let translated = translate_raw_params(M::NAME, Raw::from(&raw(&params)), source, to);
        if to == source {
            assert_eq!(translated.unwrap().text(), raw(&params).text());
            continue;
        }
        let mut read = read_params::<M>(Raw::from(&raw(&params)), source).unwrap();
        let claims = to.is_stateless().then(|| claims(to));
        let typed =
            match to.is_stateless() && !to.has_method(MethodKind::Request, M::NAME, MessageSender::Client) {
                // It is asked inside a result.
                true if !M::NAME.starts_with("tasks/") && is_server_request(M::NAME) => {
                    read.downgrade(to).map(|()| serde_json::to_value(&read).unwrap())
                }
                _ => {
                    if let Some(claims) = &claims {
                        read.meta_mut().get_or_insert_default().set_client_meta(claims);
                    }
                    let mut out = Vec::new();
                    write_request::<M>(&mut out, &Id::from(1), read, to)
                        .map(|()| json(&out).get("params").cloned().unwrap_or(json!({})))
                }
            };
        let Some((typed, mut translated)) = both(typed, translated, &what) else { continue };
        // The caller that forwards a request adds the client's description.
        if let Some(claims) = claims.filter(|_| !is_server_request(M::NAME)) {
            let mut meta: tsugite_core::protocol::Meta =
                serde_json::from_value(translated.get("_meta").cloned().unwrap_or(json!({}))).unwrap();
            meta.set_client_meta(&claims);
            translated["_meta"] = serde_json::to_value(meta).unwrap();
        }
        judge(&params, &typed, &translated, &what);
        if Official::of(to).has(definition) {
            original["params"] = translated;
            original["jsonrpc"] = json!("2.0");
            original["id"] = json!(1);
            Official::of(to).accept_open(definition, &original);
        }
    }
}

/// Whether a server requests it.
fn is_server_request(method: &str) -> bool {
    Revision::V2025_11_25.has_method(MethodKind::Request, method, MessageSender::Server)
        && !Revision::V2025_11_25.has_method(MethodKind::Request, method, MessageSender::Client)
}

fn notification<N: NotificationMethod>(definition: &str, bytes: &[u8])
where
    N::Params: Translate + Clone,
{
    let (source, mut original) = value_of(definition, bytes);
    let params = original.get("params").cloned().unwrap_or(json!({}));
    for to in Revision::ALL {
        let what = format!("{definition} {source} {to}");
        let translated = translate_raw_notification(N::NAME, Raw::from(&raw(&params)), source, to);
        if to == source {
            assert_eq!(translated.unwrap().text(), raw(&params).text());
            continue;
        }
        let read = read_notification::<N>(Raw::from(&raw(&params)), source).unwrap();
        let mut out = Vec::new();
        let typed = write_notification::<N>(&mut out, read, to)
            .map(|()| json(&out).get("params").cloned().unwrap_or(json!({})));
        let Some((typed, translated)) = both(typed, translated, &what) else { continue };
        judge(&params, &typed, &translated, &what);
        original["params"] = translated;
        original["jsonrpc"] = json!("2.0");
        Official::of(to).accept_open(definition, &original);
    }
}

fn result<M: Method>(definition: &str, bytes: &[u8])
where
    M::Output: Translate + InferResultType + Clone,
{
    let (source, mut original) = value_of(definition, bytes);
    if source.is_stateless() {
        // The response of a client is not a result there.
        if is_server_request(M::NAME) {
            return;
        }
        let asks = definition == "InputRequiredResult";
        original["resultType"] = json!(if asks { "input_required" } else { "complete" });
        if asks && original.get("inputRequests").is_none() {
            original["requestState"] = json!("state");
        }
    }
    let server = Implementation::new("s", "1");
    for to in Revision::ALL {
        let what = format!("{definition} {source} {to}");
        let translated = translate_raw_result(M::NAME, Raw::from(&raw(&original)), source, to, Some(&server));
        if to == source {
            assert_eq!(translated.unwrap().text(), raw(&original).text());
            continue;
        }
        if to.is_stateless() && is_server_request(M::NAME) {
            continue;
        }
        let read = read_result::<M>(Raw::from(&raw(&original)), source)
            .unwrap_or_else(|error| panic!("{error}\n{original:#}"));
        let mut out = Vec::new();
        let stamp = ServerInfoMeta::new(server.clone());
        let typed = write_result::<M>(&mut out, &Id::from(1), read, to, Some(&stamp)).map(|()| {
            let Ok(Incoming::Single(Message::Response(Response { outcome: Ok(raw), .. }))) =
                parse(&out, &MessageLimits::default())
            else {
                panic!()
            };
            raw.read::<Value>().unwrap()
        });
        let Some((typed, translated)) = both(typed, translated, &what) else { continue };
        judge(&original, &typed, &translated, &what);
        if Official::of(to).has(definition) && definition != "CreateTaskResult" {
            Official::of(to).accept_open(definition, &translated);
        }
    }
}

/// The response of a client: a result, and on 2026-07-28 a bare object inside the next attempt.
fn answer<M: Method>(definition: &str, bytes: &[u8])
where
    M::Output: Translate + InferResultType + Clone,
{
    let (source, original) = value_of(definition, bytes);
    for to in Revision::ALL {
        let what = format!("{definition} {source} {to}");
        let text = raw(&original);
        let translated = translate_raw_input_response(M::NAME, Raw::from(&text), source, to);
        if to == source {
            assert_eq!(translated.unwrap().text(), text.text());
            continue;
        }
        let read = match source.is_stateless() {
            true => read_input_response::<M>(&text).unwrap(),
            false => read_result::<M>(Raw::from(&text), source).unwrap(),
        };
        let typed = match to.is_stateless() {
            true => write_input_response::<M>(read).map(|json| json.read::<Value>().unwrap()),
            false => {
                let mut out = Vec::new();
                write_result::<M>(&mut out, &Id::from(1), read, to, None)
                    .map(|()| json(&out)["result"].take())
            }
        };
        if let Err(UnsupportedByRevisionError::Method(_)) = typed {
            // The side that requested something its revision does not have knows what it is for.
            assert!(translated.is_ok(), "{what}");
            continue;
        }
        let Some((typed, translated)) = both(typed, translated, &what) else { continue };
        judge(&original, &typed, &translated, &what);
        Official::of(to).accept_open(definition, &translated);
    }
}

macro_rules! translated {
    ($($name:ident: $check:ident::<$ty:ty>($definition:literal);)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $name(bytes in proptest::collection::vec(any::<u8>(), 0..160)) {
                    $check::<$ty>($definition, &bytes);
                }
            )*
        }

        #[test]
        fn nothing_is_forgotten() {
            let translated = [$((stringify!($check), <$ty>::NAME)),*];
            for row in tsugite_core::revision::methods() {
                // The tasks extension has no schema.
                let unknown = row.since.is_stateless() && row.in_tasks_extension;
                let wanted: &[_] = match row.kind {
                    MethodKind::Request => &["request", "result"],
                    MethodKind::Notification => &["notification"],
                };
                for check in wanted {
                    assert!(unknown || translated.contains(&(check, row.name)), "{check} {}", row.name);
                }
                if row.kind == MethodKind::Request && is_server_request(row.name) {
                    assert!(translated.contains(&("answer", row.name)), "answer {}", row.name);
                }
            }
        }
    };
}

translated! {
    initialize_requests_are_translated: request::<lifecycle::Initialize>("InitializeRequest");
    initialize_results_are_translated: result::<lifecycle::Initialize>("InitializeResult");
    pings_are_translated: request::<ping::Ping>("PingRequest");
    pongs_are_translated: result::<ping::Ping>("EmptyResult");
    discover_requests_are_translated: request::<discover::Discover>("DiscoverRequest");
    discover_results_are_translated: result::<discover::Discover>("DiscoverResult");
    tool_list_requests_are_translated: request::<tools::List>("ListToolsRequest");
    tool_lists_are_translated: result::<tools::List>("ListToolsResult");
    tool_calls_are_translated: request::<tools::Call>("CallToolRequest");
    tool_results_are_translated: result::<tools::Call>("CallToolResult");
    tool_results_that_ask_back_are_translated: result::<tools::Call>("InputRequiredResult");
    tool_results_that_are_tasks_are_translated: result::<tools::Call>("CreateTaskResult");
    resource_list_requests_are_translated: request::<resources::List>("ListResourcesRequest");
    resource_lists_are_translated: result::<resources::List>("ListResourcesResult");
    template_list_requests_are_translated: request::<resources::ListTemplates>("ListResourceTemplatesRequest");
    template_lists_are_translated: result::<resources::ListTemplates>("ListResourceTemplatesResult");
    read_requests_are_translated: request::<resources::Read>("ReadResourceRequest");
    read_results_are_translated: result::<resources::Read>("ReadResourceResult");
    reads_that_ask_back_are_translated: result::<resources::Read>("InputRequiredResult");
    subscribe_requests_are_translated: request::<resources::Subscribe>("SubscribeRequest");
    subscribe_results_are_translated: result::<resources::Subscribe>("EmptyResult");
    unsubscribe_requests_are_translated: request::<resources::Unsubscribe>("UnsubscribeRequest");
    unsubscribe_results_are_translated: result::<resources::Unsubscribe>("EmptyResult");
    prompt_list_requests_are_translated: request::<prompts::List>("ListPromptsRequest");
    prompt_lists_are_translated: result::<prompts::List>("ListPromptsResult");
    prompt_requests_are_translated: request::<prompts::Get>("GetPromptRequest");
    prompt_results_are_translated: result::<prompts::Get>("GetPromptResult");
    prompts_that_ask_back_are_translated: result::<prompts::Get>("InputRequiredResult");
    completion_requests_are_translated: request::<completion::Complete>("CompleteRequest");
    completion_results_are_translated: result::<completion::Complete>("CompleteResult");
    level_requests_are_translated: request::<logging::SetLevel>("SetLevelRequest");
    level_results_are_translated: result::<logging::SetLevel>("EmptyResult");
    listen_requests_are_translated: request::<subscriptions::Listen>("SubscriptionsListenRequest");
    listen_results_are_translated: result::<subscriptions::Listen>("SubscriptionsListenResult");
    sampling_requests_are_translated: request::<sampling::CreateMessage>("CreateMessageRequest");
    sampling_results_are_translated: result::<sampling::CreateMessage>("CreateMessageResult");
    sampling_answers_are_translated: answer::<sampling::CreateMessage>("CreateMessageResult");
    roots_requests_are_translated: request::<roots::List>("ListRootsRequest");
    roots_results_are_translated: result::<roots::List>("ListRootsResult");
    roots_answers_are_translated: answer::<roots::List>("ListRootsResult");
    elicitation_requests_are_translated: request::<elicitation::Create>("ElicitRequest");
    elicitation_results_are_translated: result::<elicitation::Create>("ElicitResult");
    elicitation_answers_are_translated: answer::<elicitation::Create>("ElicitResult");
    task_requests_are_translated: request::<tasks::Get>("GetTaskRequest");
    task_states_are_translated: result::<tasks::Get>("GetTaskResult");
    task_cancellations_are_translated: request::<tasks::Cancel>("CancelTaskRequest");
    cancelled_tasks_are_translated: result::<tasks::Cancel>("CancelTaskResult");
    task_payload_requests_are_translated: request::<tasks::Payload>("GetTaskPayloadRequest");
    task_payloads_are_translated: result::<tasks::Payload>("GetTaskPayloadResult");
    task_list_requests_are_translated: request::<tasks::List>("ListTasksRequest");
    task_lists_are_translated: result::<tasks::List>("ListTasksResult");
    ready_notices_are_translated: notification::<lifecycle::Initialized>("InitializedNotification");
    cancellations_are_translated: notification::<cancellation::Cancelled>("CancelledNotification");
    progress_notices_are_translated: notification::<progress::Progress>("ProgressNotification");
    log_notices_are_translated: notification::<logging::Log>("LoggingMessageNotification");
    tool_list_notices_are_translated: notification::<tools::ListChanged>("ToolListChangedNotification");
    prompt_list_notices_are_translated: notification::<prompts::ListChanged>("PromptListChangedNotification");
    resource_list_notices_are_translated: notification::<resources::ListChanged>("ResourceListChangedNotification");
    update_notices_are_translated: notification::<resources::Updated>("ResourceUpdatedNotification");
    roots_notices_are_translated: notification::<roots::ListChanged>("RootsListChangedNotification");
    page_notices_are_translated: notification::<elicitation::Complete>("ElicitationCompleteNotification");
    task_notices_are_translated: notification::<tasks::StatusChanged>("TaskStatusNotification");
    acknowledgements_are_translated: notification::<subscriptions::Acknowledged>("SubscriptionsAcknowledgedNotification");
}
