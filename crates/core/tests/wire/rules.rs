//! Encoding rules, one test each, with the messages as they are on the wire.

use serde_json::{Value, json};
use tsugite_core::jsonrpc::{ErrorObject, Id, Raw, RawJson};
use tsugite_core::protocol::capabilities::{ElicitationCapability, RootsCapability};
use tsugite_core::protocol::content::SamplingBlock;
use tsugite_core::protocol::discover::Discover;
use tsugite_core::protocol::elicitation::{self, ElicitParams, FormParams, UrlParams};
use tsugite_core::protocol::form::{ChoiceOptions, Field, FormSchema, TitledOption};
use tsugite_core::protocol::meta::ClientMeta;
use tsugite_core::protocol::mrtr::InputRequired;
use tsugite_core::protocol::sampling::{CreateMessage, CreateMessageResult, SamplingContent};
use tsugite_core::protocol::tasks::{self, CreateTaskResult, GetResult, Task, TaskStatus};
use tsugite_core::protocol::tools::{self, CallOutput, CallResult, Tool};
use tsugite_core::protocol::{
    ClientCapabilities, ContentBlock, Implementation, Method, Object, Role, Schema, ServerCapabilities,
    resources,
};
use tsugite_core::revision::{
    InferResultType, Revision, Revisions, RpcError, ServerInfoMeta, Translate, UnsupportedByRevisionError,
    read_input_response, read_params, read_result, write_request, write_request_with_meta, write_result,
};

use Revision::*;

pub(crate) fn written<M: Method>(output: M::Output, to: Revision) -> Value
where
    M::Output: Translate,
{
    let mut out = Vec::new();
    write_result::<M>(&mut out, &Id::from(1), output, to, None).unwrap();
    serde_json::from_slice::<Value>(&out).unwrap()["result"].take()
}

pub(crate) fn read<M: Method>(result: Value, from: Revision) -> Result<M::Output, String>
where
    M::Output: Translate + InferResultType,
{
    read_result::<M>(Raw::from(&RawJson::from(result)), from).map_err(|error| error.to_string())
}

fn tool(tool: Tool, to: Revision) -> Value {
    written::<tools::List>(tools::ListResult::new([tool]), to)["tools"][0].take()
}

#[test]
fn title_is_in_the_annotations_on_2025_03_26() {
    let titled = || Tool::new("add", Schema::object()).title("Addition");
    assert_eq!(tool(titled(), V2024_11_05), json!({"name": "add", "inputSchema": {"type": "object"}}));
    assert_eq!(tool(titled(), V2025_03_26)["annotations"], json!({"title": "Addition"}));
    assert_eq!(tool(titled(), V2025_06_18)["title"], "Addition");
    let old = json!({"tools": [{"name": "add", "inputSchema": {"type": "object"}, "annotations": {"title": "Addition"}}]});
    assert_eq!(read::<tools::List>(old, V2025_03_26).unwrap().tools, [titled()]);
}

#[test]
fn boolean_properties_become_objects_before_2026_07_28() {
    let schema = json!({"type": "object", "properties": {"a": true, "b": false, "c": {"items": true}}});
    let any = || Tool::new("t", Schema::from(schema.clone()));
    assert_eq!(tool(any(), V2026_07_28)["inputSchema"], schema);
    for revision in Revisions::ALL.handshake().newest_first() {
        let properties = &tool(any(), revision)["inputSchema"]["properties"];
        assert_eq!(*properties, json!({"a": {}, "b": {"not": {}}, "c": {"items": true}}));
    }
}

