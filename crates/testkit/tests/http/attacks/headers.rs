//! Headers that differ from the body, on 2026-07-28.

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::Schema;
use tsugite_testkit::http::{Request, TestServer, open_session};

use super::guard::{Guarded, by};
use super::{Count, MODERN, call, counted, counting, refused, text};

/// A tool with arguments that are repeated in headers. Returns its caller and its arguments.
fn deploy(count: &Count) -> Tool {
    let count = count.clone();
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "force": {"type": "boolean", "x-mcp-header": "Force"},
        "place": {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}},
    }});
    Tool::new("deploy").input_schema(Schema::from(schema)).raw_handler(move |arguments, cx| {
        count.add();
        let who = cx.principal().map_or("anonymous", |who| who.subject()).to_owned();
        async move { format!("{who}: {}", arguments.text()) }
    })
}

#[tokio::test]
async fn method_header_must_match_the_body() {
    // T-10, HTTP-054
    let (server, count) = counted();
    let serving = TestServer::start(&server).await;
    let request = Request::stateless(call("ran", json!({})));
    for method in ["tools/list", "ping", "TOOLS/CALL", "tools/call,tools/list", "tools/call\u{a0}"] {
        let answer = serving.send(request.clone().replace_header("Mcp-Method", method)).await;
        assert_eq!(refused(&answer), (400, -32020), "{method}");
        assert_eq!(answer.json()["id"], 7);
    }
    for second in ["tools/list", "tools/call"] {
        let answer = serving.send(request.clone().header("Mcp-Method", second)).await;
        assert_eq!(refused(&answer), (400, -32020));
    }
    assert_eq!(refused(&serving.send(request.without_header("Mcp-Method")).await), (400, -32020));
    assert_eq!(count.get(), 0);
}

#[tokio::test]
async fn mismatch_names_the_header_and_both_values() {
    let (server, _) = counted();
    let serving = TestServer::start(&server).await;
    let request = || Request::stateless(call("ran", json!({})));
    let long = "x".repeat(1_000);
    let wrong = [
        (
            request().replace_header("Mcp-Name", "other"),
            json!({"header": "Mcp-Name", "expected": "ran", "received": "other"}),
        ),
        (request().without_header("Mcp-Name"), json!({"header": "Mcp-Name", "expected": "ran"})),
        (
            request().replace_header("Mcp-Method", "tools/list"),
            json!({"header": "Mcp-Method", "expected": "tools/call", "received": "tools/list"}),
        ),
        (
            request().replace_header("MCP-Protocol-Version", "2025-11-25"),
            json!({"header": "MCP-Protocol-Version", "expected": MODERN, "received": "2025-11-25"}),
        ),
        (
            request().replace_header("Mcp-Name", &long),
            json!({"header": "Mcp-Name", "expected": "ran", "received": format!("{}…", &long[..200])}),
        ),
    ];
    for (request, data) in wrong {
        assert_eq!(serving.send(request).await.json()["error"]["data"], data);
    }
}

#[tokio::test]
async fn name_header_must_match_the_body() {
    // T-11
    let (safe, danger) = (Count::default(), Count::default());
    let server = Server::new("s", "1").tool(counting("safe", &safe)).tool(counting("danger", &danger));
    let serving = TestServer::start(&server).await;
    let request = Request::stateless(call("danger", json!({})));
    for name in
        ["safe", "Danger", "DANGER", "=?base64?c2FmZQ==?=", "=?BASE64?ZGFuZ2Vy?=", "dan ger", "danger,safe"]
    {
        let answer = serving.send(request.clone().replace_header("Mcp-Name", name)).await;
        assert_eq!(refused(&answer), (400, -32020), "{name}");
    }
    for (first, second) in [("danger", "safe"), ("safe", "danger"), ("danger", "danger")] {
        let twice = request.clone().replace_header("Mcp-Name", first).header("mcp-name", second);
        assert_eq!(refused(&serving.send(twice).await), (400, -32020), "{first} {second}");
    }
    assert_eq!((safe.get(), danger.get()), (0, 0));
    for name in [" danger\t", "=?base64?ZGFuZ2Vy?=", " =?base64?ZGFuZ2Vy?= "] {
        assert_eq!(
            text(&serving.send(request.clone().replace_header("MCP-NAME", name)).await),
            "ran",
            "{name}"
        );
    }
}

