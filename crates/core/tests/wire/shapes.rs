//! Shapes of messages: required and optional members, and the errors for invalid ones.

mod client_features;

use serde_json::{Value, json};
use tsugite_core::jsonrpc::{ErrorObject, Id, Raw, RawJson};
use tsugite_core::protocol::capabilities::TasksCapability;
use tsugite_core::protocol::content::{Audio, EmbeddedResource, ResourceContents, SamplingBlock, ToolUse};
use tsugite_core::protocol::discover::{Discover, DiscoverResult};
use tsugite_core::protocol::elicitation::{ElicitParams, ElicitResult, FieldValue, FormParams, UrlParams};
use tsugite_core::protocol::form::{ChoiceOptions, Field, FieldKind, FormSchema};
use tsugite_core::protocol::lifecycle::{Initialize, InitializeParams, InitializeResult};
use tsugite_core::protocol::logging::{Level, Log, LogParams, SetLevel};
use tsugite_core::protocol::mrtr::{InputRequest, InputRequired, MaybeInputRequired};
use tsugite_core::protocol::result::EmptyResult;
use tsugite_core::protocol::sampling::{
    CreateMessage, CreateMessageParams, SamplingContent, SamplingMessage,
};
use tsugite_core::protocol::subscriptions::Listen;
use tsugite_core::protocol::tasks::{CancelResult, CreateTaskResult, GetResult, Task, TaskStatus};
use tsugite_core::protocol::tools::{CallOutput, CallParams, CallResult, Tool};
use tsugite_core::protocol::{
    ClientCapabilities, ContentBlock, EmptyParams, Implementation, Method, NotificationMethod, OrderedMap,
    Role, Schema, ServerCapabilities, cancellation, completion, elicitation, prompts, resources, roots,
    tasks, tools,
};
use tsugite_core::revision::{
    InferResultType, Revision, Revisions, Translate, UnsupportedByRevisionError, read_params, read_result,
    write_notification, write_request, write_result,
};

use Revision::*;

use crate::rules::{read, written};

/// The number of the refusal with which `params` are answered, if they are.
fn refused<M: Method<Params: Translate>>(params: Value, from: Revision) -> Option<i64> {
    let params = RawJson::from(params);
    read_params::<M>(Raw::from(&params), from).err().map(|refusal| refusal.code(from))
}

#[track_caller]
fn invalid<M: Method<Params: Translate>>(params: Value) {
    for revision in Revision::ALL {
        assert_eq!(refused::<M>(params.clone(), revision), Some(-32602), "{revision}: {params}");
    }
}

fn request_params<M: Method<Params: Translate>>(
    params: M::Params,
    to: Revision,
) -> Result<Value, UnsupportedByRevisionError> {
    let mut out = Vec::new();
    write_request::<M>(&mut out, &Id::from(1), params, to)?;
    Ok(serde_json::from_slice::<Value>(&out).unwrap()["params"].take())
}

fn notification_params<N: NotificationMethod<Params: Translate>>(
    params: N::Params,
    to: Revision,
) -> Result<Value, UnsupportedByRevisionError> {
    let mut out = Vec::new();
    write_notification::<N>(&mut out, params, to)?;
    Ok(serde_json::from_slice::<Value>(&out).unwrap()["params"].take())
}

/// What comes back on `revision` of a result that a peer of it wrote.
fn back<M: Method<Output: Translate + InferResultType>>(result: &Value, revision: Revision) -> Value {
    written::<M>(read::<M>(result.clone(), revision).unwrap(), revision)
}