#[test]
fn structured_output_is_an_object_in_handshake_revisions() {
    // TOOL-031, TOOL-032, TOOL-036, TOOL-037
    let listed = || Tool::new("t", Schema::object()).output_schema(Schema::from(json!({"type": "array"})));
    assert!(tool(listed(), V2026_07_28).get("outputSchema").is_some());
    assert!(tool(listed(), V2025_11_25).get("outputSchema").is_none());
    let result = |json: Value| CallOutput::from(CallResult::new([]).structured_content(RawJson::from(json)));
    let objects = written::<tools::Call>(result(json!({"a": 1})), V2025_06_18);
    assert_eq!(objects, json!({"content": [], "structuredContent": {"a": 1}}));
    // Nothing is lost: content that cannot be structured is written as text.
    let array = written::<tools::Call>(result(json!([1, 2])), V2025_11_25);
    assert_eq!(array, json!({"content": [{"type": "text", "text": "[1,2]"}]}));
    let older = written::<tools::Call>(result(json!({"a": 1})), V2025_03_26);
    assert_eq!(older, json!({"content": [{"type": "text", "text": "{\"a\":1}"}]}));
    assert_eq!(written::<tools::Call>(result(json!(null)), V2026_07_28)["structuredContent"], Value::Null);
}

#[test]
fn sound_and_links_are_said_in_older_words() {
    // SCHM-025, TOOL-025, TOOL-027, TOOL-028
    let blocks = json!({"content": [
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "title": "The A", "description": "First."},
    ]});
    let result = read::<tools::Call>(blocks.clone(), V2025_11_25).unwrap();
    assert_eq!(written::<tools::Call>(result.clone(), V2025_06_18), blocks);
    let older = written::<tools::Call>(result.clone(), V2025_03_26);
    assert_eq!(older["content"][0]["type"], "audio");
    assert_eq!(older["content"][1], json!({"type": "text", "text": "The A: file:///a\nFirst."}));
    let oldest = written::<tools::Call>(result, V2024_11_05);
    assert_eq!(oldest["content"][0]["resource"]["blob"], "AAAA");
    assert_eq!(oldest["content"][0]["resource"]["mimeType"], "audio/wav");
}

#[test]
fn cache_hints_need_2026_07_28_and_default_to_private() {
    // CACH-003, CACH-004: the hints are required there; their default keeps nothing.
    let list = || tools::ListResult::new([]).ttl_ms(5u64);
    let newest = written::<tools::List>(list(), V2026_07_28);
    assert_eq!(newest, json!({"resultType": "complete", "tools": [], "ttlMs": 5, "cacheScope": "private"}));
    assert_eq!(written::<tools::List>(list(), V2025_11_25), json!({"tools": []}));
}

#[test]
fn results_on_2026_07_28_add_server_info_to_meta() {
    // VER-007
    let stamp = ServerInfoMeta::new(Implementation::new("s", "1"));
    let mut out = Vec::new();
    write_result::<tools::Call>(
        &mut out,
        &Id::from(1),
        CallResult::from_text("x").into(),
        V2026_07_28,
        Some(&stamp),
    )
    .unwrap();
    let result = serde_json::from_slice::<Value>(&out).unwrap()["result"].take();
    assert_eq!(result["_meta"], json!({"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}));
    let mut with_meta = CallResult::from_text("x");
    with_meta.meta.get_or_insert_default().insert("com.example/a", &1);
    let mut out = Vec::new();
    write_result::<tools::Call>(&mut out, &Id::from(1), with_meta.into(), V2026_07_28, Some(&stamp)).unwrap();
    let result = serde_json::from_slice::<Value>(&out).unwrap()["result"].take();
    assert_eq!(result["_meta"]["com.example/a"], 1);
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "s");
    let mut out = Vec::new();
    write_result::<tools::Call>(
        &mut out,
        &Id::from(1),
        CallResult::from_text("x").into(),
        V2025_11_25,
        Some(&stamp),
    )
    .unwrap();
    assert!(!String::from_utf8(out).unwrap().contains("serverInfo"));
}

#[test]
fn request_of_2026_07_28_needs_client_meta() {
    // VER-001, VER-002, ROOT-002
    let mut out = Vec::new();
    let params = tools::CallParams::new("add");
    let missing = write_request::<tools::Call>(&mut out, &Id::from(1), params.clone(), V2026_07_28);
    assert_eq!(
        missing,
        Err(UnsupportedByRevisionError::MissingMember("io.modelcontextprotocol/protocolVersion"))
    );
    assert!(out.is_empty());
    let capabilities = ClientCapabilities::new().roots(RootsCapability::new().list_changed(true));
    let mut claiming = params;
    claiming
        .meta
        .get_or_insert_default()
        .set_client_meta(&ClientMeta::for_revision(V2026_07_28, capabilities));
    write_request::<tools::Call>(&mut out, &Id::from(1), claiming.clone(), V2026_07_28).unwrap();
    let meta = serde_json::from_slice::<Value>(&out).unwrap()["params"]["_meta"].take();
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({"roots": {}}));
    let mut out = Vec::new();
    write_request::<tools::Call>(&mut out, &Id::from(1), claiming, V2025_11_25).unwrap();
    assert!(!String::from_utf8(out).unwrap().contains("_meta"));
}

#[test]
fn a_stamp_stands_first_and_only_once() {
    let stamp = r#""progressToken":7"#;
    let written = |params, to, stamp: &str| {
        let mut out = Vec::new();
        write_request_with_meta::<tools::Call>(&mut out, &Id::from(7), params, to, stamp)
            .map(|()| String::from_utf8(out).unwrap())
    };
    let call = tools::CallParams::new("add");
    let expected = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":7},"name":"add"}}"#;
    assert_eq!(written(call.clone(), V2025_11_25, stamp).unwrap(), expected);
    let plain = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}"#;
    assert_eq!(written(call.clone(), V2024_11_05, "").unwrap(), plain);
    assert!(written(call.meta(tsugite_core::protocol::Meta::new()), V2025_11_25, stamp).is_err());
    let mut out = Vec::new();
    let discover = write_request_with_meta::<Discover>(
        &mut out,
        &Id::from(1),
        tsugite_core::protocol::EmptyParams::new(),
        V2025_11_25,
        "",
    );
    assert_eq!(discover, Err(UnsupportedByRevisionError::Method("server/discover")));
    assert!(out.is_empty());
}