#[tokio::test]
async fn param_header_must_match_the_body() {
    // T-12, HTTP-059, HTTP-065, HTTP-074, HTTP-075
    let count = Count::default();
    let serving = TestServer::start(&Server::new("s", "1").tool(deploy(&count))).await;
    let send = |arguments: Value, headers: &[(&str, &str)]| {
        let request = Request::stateless(call("deploy", arguments));
        let named = |request: Request, (name, value): &(&str, &str)| {
            request.header(&format!("Mcp-Param-{name}"), value)
        };
        serving.send(headers.iter().fold(request, named))
    };
    for (arguments, headers) in [
        (json!({"region": "us"}), &[("Region", "eu")][..]),
        (json!({"region": "us"}), &[]),
        (json!({"region": "us"}), &[("Region", "us"), ("region", "us")]),
        (json!({"region": "us"}), &[("Region", "us"), ("region", "eu")]),
        (json!({"region": null}), &[("Region", "eu")]),
        (json!({}), &[("Region", "eu")]),
        (json!({}), &[("Region", "")]),
        (json!({"count": 42}), &[("Count", "43")]),
        (json!({"count": 42}), &[]),
        (json!({"count": 42}), &[("Count", "forty-two")]),
        (json!({"count": 9007199254740993_i64}), &[("Count", "9007199254740992")]),
        (json!({"count": 9007199254740993_i64}), &[]),
        (json!({"force": true}), &[("Force", "false")]),
        (json!({"force": true}), &[("Force", "True")]),
        (json!({"place": {"city": "Kyoto"}}), &[("City", "Nara")]),
        (json!({"place": {"city": "Kyoto"}}), &[]),
        (json!({"place": {"city": "Kyoto"}, "region": "us"}), &[("City", "Kyoto")]),
    ] {
        let answer = send(arguments.clone(), headers).await;
        assert_eq!(refused(&answer), (400, -32020), "{arguments} {headers:?}");
    }
    assert_eq!(count.get(), 0);
    for (arguments, headers) in [
        (json!({}), &[][..]),
        (json!({"region": null}), &[]),
        (json!({"region": "us"}), &[("REGION", " us ")]),
        (json!({"count": 42}), &[("Count", "42.0")]),
        (json!({"force": true}), &[("Force", "true")]),
        (json!({"place": {"city": "Kyoto"}}), &[("City", "=?base64?S3lvdG8=?=")]),
        // Param headers that the schema does not name are ignored.
        (json!({}), &[("Unknown", "x")]),
    ] {
        let answer = send(arguments.clone(), headers).await;
        assert_eq!(answer.status, 200, "{arguments} {headers:?}: {answer:?}");
    }
    assert_eq!(count.get(), 6, "null counts as missing, and all others ran");
}

#[tokio::test]
async fn invalid_base64_header_value_is_refused() {
    // T-13, HTTP-056
    let count = Count::default();
    let server = Server::new("s", "1").tool(counting("ran", &count)).tool(deploy(&count));
    let serving = TestServer::start(&server).await;
    let ran = Request::stateless(call("ran", json!({})));
    // No padding, too much of it, wrong letters, bits left over, no UTF-8, nothing, a newline.
    for wrapped in
        ["cmFu=", "cmF", "cm!u", "cm-_", "cmFuZB==", "/w==", "", "cmFuDQo=", "cmFu\tcmFu", "cmFu?=x"]
    {
        let value = format!("=?base64?{wrapped}?=");
        assert_eq!(
            refused(&serving.send(ran.clone().replace_header("Mcp-Name", &value)).await),
            (400, -32020),
            "{value}"
        );
        let deploy =
            Request::stateless(call("deploy", json!({"region": "ran"}))).header("Mcp-Param-Region", &value);
        assert_eq!(refused(&serving.send(deploy).await), (400, -32020), "{value}");
    }
    assert_eq!(count.get(), 0);
    // A name with a line break matches its header, and is never written raw.
    let odd = "ran\r\nX-Injected: yes";
    let request = Request::stateless(call(odd, json!({})));
    let wrapped = "=?base64?cmFuDQpYLUluamVjdGVkOiB5ZXM=?=";
    let answer = serving.send(request.replace_header("Mcp-Name", wrapped)).await;
    assert_eq!(refused(&answer), (200, -32602));
    assert_eq!(answer.header("x-injected"), None);
    assert!(!answer.body.contains('\n'), "{answer:?}");
    assert_eq!(count.get(), 0);
}

