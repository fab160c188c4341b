//! Tests of the request members, against serde and while parsing.

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::*;
use crate::jsonrpc::{Incoming, MessageLimits, RawJson};
use crate::protocol::meta::PROGRESS_TOKEN;
use crate::protocol::pagination::PaginatedParams;

#[test]
fn each_missing_or_malformed_key_is_named() {
    // VER-004 the two required keys, VER-006 the one that may be absent.
    let sender = |json: &str| {
        let params = RawJson::parse(json).unwrap();
        RequestMeta::from_params(Raw::from(&params))
            .unwrap()
            .declared_client()
            .map(|_| ())
            .map_err(|refusal| refusal.to_string())
    };
    assert!(sender("{}").unwrap_err().contains("protocolVersion"));
    let version = format!(r#""{PROTOCOL_VERSION}":"2026-07-28""#);
    assert!(sender(&format!(r#"{{"_meta":{{{version}}}}}"#)).unwrap_err().contains("clientCapabilities"));
    let both = format!(r#"{version},"{CLIENT_CAPABILITIES}":{{}}"#);
    assert_eq!(sender(&format!(r#"{{"_meta":{{{both}}}}}"#)), Ok(()));
    for (key, value) in [(LOG_LEVEL, "\"loud\""), (CLIENT_INFO, "{\"name\":\"c\"}"), (CLIENT_INFO, "7")] {
        let error = sender(&format!(r#"{{"_meta":{{{both},"{key}":{value}}}}}"#)).unwrap_err();
        assert!(error.contains(key), "{error}");
    }
    let numbered = format!(r#"{{"_meta":{{"{PROTOCOL_VERSION}":3,"{CLIENT_CAPABILITIES}":{{}}}}}}"#);
    assert!(sender(&numbered).unwrap_err().contains("protocolVersion"));
    let listed = format!(r#"{{"_meta":{{{version},"{CLIENT_CAPABILITIES}":[]}}}}"#);
    assert!(sender(&listed).unwrap_err().contains("clientCapabilities"));
}

/// The same members deserialized with serde.
#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
    name: Option<Value>,
    #[serde(rename = "protocolVersion")]
    protocol_version: Option<Value>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[test]
fn cursor_matches_the_deserialized_params() {
    for text in [
        "{}",
        "{\"cursor\":null}",
        "{\"cursor\":\"\"}",
        "{\"cursor\":\"a\\u0062\"}",
        "{\"c\\u0075rsor\":\"a\"}",
        "{\"cursor\":\"\\ud800\"}",
        "{\"cursor\":7}",
        "{\"cursor\":{}}",
        "{\"cursor\":\"a\",\"cursor\":\"a\"}",
    ] {
        let params = RawJson::parse(text).unwrap();
        let seen = RequestMeta::from_params(Raw::from(&params))
            .unwrap()
            .cursor()
            .ok()
            .map(|it| it.map(Cow::into_owned));
        let read = Raw::from(&params).read::<PaginatedParams>().ok().map(|params| params.cursor);
        assert_eq!(seen, read, "{text}");
        assert_same_while_parsing(text, 128);
    }
}

#[derive(Default, Deserialize)]
struct ParamsMeta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Value>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<Value>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo")]
    info: Option<Box<RawValue>>,
    #[serde(rename = "io.modelcontextprotocol/logLevel")]
    level: Option<Value>,
    #[serde(rename = "progressToken")]
    token: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct NameAndVersion {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "version")]
    _version: String,
}

/// Asserts that scanning while parsing gives the same as scanning afterwards, and the same message.
fn assert_same_while_parsing(params: &str, depth: u32) {
    let line = format!(r#"{{"jsonrpc":"2.0","params": {params},"id":1,"method":"tools/call"}}"#);
    let limits = MessageLimits::default().max_depth(depth);
    let mut meta = RequestMeta::default();
    let ours = parse_with_meta(line.as_bytes(), &limits, &mut meta);
    let theirs = crate::jsonrpc::parse(line.as_bytes(), &limits);
    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{line}");
    if let Ok(Incoming::Single(Message::Request(request))) = &ours {
        let (on_the_way, afterwards) = (meta.checked(request), RequestMeta::from_params(request.params()));
        assert_eq!(format!("{on_the_way:?}"), format!("{afterwards:?}"), "{line}");
    }
}

fn assert_matches_serde(text: &str) {
    for depth in [1, 2, 3, 4, 5, 6, 128] {
        assert_same_while_parsing(text, depth);
    }
    let params = RawJson::parse(text).unwrap();
    let ours = RequestMeta::from_params(Raw::from(&params));
    let theirs = serde_json::from_str::<Params<'_>>(text).ok().and_then(|params| {
        let meta = match params.meta {
            None => ParamsMeta::default(),
            Some(meta) if meta.get().starts_with('{') => serde_json::from_str(meta.get()).ok()?,
            Some(_) => return None,
        };
        Some((params, meta))
    });
    let (Ok(ours), Some((params, meta))) = (&ours, &theirs) else {
        assert!(ours.is_err() && theirs.is_none(), "{text}");
        return;
    };
    let word = |value: &Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_owned);
    assert_eq!(ours.mcp_name("tools/call").unwrap().map(str::to_owned), word(&params.name), "{text}");
    assert_eq!(ours.offered_version().map(str::to_owned), word(&params.protocol_version), "{text}");
    assert_eq!(ours.arguments().map(Raw::text), params.arguments.map(RawValue::get), "{text}");
    let token = meta.token.as_ref().and_then(|token| serde_json::from_str(token.get()).ok());
    assert_eq!(ours.progress_token(), token, "{text}");
    let claim = match &meta.version {
        None => ClaimedVersion::None,
        Some(Value::String(version)) => ClaimedVersion::Version(version.into()),
        Some(_) => ClaimedVersion::Malformed,
    };
    assert_eq!(ours.claimed_version(), claim, "{text}");
    let info = meta.info.as_ref().map(|info| info.get());
    let sound = matches!(claim, ClaimedVersion::Version(_))
        && meta.capabilities.as_ref().is_some_and(Value::is_object)
        && meta.level.as_ref().is_none_or(|level| level == "info")
        && info
            .is_none_or(|info| info.starts_with('{') && serde_json::from_str::<NameAndVersion>(info).is_ok());
    match ours.declared_client() {
        Ok(sender) => {
            assert!(sound, "{text}");
            assert_eq!(sender.info(), info.and_then(|info| serde_json::from_str(info).ok()), "{text}");
        }
        Err(_) => assert!(!sound, "{text}"),
    }
}

/// An object with such members, some of them duplicated or escaped.
fn object(keys: &'static [&'static str], values: BoxedStrategy<String>) -> BoxedStrategy<String> {
    let space = || prop::sample::select(vec!["", "", "", " ", "\n\t"]);
    let member = (prop::sample::select(keys), values, space(), space())
        .prop_map(|(key, value, before, after)| format!("{before}\"{key}\"{after}:{before}{value}{after}"));
    prop::collection::vec(member, 0..5).prop_map(|members| format!("{{{}}}", members.join(","))).boxed()
}

fn params() -> BoxedStrategy<String> {
    let values = [
        "null",
        "{}",
        "[]",
        "7",
        "-1.5e3",
        "true",
        "\"\"",
        "\"echo\"",
        "\"a\\\"b\\u00e9\"",
        "\"2026-07-28\"",
        "\"info\"",
        "\"\\\\\"",
        "{\"a\":{\"}\":\"{\\\"\"},\"b\":[1,[]]}",
        "[\"x\",{\"name\":1}]",
        "{ }",
    ];
    let value = prop::sample::select(values.to_vec()).prop_map(str::to_owned).boxed();
    let info = object(&["name", "version", "v\\u0065rsion", "title"], value.clone());
    let meta = object(
        &[
            PROTOCOL_VERSION,
            CLIENT_CAPABILITIES,
            CLIENT_INFO,
            CLIENT_INFO,
            LOG_LEVEL,
            PROGRESS_TOKEN,
            "io.modelcontextprotocol\\/protocolVersion",
            "com.example/x",
        ],
        prop_oneof![3 => value.clone(), 1 => info].boxed(),
    );
    object(
        &["_meta", "_meta", "\\u005fmeta", "name", "n\\u0061me", "protocolVersion", "arguments", "x"],
        prop_oneof![value, meta].boxed(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn scanned_members_match_serde(params in params()) {
        assert_matches_serde(&params);
    }
}

#[test]
fn invalid_json_is_rejected_as_without_scanning() {
    let bad = [
        "{\"name\":}",
        "{\"name\" 1}",
        "{\"_meta\":{\"x\":1,}}",
        "{\"_meta\":{\"io.modelcontextprotocol/clientInfo\":{\"name\":tru}}}",
        "{\"\\ud800\":1}",
        "{\"_meta\":{\"\\ud800\":1}}",
        "{\"_meta\":{\"io.modelcontextprotocol/clientInfo\":{\"\\ud800\":1}}}",
        "{\"name\":1,\"name\":2}",
        "{\"_meta\":7}",
        "7",
        "{},\"params\":{\"name\":\"x\"}",
        "{",
        "{\"arguments\":[[[[[[[[]]]]]]]],\"name\":\"x\"}",
    ];
    for params in bad {
        for depth in [1, 2, 3, 4, 5, 6, 7, 128] {
            assert_same_while_parsing(params, depth);
        }
    }
}

#[test]
fn declared_client_matches_serde() {
    let capabilities = ["{}", "{ }", "[]", "{\"sampling\":{}}"];
    let infos = [
        "null",
        "{}",
        "7",
        "[\"c\",\"1\"]",
        "{\"name\":\"c\"}",
        "{\"name\":\"c\",\"version\":1}",
        "{\"name\":\"c\",\"version\":\"1\"}",
        "{\"version\":\"\\u0031\",\"name\":\"c\",\"title\":\"C\"}",
        "{\"name\":\"c\",\"version\":\"1\",\"name\":\"c\"}",
        "{\"name\":\"c\",\"version\":\"1\",\"title\":7}",
    ];
    for (capabilities, info) in capabilities.iter().flat_map(|it| infos.map(|info| (it, info))) {
        assert_matches_serde(&format!(
            r#"{{"_meta":{{"{PROTOCOL_VERSION}":"v","{CLIENT_CAPABILITIES}":{capabilities},"{CLIENT_INFO}":{info}}}}}"#
        ));
    }
}