#[test]
fn retry_and_task_params_are_read_only_where_defined() {
    let params = RawJson::from(json!({
        "name": "t", "inputResponses": {"k": {}}, "requestState": "s", "task": {"ttl": 1},
    }));
    for revision in Revision::ALL {
        let read = read_params::<tools::Call>(Raw::from(&params), revision).unwrap();
        assert_eq!(read.request_state.is_some(), revision == V2026_07_28);
        assert_eq!(read.input_responses.is_some(), revision == V2026_07_28);
        assert_eq!(read.task.is_some(), revision == V2025_11_25);
    }
}

fn form() -> FormSchema {
    let titled = [("r", "Red"), ("g", "Green")]
        .map(|(value, title)| TitledOption { value: value.to_owned(), title: title.to_owned() });
    FormSchema::new().required_field("colour", Field::choice(ChoiceOptions::Titled(titled.to_vec())))
}

fn elicit_params(params: ElicitParams, to: Revision) -> Result<Value, UnsupportedByRevisionError> {
    let mut out = Vec::new();
    write_request::<elicitation::Create>(&mut out, &Id::from(1), params, to)?;
    Ok(serde_json::from_slice::<Value>(&out).unwrap()["params"].take())
}

#[test]
fn titled_choices_are_enum_names_on_2025_06_18() {
    // ELIC-007 not before, ELIC-011 in its own words there.
    let params = || ElicitParams::Form(FormParams::new("Which?", form()));
    let old = elicit_params(params(), V2025_06_18).unwrap();
    assert_eq!(
        old["requestedSchema"]["properties"]["colour"],
        json!({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]})
    );
    let back = read_params::<elicitation::Create>(Raw::from(&RawJson::from(old)), V2025_06_18).unwrap();
    assert_eq!(back, params());
    for revision in [V2024_11_05, V2025_03_26] {
        assert_eq!(
            elicit_params(params(), revision),
            Err(UnsupportedByRevisionError::Method("elicitation/create"))
        );
    }
}