#[test]
fn params_with_missing_or_mistyped_members_are_invalid() {
    // JRPC-024; TOOL-007, PRMT-004, CMPL-003 and SUBS-016 for what each must hold.
    invalid::<tools::Call>(json!({}));
    invalid::<tools::Call>(json!({"name": 1}));
    invalid::<tools::Call>(json!({"name": "t", "arguments": []}));
    invalid::<tools::Call>(json!({"name": "t", "arguments": "{}"}));
    invalid::<tools::List>(json!({"cursor": 1}));
    invalid::<resources::Read>(json!({}));
    invalid::<resources::Read>(json!({"uri": ["file:///a"]}));
    invalid::<resources::Subscribe>(json!({}));
    invalid::<prompts::Get>(json!({"arguments": {}}));
    invalid::<prompts::Get>(json!({"name": "p", "arguments": {"a": 1}}));
    let argument = json!({"name": "a", "value": "v"});
    invalid::<completion::Complete>(json!({"argument": argument}));
    invalid::<completion::Complete>(json!({"ref": {"type": "ref/prompt", "name": "p"}}));
    invalid::<completion::Complete>(json!({"ref": {"type": "ref/prompt", "uri": "u"}, "argument": argument}));
    invalid::<completion::Complete>(json!({"ref": {"type": "ref/tool", "name": "t"}, "argument": argument}));
    invalid::<completion::Complete>(
        json!({"ref": {"type": "ref/resource", "uri": "u"}, "argument": {"name": "a"}}),
    );
    invalid::<Listen>(json!({}));
    invalid::<Listen>(json!({"notifications": {"toolsListChanged": "yes"}}));
    invalid::<SetLevel>(json!({"level": "loud"}));
    invalid::<Initialize>(json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    invalid::<Initialize>(json!({"capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}));
    invalid::<CreateMessage>(json!({"messages": []}));
    invalid::<elicitation::Create>(json!({"requestedSchema": {"type": "object", "properties": {}}}));
    invalid::<tasks::Get>(json!({"taskId": 1}));
    invalid::<tasks::Update>(json!({"taskId": "t"}));

    for revision in Revision::ALL {
        assert_eq!(refused::<tools::Call>(json!({"name": "t", "arguments": {}, "x": 1}), revision), None);
        assert_eq!(refused::<prompts::Get>(json!({"name": "p", "arguments": {"a": "1"}}), revision), None);
        assert_eq!(refused::<Listen>(json!({"notifications": {}}), revision), None);
        for reference in
            [json!({"type": "ref/prompt", "name": "p"}), json!({"type": "ref/resource", "uri": "a://{b}"})]
        {
            let params = json!({"ref": reference, "argument": argument});
            assert_eq!(refused::<completion::Complete>(params, revision), None);
        }
    }
}

#[test]
fn tool_needs_name_and_schema_and_keeps_every_keyword() {
    // TOOL-002, TOOL-040, TOOL-041
    let list = || tools::ListResult::new([Tool::new("t", Schema::object())]).next_cursor("c");
    for revision in Revision::ALL {
        let written = written::<tools::List>(list(), revision);
        assert_eq!(written["tools"], json!([{"name": "t", "inputSchema": {"type": "object"}}]));
        assert_eq!(written["nextCursor"], "c");
        for bad in [
            json!({"inputSchema": {"type": "object"}}),
            json!({"name": "t"}),
            json!({"name": "t", "inputSchema": null}),
        ] {
            assert!(read::<tools::List>(json!({"tools": [bad]}), revision).is_err(), "{bad}");
        }
        assert!(read::<tools::List>(json!({"nextCursor": "c"}), revision).is_err());
    }
    let nothing = tools::ListResult::new([Tool::new("t", Schema::from(Value::Null))]);
    assert_eq!(
        written::<tools::List>(nothing, V2025_11_25)["tools"][0]["inputSchema"],
        json!({"type": "object"})
    );
    let advanced = json!({"tools": [{"name": "t", "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "$defs": {"a": {"$anchor": "here", "enum": [null]}}, "properties": {"z": {"$ref": "#here"}, "a": {}},
        "anyOf": [{"required": ["z"]}], "if": {"minProperties": 2}, "then": {"not": {}}, "else": true, "x-own": 1.5,
    }}]});
    let kept = back::<tools::List>(&advanced, V2026_07_28);
    assert_eq!(kept["tools"][0].to_string(), advanced["tools"][0].to_string(), "in the order it had");
}

#[test]
fn a_call_names_its_tool_and_its_result_has_content() {
    // TOOL-007, TOOL-008, TOOL-029
    let call = CallParams::new("t").arguments(RawJson::from(json!({"a": 1})));
    let contents = [ResourceContents::text("a:b", "t"), ResourceContents::blob("a:c", "AAAA")];
    let embedded = contents.map(|contents| ContentBlock::Resource(EmbeddedResource::new(contents)));
    for revision in Revisions::ALL.handshake().newest_first() {
        assert_eq!(
            request_params::<tools::Call>(call.clone(), revision),
            Ok(json!({"name": "t", "arguments": {"a": 1}}))
        );
        assert_eq!(written::<tools::Call>(CallResult::new([]).into(), revision), json!({"content": []}));
        assert_eq!(
            written::<tools::Call>(CallResult::error("no").into(), revision),
            json!({"content": [{"type": "text", "text": "no"}], "isError": true})
        );
        assert_eq!(
            written::<tools::Call>(CallResult::new(embedded.clone()).into(), revision),
            json!({"content": [
                {"type": "resource", "resource": {"uri": "a:b", "text": "t"}},
                {"type": "resource", "resource": {"uri": "a:c", "blob": "AAAA"}},
            ]})
        );
    }
    for revision in Revision::ALL {
        let Ok(CallOutput::Complete(result)) = read::<tools::Call>(json!({"content": []}), revision) else {
            panic!()
        };
        assert!(!result.is_error.unwrap_or_default());
        assert!(read::<tools::Call>(json!({}), revision).is_err());
        assert!(read::<tools::Call>(json!({"content": {"type": "text", "text": "a"}}), revision).is_err());
    }
}

#[test]
fn resources_have_uris_and_text_or_binary_contents() {
    // RSRC-002, RSRC-004, RSRC-005, SCHM-026
    for revision in Revision::ALL {
        let list = resources::ListResult::new([resources::Resource::new("a:b", "n")]);
        assert_eq!(
            written::<resources::List>(list, revision)["resources"],
            json!([{"uri": "a:b", "name": "n"}])
        );
        for bad in [json!({"uri": "a:b"}), json!({"name": "n"})] {
            assert!(read::<resources::List>(json!({"resources": [bad]}), revision).is_err(), "{bad}");
        }
        // A directory may be read as its files.
        let both = [ResourceContents::text("a:b", "t"), ResourceContents::blob("a:c", "AAAA")];
        let result = written::<resources::Read>(resources::ReadResult::new(both).into(), revision);
        assert_eq!(result["contents"], json!([{"uri": "a:b", "text": "t"}, {"uri": "a:c", "blob": "AAAA"}]));
        for bad in [
            json!({"uri": "a:b"}),
            json!({"text": "t"}),
            json!({"uri": "a:b", "text": "t", "blob": "AAAA"}),
            json!({"uri": "a:b", "type": "text", "data": "t"}),
        ] {
            assert!(read::<resources::Read>(json!({"contents": [bad]}), revision).is_err(), "{bad}");
        }
        assert!(read::<resources::Read>(json!({}), revision).is_err());
    }
}

#[test]
fn resources_may_have_annotations() {
    // RSRC-026, RSRC-027, RSRC-028
    let annotations =
        json!({"audience": ["user", "assistant"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"});
    let list = json!({"resources": [{"uri": "a:b", "name": "n", "size": 7, "annotations": annotations}]});
    for revision in [V2025_06_18, V2025_11_25, V2026_07_28] {
        assert_eq!(back::<resources::List>(&list, revision)["resources"], list["resources"]);
    }
    for revision in [V2024_11_05, V2025_03_26] {
        let kept = back::<resources::List>(&list, revision)["resources"][0]["annotations"].take();
        assert_eq!(kept, json!({"audience": ["user", "assistant"], "priority": 0.5}));
    }
}

#[test]
fn prompts_have_names_and_become_messages() {
    // PRMT-002, PRMT-004, PRMT-011
    let list = json!({"prompts": [
        {"name": "p", "description": "d", "arguments": [{"name": "a", "description": "x", "required": true}]},
        {"name": "q"},
    ]});
    let mut link = json!({"description": "d", "messages": [
        {"role": "user", "content": {"type": "text", "text": "hi"}},
        {"role": "assistant", "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}},
    ]});
    for revision in Revision::ALL {
        assert_eq!(back::<prompts::List>(&list, revision)["prompts"], list["prompts"]);
        assert_eq!(back::<prompts::Get>(&link, revision)["messages"], link["messages"]);
        assert!(read::<prompts::List>(json!({"prompts": [{"description": "d"}]}), revision).is_err());
        assert!(read::<prompts::Get>(json!({"description": "d"}), revision).is_err());
        let bare = json!({"messages": [{"content": {"type": "text", "text": "hi"}}]});
        assert!(read::<prompts::Get>(bare, revision).is_err());
    }
    let params = prompts::GetParams::new("p")
        .arguments([("a", "1".to_owned())].into_iter().collect::<OrderedMap<_>>());
    assert_eq!(
        request_params::<prompts::Get>(params, V2025_11_25),
        Ok(json!({"name": "p", "arguments": {"a": "1"}}))
    );
    link["messages"][0]["content"] = json!({"type": "resource_link", "uri": "a:b", "name": "n"});
    for revision in [V2025_06_18, V2025_11_25, V2026_07_28] {
        assert_eq!(back::<prompts::Get>(&link, revision)["messages"], link["messages"]);
    }
}

#[test]
fn log_levels_are_those_of_syslog_and_data_is_any() {
    // LOG-002, LOG-012
    let names = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    let levels: Vec<Level> = names.iter().map(|name| serde_json::from_value(json!(name)).unwrap()).collect();
    assert!(levels.is_sorted_by(|less, more| less < more), "in rising severity");
    assert_eq!(levels.iter().map(|level| level.as_str()).collect::<Vec<_>>(), names);
    for bad in [json!("trace"), json!("Debug"), json!(7), json!({"debug": null})] {
        assert!(serde_json::from_value::<Level>(bad).is_err());
    }
    for data in [json!(null), json!("text"), json!([1]), json!({"a": {}}), json!(0.5), json!(false)] {
        for revision in Revision::ALL {
            let entry = LogParams::new(Level::Alert, RawJson::from(data.clone()));
            assert_eq!(
                notification_params::<Log>(entry, revision),
                Ok(json!({"level": "alert", "data": data}))
            );
        }
        let entry: LogParams =
            serde_json::from_value(json!({"level": "info", "logger": "l", "data": data})).unwrap();
        assert_eq!((entry.logger.as_deref(), entry.data), (Some("l"), RawJson::from(data)));
    }
    for bad in [json!({"level": "info"}), json!({"data": 1})] {
        assert!(serde_json::from_value::<LogParams>(bad).is_err());
    }
}

#[test]
fn on_2026_07_28_the_server_asks_only_inside_results() {
    // MRTR-001, SAMP-004, ELIC-006, ROOT-004
    let sample =
        || CreateMessageParams::new([SamplingMessage::new(Role::User, SamplingBlock::text("a"))], 1u64);
    let form = || ElicitParams::Form(FormParams::new("m", FormSchema::new()));
    assert_eq!(
        request_params::<CreateMessage>(sample(), V2026_07_28),
        Err(UnsupportedByRevisionError::Method("sampling/createMessage"))
    );
    assert_eq!(
        request_params::<elicitation::Create>(form(), V2026_07_28),
        Err(UnsupportedByRevisionError::Method("elicitation/create"))
    );
    assert_eq!(
        request_params::<roots::List>(EmptyParams::new(), V2026_07_28),
        Err(UnsupportedByRevisionError::Method("roots/list"))
    );
    for revision in [V2025_06_18, V2025_11_25] {
        assert!(request_params::<CreateMessage>(sample(), revision).is_ok());
        assert!(request_params::<elicitation::Create>(form(), revision).is_ok());
        assert!(request_params::<roots::List>(EmptyParams::new(), revision).is_ok());
    }
}

fn questions() -> InputRequired {
    let sample = CreateMessageParams::new([SamplingMessage::new(Role::User, SamplingBlock::text("a"))], 1u64);
    let page = UrlParams::new("m", "https://example.com").elicitation_id("only 2025-11-25 has one");
    let requests = [
        ("f", InputRequest::Elicit(ElicitParams::Form(FormParams::new("m", FormSchema::new())))),
        ("u", InputRequest::Elicit(ElicitParams::Url(page))),
        ("s", InputRequest::Sample(sample)),
        ("r", InputRequest::Roots(EmptyParams::new())),
    ];
    InputRequired::new().input_requests(requests.into_iter().collect::<OrderedMap<_>>())
}

#[test]
fn questions_stand_under_their_keys_without_an_envelope() {
    // MRTR-005; a state without questions is fine too.
    assert_eq!(
        written::<tools::Call>(questions().into(), V2026_07_28),
        json!({"resultType": "input_required", "inputRequests": {
            "f": {"method": "elicitation/create",
                "params": {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}},
            "u": {"method": "elicitation/create",
                "params": {"mode": "url", "message": "m", "url": "https://example.com"}},
            "s": {"method": "sampling/createMessage", "params": {
                "messages": [{"role": "user", "content": {"type": "text", "text": "a"}}], "maxTokens": 1}},
            "r": {"method": "roots/list"},
        }})
    );
    let state = InputRequired::new().request_state("s");
    let only_state = json!({"resultType": "input_required", "requestState": "s"});
    assert_eq!(written::<tools::Call>(state.into(), V2026_07_28), only_state);
    assert!(read::<tools::Call>(only_state, V2026_07_28).is_ok());
    let twice = r#"{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"},"k":{"method":"roots/list"}}}"#;
    let twice = RawJson::parse(twice).unwrap();
    let result = read_result::<tools::Call>(Raw::from(&twice), V2026_07_28);
    assert!(result.is_err(), "a key stands there once");
}

#[test]
fn only_calls_reads_and_prompts_are_answered_with_a_question() {
    // MRTR-002, TOOL-047, RSRC-009, PRMT-005
    let question = written::<tools::Call>(questions().into(), V2026_07_28);
    assert_eq!(
        written::<resources::Read>(MaybeInputRequired::InputRequired(questions()), V2026_07_28),
        question
    );
    assert_eq!(
        written::<prompts::Get>(MaybeInputRequired::InputRequired(questions()), V2026_07_28),
        question
    );
    assert!(matches!(read::<tools::Call>(question.clone(), V2026_07_28), Ok(CallOutput::InputRequired(_))));
    assert!(matches!(
        read::<resources::Read>(question.clone(), V2026_07_28),
        Ok(MaybeInputRequired::InputRequired(_))
    ));
    assert!(matches!(
        read::<prompts::Get>(question.clone(), V2026_07_28),
        Ok(MaybeInputRequired::InputRequired(_))
    ));

    fn never<M: Method<Output: Translate + InferResultType>>(question: &Value, members: Value) {
        let mut result = question.clone();
        result.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        assert!(read::<M>(result.clone(), V2026_07_28).is_err(), "{}", M::NAME);
        result["resultType"] = json!("complete");
        assert!(read::<M>(result, V2026_07_28).is_ok(), "{}", M::NAME);
    }
    never::<Discover>(&question, json!({"supportedVersions": [], "capabilities": {}}));
    never::<tools::List>(&question, json!({"tools": []}));
    never::<resources::List>(&question, json!({"resources": []}));
    never::<resources::ListTemplates>(&question, json!({"resourceTemplates": []}));
    never::<prompts::List>(&question, json!({"prompts": []}));
    never::<completion::Complete>(&question, json!({"completion": {"values": []}}));
    never::<Listen>(&question, json!({}));
    never::<tasks::Cancel>(&question, json!({}));
    never::<tasks::Update>(&question, json!({}));
    let task =
        json!({"taskId": "t", "status": "working", "createdAt": "a", "lastUpdatedAt": "b", "ttlMs": null});
    never::<tasks::Get>(&question, task);
}

#[test]
fn cacheable_results_have_a_ttl_and_a_scope() {
    // CACH-001, CACH-002, CACH-003, CACH-004
    let hints = |result: Value| (result["ttlMs"].clone(), result["cacheScope"].clone());
    for result in [
        written::<Discover>(DiscoverResult::new(Vec::new(), ServerCapabilities::new()), V2026_07_28),
        written::<tools::List>(tools::ListResult::new([]), V2026_07_28),
        written::<prompts::List>(prompts::ListResult::new([]), V2026_07_28),
        written::<resources::List>(resources::ListResult::new([]), V2026_07_28),
        written::<resources::ListTemplates>(resources::ListTemplatesResult::new([]), V2026_07_28),
        written::<resources::Read>(resources::ReadResult::new([]).into(), V2026_07_28),
    ] {
        assert_eq!(hints(result), (json!(0), json!("private")));
    }
    let question = written::<resources::Read>(MaybeInputRequired::InputRequired(questions()), V2026_07_28);
    assert_eq!(hints(question), (Value::Null, Value::Null));
    for (scope, is_one) in [("public", true), ("private", true), ("shared", false), ("", false)] {
        let list = json!({"tools": [], "ttlMs": 1, "cacheScope": scope});
        assert_eq!(read::<tools::List>(list, V2026_07_28).is_ok(), is_one, "{scope}");
    }
}

#[test]
fn every_result_on_2026_07_28_has_a_result_type() {
    // JRPC-042
    let kind = |result: Value| result["resultType"].as_str().map(str::to_owned);
    for result in [
        written::<tools::Call>(CallResult::new([]).into(), V2026_07_28),
        written::<tools::List>(tools::ListResult::new([]), V2026_07_28),
        written::<prompts::Get>(prompts::GetResult::new([]).into(), V2026_07_28),
        written::<completion::Complete>(
            completion::CompleteResult::new(completion::Completion::new([])),
            V2026_07_28,
        ),
        written::<tasks::Update>(EmptyResult::new(), V2026_07_28),
    ] {
        assert_eq!(kind(result).as_deref(), Some("complete"));
    }
    assert_eq!(
        kind(written::<tools::Call>(questions().into(), V2026_07_28)).as_deref(),
        Some("input_required")
    );
    let created = CreateTaskResult::new(Task::new("t", TaskStatus::Working, "a", "b"));
    assert_eq!(kind(written::<tools::Call>(created.into(), V2026_07_28)).as_deref(), Some("task"));
    for revision in Revisions::ALL.handshake().newest_first() {
        assert_eq!(kind(written::<tools::Call>(CallResult::new([]).into(), revision)), None);
    }
}

#[test]
fn discover_lists_capabilities_without_server_info_in_its_body() {
    // VER-013
    let result =
        DiscoverResult::new(["2026-07-28".to_owned()], ServerCapabilities::new()).instructions("Ask.");
    assert_eq!(
        written::<Discover>(result, V2026_07_28),
        json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {},
            "instructions": "Ask.", "ttlMs": 0, "cacheScope": "private",
        })
    );
    for bad in [json!({"capabilities": {}}), json!({"supportedVersions": []})] {
        assert!(read::<Discover>(bad, V2026_07_28).is_err());
    }
}

#[test]
fn both_sides_of_a_handshake_say_version_capabilities_and_name() {
    // LIFE-004, LIFE-005, SCHM-024
    let offered = Revision::NEWEST_HANDSHAKE;
    let params =
        InitializeParams::new(offered.as_str(), ClientCapabilities::new(), Implementation::new("c", "1"));
    assert_eq!(
        request_params::<Initialize>(params, offered),
        Ok(
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}})
        )
    );
    let server = Implementation::new("s", "2");
    for revision in Revisions::ALL.handshake().newest_first() {
        let greeting = InitializeResult::new(revision.as_str(), ServerCapabilities::new(), server.clone());
        let mut expected = json!({
            "protocolVersion": revision.as_str(), "capabilities": {}, "serverInfo": {"name": "s", "version": "2"},
        });
        assert_eq!(written::<Initialize>(greeting.clone(), revision), expected);
        expected["instructions"] = json!("Ask.");
        assert_eq!(written::<Initialize>(greeting.instructions("Ask."), revision), expected);
        for member in ["protocolVersion", "capabilities", "serverInfo"] {
            let mut bad = expected.clone();
            bad.as_object_mut().unwrap().remove(member);
            assert!(read::<Initialize>(bad, revision).is_err(), "{member}");
        }
        for bad in [json!({"name": "s"}), json!({"version": "2"}), json!({"name": "s", "version": 2})] {
            expected["serverInfo"] = bad;
            assert!(read::<Initialize>(expected.clone(), revision).is_err());
        }
    }
}

#[test]
fn a_cancellation_names_its_request() {
    // CANC-007
    for revision in Revision::ALL {
        let without_id = cancellation::CancelledParams::new();
        assert_eq!(
            notification_params::<cancellation::Cancelled>(without_id, revision),
            Err(UnsupportedByRevisionError::MissingMember("requestId"))
        );
        let params = cancellation::CancelledParams::new().request_id(Id::from("7")).reason("late");
        assert_eq!(
            notification_params::<cancellation::Cancelled>(params, revision),
            Ok(json!({"requestId": "7", "reason": "late"}))
        );
    }
}

#[test]
fn task_state_includes_its_result_error_or_requests() {
    let state = |status| GetResult::new(Task::new("t", status, "a", "b"));
    let shown = |status: &str, more: Value| {
        let mut shown = json!({
            "resultType": "complete", "taskId": "t", "status": status, "createdAt": "a", "lastUpdatedAt": "b",
            "ttlMs": null,
        });
        shown.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        shown
    };
    let get = |state: GetResult| written::<tasks::Get>(state, V2026_07_28);
    assert_eq!(get(state(TaskStatus::Working)), shown("working", json!({})));
    let mut done = state(TaskStatus::Completed);
    done.result = Some(RawJson::from(json!({"content": []})));
    assert_eq!(get(done), shown("completed", json!({"result": {"content": []}})));
    let mut failed = state(TaskStatus::Failed);
    failed.error = Some(ErrorObject::new(-32603, "m"));
    assert_eq!(get(failed), shown("failed", json!({"error": {"code": -32603, "message": "m"}})));
    let mut waiting = state(TaskStatus::InputRequired);
    waiting.input_requests = Some([("r", InputRequest::Roots(EmptyParams::new()))].into_iter().collect());
    assert_eq!(
        get(waiting),
        shown("input_required", json!({"inputRequests": {"r": {"method": "roots/list"}}}))
    );
    for (status, member) in [
        (TaskStatus::Completed, "result"),
        (TaskStatus::Failed, "error"),
        (TaskStatus::InputRequired, "inputRequests"),
    ] {
        let refused =
            write_result::<tasks::Get>(&mut Vec::new(), &Id::from(1), state(status), V2026_07_28, None);
        assert_eq!(refused, Err(UnsupportedByRevisionError::MissingMember(member)));
    }
    let mut cancelled = CancelResult::default();
    cancelled.task = Some(Task::new("t", TaskStatus::Cancelled, "a", "b"));
    assert_eq!(written::<tasks::Cancel>(cancelled, V2026_07_28), json!({"resultType": "complete"}));
    assert_eq!(written::<tasks::Update>(EmptyResult::new(), V2026_07_28), json!({"resultType": "complete"}));
}

#[test]
fn a_task_instead_of_a_list_is_an_invalid_answer() {
    let mut task = json!({
        "resultType": "task", "taskId": "t", "status": "working", "createdAt": "a", "lastUpdatedAt": "b",
        "ttlMs": null, "tools": [], "messages": [], "contents": [], "completion": {"values": []},
    });
    assert!(matches!(read::<tools::Call>(task.clone(), V2026_07_28), Ok(CallOutput::Task(_))));
    for expected in [false, true] {
        assert_eq!(read::<tools::List>(task.clone(), V2026_07_28).is_ok(), expected);
        assert_eq!(read::<prompts::Get>(task.clone(), V2026_07_28).is_ok(), expected);
        assert_eq!(read::<resources::Read>(task.clone(), V2026_07_28).is_ok(), expected);
        assert_eq!(read::<completion::Complete>(task.clone(), V2026_07_28).is_ok(), expected);
        task["resultType"] = json!("complete");
    }
}

#[test]
fn tasks_are_a_capability_only_on_2025_11_25() {
    for revision in Revision::ALL {
        let mut client = ClientCapabilities::new().tasks(TasksCapability::new());
        let mut server = ServerCapabilities::new().tasks(TasksCapability::new());
        client.downgrade(revision).unwrap();
        server.downgrade(revision).unwrap();
        assert_eq!(client.tasks.is_some(), revision == V2025_11_25);
        assert_eq!(server.tasks.is_some(), revision == V2025_11_25);
    }
}

#[test]
fn titles_icons_and_meta_stand_wherever_they_may() {
    // SCHM-021, SCHM-022, SCHM-023, SCHM-028
    let icons =
        json!([{"src": "data:,", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "dark"}]);
    let meta = json!({"com.example/a": [1, {}]});
    let named = json!({"name": "n", "title": "N", "icons": icons, "_meta": meta});
    let with = |more: Value| {
        let mut all = named.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let tools = json!({"tools": [with(json!({"inputSchema": {"type": "object"}}))]});
    let resources = json!({"resources": [with(json!({"uri": "a:b"}))]});
    let templates = json!({"resourceTemplates": [with(json!({"uriTemplate": "a:{b}"}))]});
    let prompts = json!({"prompts": [with(json!({"arguments": [{"name": "a", "title": "A"}]}))]});
    let content =
        json!({"messages": [{"role": "user", "content": {"type": "text", "text": "t", "_meta": meta}}]});
    for revision in [V2025_11_25, V2026_07_28] {
        assert_eq!(back::<tools::List>(&tools, revision)["tools"], tools["tools"]);
        assert_eq!(back::<resources::List>(&resources, revision)["resources"], resources["resources"]);
        let kept = back::<resources::ListTemplates>(&templates, revision)["resourceTemplates"].take();
        assert_eq!(kept, templates["resourceTemplates"]);
        assert_eq!(back::<prompts::List>(&prompts, revision)["prompts"], prompts["prompts"]);
        assert_eq!(back::<prompts::Get>(&content, revision)["messages"], content["messages"]);
    }
    let roots = json!({"roots": [{"uri": "file:///a", "_meta": meta}]});
    assert_eq!(back::<roots::List>(&roots, V2025_11_25), roots);
    let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {
        "name": "s", "version": "1", "title": "S", "description": "d", "websiteUrl": "https://example.com", "icons": icons,
    }});
    assert_eq!(back::<Initialize>(&greeting, V2025_11_25), greeting);
}