#[tokio::test]
async fn headers_do_not_identify_the_caller() {
    // T-16, SEC-029
    let count = Count::default();
    let guarded = Guarded::start(&Server::new("s", "1").tool(deploy(&count))).await;
    let request = Request::stateless(call("deploy", json!({"region": "eve"})));
    let request = request.header("Mcp-Param-Region", "eve").header("X-Forwarded-User", "eve");
    let answer = guarded.send(by("ada", request.clone())).await;
    assert_eq!(text(&answer), r#"ada: {"region":"eve"}"#);
    assert_eq!(text(&guarded.send(request).await), r#"anonymous: {"region":"eve"}"#);
}

#[tokio::test]
async fn unknown_version_is_refused_without_a_long_echo() {
    // T-18, HTTP-044
    let (server, count) = counted();
    let serving = TestServer::start(&server).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    let plain = Request::post(&call("ran", json!({})));
    let long = "9".repeat(20_000);
    for version in ["2030-01-01", "2025-11-25, 2026-07-28", "\"><script>", "2026\u{2010}07", "", &long] {
        let mut claims = call("ran", json!({}));
        claims["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": version});
        for request in [plain.clone(), plain.clone().session(&session), Request::stateless(claims)] {
            let answer = serving.send(request.replace_header("MCP-Protocol-Version", version)).await;
            assert_eq!(refused(&answer).0, 400, "{version}");
            assert!(answer.body.len() < 2000, "{} bytes", answer.body.len());
        }
    }
    for request in [plain.clone(), plain.session(&session), Request::stateless(call("ran", json!({})))] {
        let twice =
            request.header("MCP-Protocol-Version", MODERN).header("MCP-Protocol-Version", "2025-11-25");
        assert_eq!(refused(&serving.send(twice).await).0, 400);
    }
    assert_eq!(count.get(), 0);
}

#[tokio::test]
async fn missing_stateless_metadata_does_not_downgrade_the_era() {
    // T-19, VER-005
    let (server, count) = counted();
    for http in [tsugite::transport::http::Http::new(), tsugite::transport::http::Http::new().sessions(false)]
    {
        let serving = TestServer::start(&server.clone().http(http)).await;
        let request = Request::stateless(call("ran", json!({})));
        for meta in [
            json!({}),
            json!({"io.modelcontextprotocol/clientCapabilities": {}}),
            json!({"io.modelcontextprotocol/protocolVersion": MODERN}),
            json!({"progressToken": 1}),
            json!(null),
            json!("2026-07-28"),
        ] {
            let mut message = call("ran", json!({}));
            message["params"]["_meta"] = meta.clone();
            let answer = serving.send(request.clone().body(message.to_string())).await;
            assert_eq!(refused(&answer), (400, -32602), "{meta}");
        }
        for params in [json!({"name": "ran"}), json!({}), json!(null), json!([])] {
            let mut message = call("ran", json!({}));
            message["params"] = params.clone();
            let answer = serving.send(request.clone().body(message.to_string())).await;
            assert!(matches!(refused(&answer), (400, -32602 | -32600)), "{params}: {answer:?}");
        }
    }
    assert_eq!(count.get(), 0);
}
