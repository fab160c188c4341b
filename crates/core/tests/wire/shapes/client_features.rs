//! The shapes of sampling and elicitation.

use super::*;

#[test]
fn sampling_needs_messages_and_a_limit_and_returns_a_model() {
    // SAMP-005, SAMP-006, SAMP-031
    let params = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "a"}}], "maxTokens": 9,
        "modelPreferences": {"hints": [{"name": "m"}], "costPriority": 0.5}, "systemPrompt": "s",
        "includeContext": "none", "temperature": 0.25, "stopSequences": ["."], "metadata": {"k": [1]},
    });
    let result = json!({
        "role": "assistant", "content": {"type": "text", "text": "b"}, "model": "m", "stopReason": "a new one",
    });
    for revision in Revisions::ALL.handshake().newest_first() {
        let raw = RawJson::from(params.clone());
        let read_back = read_params::<CreateMessage>(Raw::from(&raw), revision).unwrap();
        assert_eq!(request_params::<CreateMessage>(read_back, revision), Ok(params.clone()));
        assert_eq!(back::<CreateMessage>(&result, revision), result);
        for member in ["role", "content", "model"] {
            let mut bad = result.clone();
            bad.as_object_mut().unwrap().remove(member);
            assert!(read::<CreateMessage>(bad, revision).is_err(), "{member}");
        }
    }
    invalid::<CreateMessage>(json!({"maxTokens": 1}));
    for message in [
        json!({"content": {"type": "text", "text": "a"}}),
        json!({"role": "user"}),
        json!({"role": "system", "content": {"type": "text", "text": "a"}}),
    ] {
        invalid::<CreateMessage>(json!({"maxTokens": 1, "messages": [message]}));
    }
}

#[test]
fn a_sampling_message_holds_what_its_revision_knows() {
    // SAMP-007, SAMP-008, SAMP-009
    let (text, audio) = (SamplingBlock::text("a"), SamplingBlock::Audio(Audio::new("AAAA", "audio/wav")));
    let tool = SamplingBlock::ToolUse(ToolUse::new("1", "t", RawJson::from(json!({}))));
    let contents = |blocks: SamplingContent, to: Revision| {
        let params = CreateMessageParams::new([SamplingMessage::new(Role::User, blocks)], 1u64);
        request_params::<CreateMessage>(params, to).map(|params| {
            params["messages"]
                .as_array()
                .unwrap()
                .iter()
                .map(|message| message["content"].clone())
                .collect::<Vec<_>>()
        })
    };
    let both = || SamplingContent::from(vec![text.clone(), audio.clone()]);
    let kinds = |contents: Vec<Value>| contents.iter().map(|block| block["type"].clone()).collect::<Vec<_>>();
    assert_eq!(contents(both(), V2024_11_05).map(kinds), Ok(vec![json!("text"), json!("text")]));
    for revision in [V2025_03_26, V2025_06_18] {
        assert_eq!(contents(both(), revision).map(kinds), Ok(vec![json!("text"), json!("audio")]));
        assert_eq!(contents(tool.clone().into(), revision), Err(UnsupportedByRevisionError::SamplingTools));
    }
    let all = SamplingContent::from(vec![text.clone(), audio.clone(), tool.clone()]);
    let kept = contents(all.clone(), V2025_11_25).unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(kinds(kept[0].as_array().unwrap().clone()), ["text", "audio", "tool_use"]);
    let params = CreateMessageParams::new([SamplingMessage::new(Role::User, all)], 1u64);
    let request_params = InputRequired::new()
        .input_requests([("s", InputRequest::Sample(params))].into_iter().collect::<OrderedMap<_>>());
    let result = written::<tools::Call>(request_params.into(), V2026_07_28);
    assert_eq!(result["inputRequests"]["s"]["params"]["messages"][0]["content"], kept[0]);
    let strange = json!([{"role": "user", "content": {"type": "video", "data": "", "mimeType": ""}}]);
    invalid::<CreateMessage>(json!({"maxTokens": 1, "messages": strange}));
}