#[test]
fn multiple_choice_and_urls_are_unsupported_on_2025_06_18() {
    // ELIC-022 needs an id there.
    let several =
        FormSchema::new().field("c", Field::multiple_choice(ChoiceOptions::Plain(vec!["a".to_owned()])));
    let several = ElicitParams::Form(FormParams::new("Which?", several));
    assert_eq!(elicit_params(several.clone(), V2025_06_18), Err(UnsupportedByRevisionError::MultipleChoice));
    assert!(elicit_params(several, V2025_11_25).is_ok());
    let page = UrlParams::new("Sign in", "https://example.com");
    assert_eq!(
        elicit_params(ElicitParams::Url(page.clone()), V2025_06_18),
        Err(UnsupportedByRevisionError::UrlElicitation)
    );
    assert_eq!(
        elicit_params(ElicitParams::Url(page.clone()), V2025_11_25),
        Err(UnsupportedByRevisionError::MissingMember("elicitationId"))
    );
    let named = elicit_params(ElicitParams::Url(page.elicitation_id("e")), V2025_11_25).unwrap();
    assert_eq!(named["elicitationId"], "e");
}

#[test]
fn an_empty_elicitation_capability_means_forms() {
    // ELIC-003
    assert!(ElicitationCapability::new().supports_form() && !ElicitationCapability::new().supports_url());
    let pages_only = ElicitationCapability::new().url(Object::new());
    assert!(!pages_only.supports_form() && pages_only.supports_url());
    // A client without forms has no elicitation on 2025-06-18.
    let mut capabilities = ClientCapabilities::new().elicitation(pages_only);
    capabilities.downgrade(V2025_06_18).unwrap();
    assert_eq!(capabilities, ClientCapabilities::new());
}

#[test]
fn the_tasks_extension_switches_nothing_on_before_2026_07_28() {
    let extensions =
        || Object::from_iter([(tasks::EXTENSION.to_owned(), json!({})), ("a.b/c".to_owned(), json!({}))]);
    let mut capabilities = ClientCapabilities::new().extensions(extensions());
    capabilities.upgrade(V2025_11_25);
    assert_eq!(capabilities.extensions, Some(Object::from_iter([("a.b/c".to_owned(), json!({}))])));
    let mut capabilities = ClientCapabilities::new().extensions(extensions());
    capabilities.upgrade(V2026_07_28);
    assert_eq!(capabilities.extensions, Some(extensions()));
}

#[test]
fn unknown_capabilities_are_kept() {
    // LIFE-017, LIFE-018, SCHM-008
    let declared =
        json!({"tools": {"listChanged": true, "x": 1}, "shelves": {"top": []}, "experimental": {"e": {}}});
    let capabilities: ServerCapabilities = serde_json::from_value(declared.clone()).unwrap();
    assert_eq!(serde_json::to_value(capabilities).unwrap(), declared);
}

#[test]
fn content_blocks_become_separate_messages_before_2025_11_25() {
    let result = || {
        CreateMessageResult::new(
            Role::Assistant,
            SamplingContent::Multiple(vec![SamplingBlock::text("one"), SamplingBlock::text("two")]),
            "m",
        )
    };
    assert_eq!(
        written::<CreateMessage>(result().into(), V2025_06_18)["content"],
        json!({"type": "text", "text": "one\ntwo"})
    );
    assert_eq!(
        written::<CreateMessage>(result().into(), V2025_11_25)["content"].as_array().unwrap().len(),
        2
    );
    let params = RawJson::from(json!({"maxTokens": 1, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ]}));
    let params = read_params::<CreateMessage>(Raw::from(&params), V2025_11_25).unwrap();
    let mut out = Vec::new();
    write_request::<CreateMessage>(&mut out, &Id::from(1), params, V2024_11_05).unwrap();
    let messages = serde_json::from_slice::<Value>(&out).unwrap()["params"]["messages"].take();
    assert_eq!(messages.as_array().unwrap().len(), 2);
    assert_eq!(messages[1]["content"]["text"], "b");
}

#[test]
fn sampling_tools_are_unsupported_before_2025_11_25() {
    let params = RawJson::from(json!({"maxTokens": 1, "messages": [
        {"role": "user", "content": {"type": "tool_use", "id": "1", "name": "t", "input": {}}},
    ]}));
    let params = read_params::<CreateMessage>(Raw::from(&params), V2025_11_25).unwrap();
    let refused = write_request::<CreateMessage>(&mut Vec::new(), &Id::from(1), params, V2025_06_18);
    assert_eq!(refused, Err(UnsupportedByRevisionError::SamplingTools));
}

