//! The official examples of the newest revision round-trip without loss.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tsugite_core::jsonrpc::{
    ErrorObject, Id, Incoming, Message, MessageLimits, Raw, RawJson, Response, parse,
};
use tsugite_core::protocol::content::{self, ResourceContents};
use tsugite_core::protocol::form::Field;
use tsugite_core::protocol::mrtr::{InputRequest, InputRequests, InputRequired, InputResponses};
use tsugite_core::protocol::pagination::PaginatedParams;
use tsugite_core::protocol::{
    ClientCapabilities, Method, NotificationMethod, Output, ResultType, ServerCapabilities, cancellation,
    completion, discover, elicitation, logging, progress, prompts, resources, roots, sampling, subscriptions,
    tools,
};
use tsugite_core::revision::{
    InferResultType, Revision, RpcError, Translate, read_notification, read_params, read_result,
    write_notification, write_request, write_result,
};

const NEWEST: Revision = Revision::V2026_07_28;

#[test]
fn every_official_example_is_read_and_written_back_without_loss() {
    // SCHM-001; SCHM-008: unknown `_meta` keys and members are kept.
    let root = format!("{}/tests/data/{NEWEST}/examples", env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for folder in std::fs::read_dir(root).unwrap() {
        let folder = folder.unwrap();
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let name = folder.file_name().into_string().unwrap();
            let mut original: Value = serde_json::from_str(&text).unwrap();
            // Another carries the id of the request it once was; inside a result there is none.
            if name == "ListRootsRequest" {
                original.as_object_mut().unwrap().remove("id");
            }
            let mut back =
                written_back(&name, &original).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            // One example leaves out the hints that its own schema requires; we write them.
            for hint in ["ttlMs", "cacheScope"] {
                if original.pointer(&format!("/result/{hint}")).is_none()
                    && let Some(Value::Object(result)) = back.get_mut("result")
                {
                    result.remove(hint);
                }
            }
            assert_eq!(back, original, "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen} examples");
}

fn written_back(name: &str, original: &Value) -> Result<Value, String> {
    let text = original.to_string();
    match name {
        "AudioContent" => plain::<content::Audio>(&text),
        "BlobResourceContents" | "TextResourceContents" => plain::<ResourceContents>(&text),
        "BooleanSchema"
        | "NumberSchema"
        | "StringSchema"
        | "TitledMultiSelectEnumSchema"
        | "TitledSingleSelectEnumSchema"
        | "UntitledMultiSelectEnumSchema"
        | "UntitledSingleSelectEnumSchema" => plain::<Field>(&text),
        "CallToolRequest" => request::<tools::Call>(&text),
        "CallToolRequestParams" => plain::<tools::CallParams>(&text),
        "CallToolResult" => result::<tools::Call>(&text),
        "CallToolResultResponse" => response::<tools::Call>(&text),
        "CancelledNotification" => notification::<cancellation::Cancelled>(&text),
        "CancelledNotificationParams" => plain::<cancellation::CancelledParams>(&text),
        "ClientCapabilities" => plain::<ClientCapabilities>(&text),
        "CompleteRequest" => request::<completion::Complete>(&text),
        "CompleteRequestParams" => plain::<completion::CompleteParams>(&text),
        "CompleteResult" => result::<completion::Complete>(&text),
        "CompleteResultResponse" => response::<completion::Complete>(&text),
        "CreateMessageRequest" | "ElicitRequest" | "ListRootsRequest" => plain::<InputRequest>(&text),
        "CreateMessageRequestParams" => plain::<sampling::CreateMessageParams>(&text),
        "CreateMessageResult" => plain::<sampling::CreateMessageResult>(&text),
        "DiscoverRequest" => request::<discover::Discover>(&text),
        "DiscoverResult" => result::<discover::Discover>(&text),
        "DiscoverResultResponse" => response::<discover::Discover>(&text),
        "ElicitRequestFormParams" | "ElicitRequestURLParams" => plain::<elicitation::ElicitParams>(&text),
        "ElicitResult" => plain::<elicitation::ElicitResult>(&text),
        "EmbeddedResource" => plain::<content::EmbeddedResource>(&text),
        "GetPromptRequest" => request::<prompts::Get>(&text),
        "GetPromptRequestParams" => plain::<prompts::GetParams>(&text),
        "GetPromptResult" => result::<prompts::Get>(&text),
        "GetPromptResultResponse" => response::<prompts::Get>(&text),
        "HeaderMismatchError"
        | "MissingRequiredClientCapabilityError"
        | "UnsupportedProtocolVersionError" => error(&text),
        "ImageContent" => plain::<content::Image>(&text),
        "InputRequests" => plain::<InputRequests>(&text),
        "InputRequiredResult" => result::<tools::Call>(&text),
        "InputResponses" => plain::<InputResponses>(&text),
        "InternalError" | "InvalidParamsError" | "MethodNotFoundError" | "ParseError" => {
            plain::<ErrorObject>(&text)
        }
        "ListPromptsRequest" => request::<prompts::List>(&text),
        "ListPromptsResult" => result::<prompts::List>(&text),
        "ListPromptsResultResponse" => response::<prompts::List>(&text),
        "ListResourceTemplatesRequest" => request::<resources::ListTemplates>(&text),
        "ListResourceTemplatesResult" => result::<resources::ListTemplates>(&text),
        "ListResourceTemplatesResultResponse" => response::<resources::ListTemplates>(&text),
        "ListResourcesRequest" => request::<resources::List>(&text),
        "ListResourcesResult" => result::<resources::List>(&text),
        "ListResourcesResultResponse" => response::<resources::List>(&text),
        "ListRootsResult" => plain::<roots::ListResult>(&text),
        "ListToolsRequest" => request::<tools::List>(&text),
        "ListToolsResult" => result::<tools::List>(&text),
        "ListToolsResultResponse" => response::<tools::List>(&text),
        "LoggingMessageNotification" => notification::<logging::Log>(&text),
        "LoggingMessageNotificationParams" => plain::<logging::LogParams>(&text),
        "ModelPreferences" => plain::<sampling::ModelPreferences>(&text),
        "PaginatedRequestParams" => plain::<PaginatedParams>(&text),
        "ProgressNotification" => notification::<progress::Progress>(&text),
        "ProgressNotificationParams" => plain::<progress::ProgressParams>(&text),
        "PromptListChangedNotification" => notification::<prompts::ListChanged>(&text),
        "ReadResourceRequest" => request::<resources::Read>(&text),
        "ReadResourceResult" => result::<resources::Read>(&text),
        "ReadResourceResultResponse" => response::<resources::Read>(&text),
        "Resource" => plain::<resources::Resource>(&text),
        "ResourceLink" => plain::<content::ResourceLink>(&text),
        "ResourceListChangedNotification" => notification::<resources::ListChanged>(&text),
        "ResourceUpdatedNotification" => notification::<resources::Updated>(&text),
        "ResourceUpdatedNotificationParams" => plain::<resources::UriParams>(&text),
        "Root" => plain::<roots::Root>(&text),
        "SamplingMessage" => plain::<sampling::SamplingMessage>(&text),
        "ServerCapabilities" => plain::<ServerCapabilities>(&text),
        "SubscriptionsAcknowledgedNotification" => notification::<subscriptions::Acknowledged>(&text),
        "SubscriptionsListenRequest" => request::<subscriptions::Listen>(&text),
        "SubscriptionsListenResult" => result::<subscriptions::Listen>(&text),
        "SubscriptionsListenResultResponse" => response::<subscriptions::Listen>(&text),
        "TextContent" => plain::<content::Text>(&text),
        "Tool" => plain::<tools::Tool>(&text),
        "ToolListChangedNotification" => notification::<tools::ListChanged>(&text),
        "ToolResultContent" | "ToolUseContent" => plain::<content::SamplingBlock>(&text),
        other => Err(format!("no type is known for {other}")),
    }
}

fn plain<T: DeserializeOwned + Serialize>(text: &str) -> Result<Value, String> {
    let value: T = serde_json::from_str(text).map_err(|error| error.to_string())?;
    serde_json::to_value(value).map_err(|error| error.to_string())
}

fn message(text: &str) -> Result<Message<'_>, String> {
    match parse(text.as_bytes(), &MessageLimits::default()) {
        Ok(Incoming::Single(message)) => Ok(message),
        other => Err(format!("{other:?}")),
    }
}

fn json(out: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(out).map_err(|error| error.to_string())
}

fn request<M: Method<Params: Translate>>(text: &str) -> Result<Value, String> {
    let Message::Request(request) = message(text)? else { return Err("not a request".to_owned()) };
    let params = read_params::<M>(request.params(), NEWEST).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    write_request::<M>(&mut out, &request.id, params, NEWEST).map_err(|error| error.to_string())?;
    json(&out)
}

fn notification<N: NotificationMethod<Params: Translate>>(text: &str) -> Result<Value, String> {
    let Message::Notification(notice) = message(text)? else { return Err("not a notification".to_owned()) };
    let params = read_notification::<N>(notice.params(), NEWEST).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    write_notification::<N>(&mut out, params, NEWEST).map_err(|error| error.to_string())?;
    let mut back = json(&out)?;
    // No params and empty params say the same.
    if notice.params.is_none() && back["params"] == json!({}) {
        back.as_object_mut().unwrap().remove("params");
    }
    Ok(back)
}

fn response<M: Method<Output: Translate + InferResultType>>(text: &str) -> Result<Value, String> {
    let Message::Response(Response { id: Some(id), outcome: Ok(raw) }) = message(text)? else {
        return Err("not a result".to_owned());
    };
    answer::<M>(raw, &id)
}

fn result<M: Method<Output: Translate + InferResultType>>(text: &str) -> Result<Value, String> {
    let raw = RawJson::parse(text).map_err(|error| error.to_string())?;
    Ok(answer::<M>(Raw::from(&raw), &Id::from(1))?["result"].take())
}

fn answer<M: Method<Output: Translate + InferResultType>>(
    raw: Raw<'_>,
    id: &Id<'_>,
) -> Result<Value, String> {
    let output = read_result::<M>(raw, NEWEST).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    write_result::<M>(&mut out, id, output, NEWEST, None).map_err(|error| error.to_string())?;
    json(&out)
}

fn error(text: &str) -> Result<Value, String> {
    let Message::Response(Response { id, outcome: Err(error) }) = message(text)? else {
        return Err("not an error".to_owned());
    };
    // The number survives being understood.
    let code = error.code;
    assert_eq!(RpcError::from_error_object(error.clone(), tools::Call::NAME, NEWEST).code(NEWEST), code);
    let mut out = Vec::new();
    tsugite_core::jsonrpc::write::error(&mut out, id.as_ref(), false, &error);
    json(&out)
}

#[test]
fn unknown_result_type_is_invalid_and_missing_one_is_complete() {
    // JRPC-043 absent is complete, JRPC-044 unknown is invalid.
    let named = |json: Value| ResultType::from_result(Raw::from(&RawJson::from(json)));
    assert_eq!(named(json!({})), Ok(ResultType::Complete));
    assert!(named(json!({"resultType": "later"})).is_err());
    // MRTR-003: nothing but a call, a read and a prompt is answered with a question.
    let asked = RawJson::from(json!({"resultType": "input_required", "requestState": "s"}));
    assert!(read_result::<tools::List>(Raw::from(&asked), NEWEST).is_err());
    assert!(read_result::<prompts::Get>(Raw::from(&asked), NEWEST).is_ok());
    assert_eq!(
        tools::CallOutput::from(InputRequired::new().request_state("s")).result_type(),
        ResultType::InputRequired
    );
}