#[test]
fn elicitation_has_a_message_and_is_a_form_by_default() {
    // ELIC-008, ELIC-009, ELIC-010
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    for revision in [V2025_06_18, V2025_11_25] {
        let raw = RawJson::from(form.clone());
        let params = read_params::<elicitation::Create>(Raw::from(&raw), revision).unwrap();
        assert!(matches!(params, ElicitParams::Form(_)));
        assert_eq!(request_params::<elicitation::Create>(params, revision), Ok(form.clone()));
    }
    for bad in [
        json!({"message": "m"}),
        json!({"requestedSchema": {"type": "object", "properties": {}}}),
        json!({"mode": "url", "url": "https://example.com"}),
        json!({"mode": "url", "message": "m"}),
        json!({"mode": "voice", "message": "m", "requestedSchema": {"type": "object", "properties": {}}}),
    ] {
        invalid::<elicitation::Create>(bad);
    }
}

#[test]
fn form_is_flat_and_has_the_fields_of_its_revision() {
    // ELIC-011, ELIC-012, ELIC-013
    let form = |field: Value| json!({"message": "m", "requestedSchema": {"type": "object", "properties": {"f": field}}});
    for bad in [
        json!({"type": "object", "properties": {}}),
        json!({"type": "array", "items": {"type": "object"}}),
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"type": "null"}),
        json!({"type": "string", "format": "ipv4"}),
        json!({}),
    ] {
        invalid::<elicitation::Create>(form(bad));
    }
    for format in ["email", "uri", "date", "date-time"] {
        for revision in [V2025_06_18, V2025_11_25, V2026_07_28] {
            let field = json!({"type": "string", "format": format});
            assert_eq!(refused::<elicitation::Create>(form(field), revision), None);
        }
    }
    // Only flags had a default at first.
    let fields = [
        json!({"type": "string", "default": "a"}),
        json!({"type": "integer", "default": 1}),
        json!({"type": "number", "default": 1.5}),
        json!({"type": "string", "enum": ["a"], "default": "a"}),
        json!({"type": "boolean", "default": true}),
    ];
    for field in fields {
        let params = RawJson::from(form(field.clone()));
        let params = || read_params::<elicitation::Create>(Raw::from(&params), V2025_11_25).unwrap();
        let written = |to| {
            request_params::<elicitation::Create>(params(), to).unwrap()["requestedSchema"]["properties"]["f"]
                .take()
        };
        assert_eq!(written(V2025_11_25), field);
        let is_flag = field["type"] == "boolean";
        assert_eq!(written(V2025_06_18).get("default").is_some(), is_flag);
    }
    for field in [
        json!({"type": "string", "enum": ["a"], "enumNames": ["A"]}),
        json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}),
        json!({"type": "array", "items": {"type": "string", "enum": ["a"]}, "default": ["a"]}),
        json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}),
    ] {
        let params = RawJson::from(form(field.clone()));
        let params = read_params::<elicitation::Create>(Raw::from(&params), V2025_11_25).unwrap();
        assert_eq!(request_params::<elicitation::Create>(params, V2025_11_25), Ok(form(field)));
    }
    let several = Field::from(FieldKind::MultipleChoice {
        options: ChoiceOptions::Plain(vec!["a".to_owned()]),
        min_items: None,
        max_items: None,
        default: None,
    });
    let params = ElicitParams::Form(FormParams::new("m", FormSchema::new().field("f", several)));
    assert_eq!(
        request_params::<elicitation::Create>(params, V2025_06_18),
        Err(UnsupportedByRevisionError::MultipleChoice)
    );
}

#[test]
fn the_answers_in_a_form_are_plain_values() {
    // ELIC-016, ELIC-017; SCHM-029: fractions too.
    let answer = json!({"action": "accept", "content": {"s": "a", "n": 1.5, "i": 1, "b": false}});
    for revision in [V2025_06_18, V2025_11_25] {
        assert_eq!(back::<elicitation::Create>(&answer, revision), answer);
        for bad in [json!(null), json!({}), json!([1]), json!([["a"]])] {
            let result = json!({"action": "accept", "content": {"f": bad}});
            assert!(read::<elicitation::Create>(result, revision).is_err());
        }
    }
    let several = || {
        let values = [("f", FieldValue::List(vec!["a".to_owned(), "b".to_owned()]))];
        let content = values.into_iter().collect::<OrderedMap<_>>();
        ElicitResult::new(elicitation::ElicitAction::Accept).content(content)
    };
    let refused = write_result::<elicitation::Create>(
        &mut Vec::new(),
        &Id::from(1),
        several().into(),
        V2025_06_18,
        None,
    );
    assert_eq!(refused, Err(UnsupportedByRevisionError::MultipleChoice));
    let result = written::<elicitation::Create>(several().into(), V2025_11_25);
    assert_eq!(result, json!({"action": "accept", "content": {"f": ["a", "b"]}}));
}