#[test]
fn task_is_nested_on_2025_11_25_and_later_flat() {
    let mut task = Task::new("t", TaskStatus::Working, "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
    task.poll_interval_ms = Some(500);
    let created = || CallOutput::from(CreateTaskResult::new(task.clone()));
    assert_eq!(
        written::<tools::Call>(created(), V2026_07_28),
        json!({
            "resultType": "task", "taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:01Z", "ttlMs": null, "pollIntervalMs": 500,
        })
    );
    assert_eq!(
        written::<tools::Call>(created(), V2025_11_25),
        json!({"task": {
            "taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:01Z", "ttl": null, "pollInterval": 500,
        }})
    );
}

#[test]
fn a_client_may_promise_an_answer_on_2025_11_25() {
    let task = json!({"task": {
        "taskId": "t", "status": "working", "createdAt": "a", "lastUpdatedAt": "b", "ttl": null,
    }});
    let promised = read::<CreateMessage>(task.clone(), V2025_11_25).unwrap();
    assert_eq!(written::<CreateMessage>(promised, V2025_11_25), task);
    assert!(read::<CreateMessage>(task.clone(), V2025_06_18).is_err());
    assert!(read_input_response::<CreateMessage>(&RawJson::from(task)).is_err());
}

#[test]
fn failed_tool_fails_its_task_only_on_2025_11_25() {
    let done = || {
        let mut state = GetResult::new(Task::new("t", TaskStatus::Completed, "a", "b"));
        state.result = Some(RawJson::from(json!({"content": [], "isError": true})));
        state
    };
    assert_eq!(written::<tasks::Get>(done(), V2025_11_25)["status"], "failed");
    assert_eq!(written::<tasks::Get>(done(), V2026_07_28)["status"], "completed");
    let mut bare = done();
    bare.result = None;
    let refused = write_result::<tasks::Get>(&mut Vec::new(), &Id::from(1), bare, V2026_07_28, None);
    assert_eq!(refused, Err(UnsupportedByRevisionError::MissingMember("result")));
    // The extension's own examples call the result `task`.
    let state = json!({"resultType": "task", "taskId": "t", "status": "working", "createdAt": "a", "lastUpdatedAt": "b", "ttlMs": 1.5});
    assert_eq!(read::<tasks::Get>(state, V2026_07_28).unwrap().task.ttl_ms, Some(1));
}

#[test]
fn input_required_needs_a_request_and_a_stateless_peer() {
    // MRTR-004
    let nothing = InputRequired::new();
    let write = |elicit_params: InputRequired, to| {
        write_result::<tools::Call>(&mut Vec::new(), &Id::from(1), elicit_params.into(), to, None)
    };
    assert_eq!(
        write(nothing.clone(), V2026_07_28),
        Err(UnsupportedByRevisionError::MissingMember("inputRequests"))
    );
    assert_eq!(
        write(nothing.request_state("s"), V2025_11_25),
        Err(UnsupportedByRevisionError::InputRequired)
    );
    assert!(read::<tools::Call>(json!({"resultType": "input_required"}), V2026_07_28).is_err());
    // Only three kinds of input requests are allowed.
    let foreign = json!({"resultType": "input_required", "inputRequests": {"k": {"method": "tools/call", "params": {}}}});
    assert!(read::<tools::Call>(foreign, V2026_07_28).is_err());
}

#[test]
fn errors_are_numbered_by_the_peers_revision() {
    // JRPC-035, JRPC-033, JRPC-034, ELIC-030
    let missing = RpcError::ResourceNotFound { uri: "file:///x".to_owned() };
    assert_eq!(
        Revision::ALL.map(|revision| missing.code(revision)),
        [-32002, -32002, -32002, -32002, -32602]
    );
    let unknown = RpcError::UnknownTool { name: "t".to_owned() };
    assert_eq!(Revision::ALL.map(|revision| unknown.code(revision)), [-32602; 5]);
    let capability = RpcError::MissingCapability { required: Box::new(ClientCapabilities::new()) };
    assert_eq!(capability.code(V2026_07_28), -32021);
    let pages =
        vec![UrlParams::new("m", "https://example.com").elicitation_id("e"), UrlParams::new("m", "urn:x")];
    let pages = RpcError::UrlElicitationRequired { elicitations: pages };
    let error = pages.to_error_object(V2025_11_25);
    assert_eq!(error.code, -32042);
    assert_eq!(error.data.unwrap().read::<Value>().unwrap()["elicitations"].as_array().unwrap().len(), 1);
    assert_eq!(pages.code(V2026_07_28), -32021);
    for (code, newest) in
        [(-32002, -32602), (-32042, -32603), (-32000, -32603), (-32050, -32603), (-1, -1), (7, 7)]
    {
        let other = RpcError::Other(ErrorObject::new(code, "m").data(&1));
        assert_eq!(other.to_error_object(V2025_11_25).code, code);
        assert_eq!(other.to_error_object(V2026_07_28).code, newest);
        assert_eq!(other.to_error_object(V2026_07_28).message, "m");
    }
    let task = RpcError::TaskRequired { name: "t".to_owned() };
    assert_eq!((task.code(V2025_11_25), task.code(V2026_07_28)), (-32601, -32021));
}

#[test]
fn missing_capability_error_names_it_as_an_object() {
    // VER-018
    let required = ClientCapabilities::new().elicitation(ElicitationCapability::new());
    let error = RpcError::MissingCapability { required: Box::new(required) }.to_error_object(V2026_07_28);
    assert_eq!(
        error.data.unwrap().read::<Value>().unwrap(),
        json!({"requiredCapabilities": {"elicitation": {}}})
    );
}

#[test]
fn errors_are_understood_by_where_they_come_from() {
    // JRPC-036, JRPC-032: no other code in that block has a meaning.
    let error = |code| ErrorObject::new(code, "m").data(&json!({"uri": "file:///x"}));
    let missing = RpcError::from_error_object(error(-32002), resources::Read::NAME, V2026_07_28);
    assert_eq!(missing, RpcError::ResourceNotFound { uri: "file:///x".to_owned() });
    assert!(matches!(
        RpcError::from_error_object(error(-32002), tools::List::NAME, V2025_11_25),
        RpcError::Other(_)
    ));
    assert!(matches!(
        RpcError::from_error_object(error(-32020), tools::List::NAME, V2025_11_25),
        RpcError::Other(_)
    ));
    assert!(matches!(
        RpcError::from_error_object(error(-32020), tools::List::NAME, V2026_07_28),
        RpcError::HeaderMismatch(_)
    ));
    assert!(matches!(
        RpcError::from_error_object(error(-32001), tools::List::NAME, V2026_07_28),
        RpcError::Other(_)
    ));
    assert_eq!(
        RpcError::from_error_object(error(-1), CreateMessage::NAME, V2025_11_25),
        RpcError::UserRejected
    );
}

#[test]
fn an_unknown_tool_is_understood_by_either_number() {
    let gone = |message: &'static str, from| {
        RpcError::from_error_object(ErrorObject::new(-32601, message), tools::Call::NAME, from)
    };
    let unknown = RpcError::UnknownTool { name: String::new() };
    assert_eq!(gone("Method not found", V2025_06_18), unknown);
    assert_eq!(unknown.to_error_object(V2025_06_18).code, -32602);
    assert_eq!(unknown.to_error_object(V2025_06_18).message, "Unknown tool");
    // A tool that requires or forbids a task is not an unknown tool.
    assert!(matches!(gone("Tool requires task execution", V2025_11_25), RpcError::Other(_)));
    let list = RpcError::from_error_object(
        ErrorObject::new(-32601, "Method not found"),
        tools::List::NAME,
        V2025_06_18,
    );
    assert!(matches!(list, RpcError::Other(_)));
}

#[test]
fn echoed_input_is_truncated() {
    // JRPC-011
    let long = "A".repeat(1 << 20);
    let params = RawJson::from(json!({"level": long}));
    let refusal = read_params::<tsugite_core::protocol::logging::SetLevel>(Raw::from(&params), V2025_11_25)
        .unwrap_err();
    assert_eq!(refusal.code(V2025_11_25), -32602);
    assert!(refusal.to_string().len() < 1000);
    let refusal = RpcError::UnknownTool { name: long };
    assert!(serde_json::to_string(&refusal.to_error_object(V2025_11_25)).unwrap().len() < 2000);
}

#[test]
fn arrays_are_not_objects_and_objects_are_not_strings() {
    // SCHM-027: a role is one of two words; JRPC-008: a result is an object.
    let bad = |json: &str| read::<tools::Call>(serde_json::from_str(json).unwrap(), V2025_11_25).is_err();
    assert!(bad(r#"[[]]"#));
    assert!(bad(r#"{"content":[["text","hello"]]}"#));
    assert!(bad(r#"{"content":[{"type":"text","text":"a","annotations":{"audience":[{"user":null}]}}]}"#));
    assert!(bad(r#"{"content":[{"type":"text","text":"a","annotations":{"audience":["system"]}}]}"#));
    assert!(!bad(r#"{"content":[{"type":"text","text":"a","annotations":{"audience":["user"]}}]}"#));
}

#[test]
fn unknown_members_of_a_content_block_are_ignored() {
    // SCHM-008, SCHM-026
    let open = json!({"content": [
        {"type": "text", "text": "hi", "id": 7, "content": "x", "data": [1], "size": "large", "resource": null},
        {"type": "image", "data": "", "mimeType": "image/png", "text": {"a": 1}},
    ]});
    let CallOutput::Complete(result) = read::<tools::Call>(open, V2025_11_25).unwrap() else { panic!() };
    assert_eq!(result.content[0], ContentBlock::text("hi"));
    let field: Field = serde_json::from_value(json!({"type": "integer", "format": "int32"})).unwrap();
    assert_eq!(serde_json::to_value(&field).unwrap(), json!({"type": "integer", "format": "int32"}));
    let resource = json!({"content": [{"type": "resource", "resource": {
        "uri": "file:///a", "text": "t", "annotations": {"priority": 1},
    }}]});
    let result = read::<tools::Call>(resource, V2025_06_18).unwrap();
    let block = written::<tools::Call>(result, V2025_06_18)["content"][0].take();
    assert_eq!(block["annotations"], json!({"priority": 1}));
    assert_eq!(block["resource"], json!({"uri": "file:///a", "text": "t"}));
}

#[test]
fn deep_blocks_do_not_exhaust_the_stack() {
    // Within the limit on depth, nothing a peer nests costs more than its own bytes.
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(60), close.repeat(60));
    let nested = deep(r#"{"type":"text","text":"a","content":["#, "]}");
    let result = RawJson::parse(format!(r#"{{"content":[{nested}]}}"#)).unwrap();
    assert!(read_result::<tools::Call>(Raw::from(&result), V2025_11_25).is_ok());
    let tasks = deep(r#"{"task":"#, "}").replace(":}", ":null}");
    let _ = RawJson::parse(tasks).map(|tasks| read_result::<tools::Call>(Raw::from(&tasks), V2025_11_25));
}

#[test]
fn discover_result_of_a_draft_names_its_server() {
    // A draft had the server in the body.
    let draft =
        json!({"supportedVersions": [], "capabilities": {}, "serverInfo": {"name": "d", "version": "0"}});
    let discovered = read::<Discover>(draft, V2026_07_28).unwrap();
    assert_eq!(discovered.meta.unwrap().server_info().unwrap().name, "d");
}

#[test]
fn counts_are_read_from_any_number_and_written_whole() {
    // SCHM-029
    let list = |ttl: &str| {
        let text = format!(r#"{{"tools":[],"ttlMs":{ttl},"cacheScope":"public"}}"#);
        read_result::<tools::List>(Raw::from(&RawJson::parse(text).unwrap()), V2026_07_28).unwrap().ttl_ms
    };
    assert_eq!([list("1.9"), list("-5"), list("1e3"), list("7")], [Some(1), Some(0), Some(1000), Some(7)]);
}
