//! The checks of a stateless request: each step refuses what it should, and an earlier step wins over a later one.

use serde_json::{Value, json};
use tsugite_testkit::http::Request;

use super::{CAPABILITIES, CountingServer, MODERN, VERSION, call, claiming, plain, refused, text};

/// A call of `place` with its headers.
fn place(region: Value, header: Option<&str>) -> Request {
    let mut message = call("place");
    message["params"]["arguments"] = json!({"region": region});
    let request = Request::stateless(message);
    match header {
        Some(header) => request.header("Mcp-Param-Region", header),
        None => request,
    }
}

/// The same request with another `_meta`.
fn saying(key: &str, value: Value) -> Request {
    let mut message = claiming(MODERN, call("echo"));
    message["params"]["_meta"][key] = value;
    Request::stateless(call("echo")).body(message.to_string())
}

#[tokio::test]
async fn step_0_non_requests_are_refused() {
    let counted = CountingServer::start().await;
    let meta = json!({VERSION: MODERN, CAPABILITIES: {}});
    for message in [
        json!({"id": 7, "method": "tools/list", "params": {"_meta": meta}}),
        json!({"jsonrpc": "2.1", "id": 7, "method": "tools/list", "params": {"_meta": meta}}),
        json!({"jsonrpc": "2.0", "id": null, "method": "tools/list", "params": {"_meta": meta}}),
        json!({"jsonrpc": "2.0", "id": 1.5, "method": "tools/list", "params": {"_meta": meta}}),
        json!({"jsonrpc": "2.0", "id": {}, "method": "tools/list", "params": {"_meta": meta}}),
        json!({"jsonrpc": "2.0", "id": 7, "method": 7, "params": {"_meta": meta}}),
        json!({"jsonrpc": "2.0", "id": 7}),
    ] {
        let request = Request::stateless(plain("tools/list")).body(message.to_string());
        let answer = counted.send(request).await;
        assert_eq!((answer.status, answer.error_code()), (400, Some(-32600)), "{message}");
    }
}

#[tokio::test]
async fn step_1_request_metadata_is_required() {
    // VER-004, VER-006, LOG-011
    let counted = CountingServer::start().await;
    let client = "io.modelcontextprotocol/clientInfo";
    for (key, value) in [
        (VERSION, json!(7)),
        (VERSION, json!(null)),
        (CAPABILITIES, json!("none")),
        (CAPABILITIES, json!(null)),
        (client, json!("me")),
        (client, json!({"name": 7})),
        ("io.modelcontextprotocol/logLevel", json!("loud")),
    ] {
        assert_eq!(refused(&counted.send(saying(key, value.clone())).await), (400, -32602), "{key} {value}");
    }
    let mut without = claiming(MODERN, call("echo"));
    without["params"]["_meta"] = json!({VERSION: MODERN});
    let request = Request::stateless(call("echo")).body(without.to_string());
    assert_eq!(refused(&counted.send(request).await), (400, -32602));
    assert_eq!(counted.calls(), 0);
    let named = saying(client, json!({"name": "me", "version": "1"}));
    assert_eq!(text(&counted.send(named).await), MODERN);
    assert_eq!(text(&counted.send(Request::stateless(call("echo"))).await), MODERN);
}

#[tokio::test]
async fn step_3_method_header_must_match() {
    // HTTP-055, HTTP-057, HTTP-058
    let counted = CountingServer::start().await;
    let request = Request::stateless(call("echo"));
    assert_eq!(refused(&counted.send(request.clone().without_header("Mcp-Method")).await), (400, -32020));
    for header in ["tools/list", "Tools/Call", "tools/call/", "", "=?base64?dG9vbHMvY2FsbA==?="] {
        let answer = counted.send(request.clone().replace_header("Mcp-Method", header)).await;
        assert_eq!(refused(&answer), (400, -32020), "{header}");
    }
    let twice = request.clone().header("Mcp-Method", "tools/call");
    assert_eq!(refused(&counted.send(twice).await), (400, -32020));
    assert_eq!(counted.calls(), 0);
    let padded = request.clone().replace_header("mcp-method", "  tools/call\t ");
    assert_eq!(text(&counted.send(padded).await), MODERN);
}

#[tokio::test]
async fn step_4_name_header_must_match() {
    // HTTP-055, HTTP-056
    let counted = CountingServer::start().await;
    let request = Request::stateless(call("echo"));
    assert_eq!(refused(&counted.send(request.clone().without_header("Mcp-Name")).await), (400, -32020));
    for header in ["place", "Echo", "echo2", "", "=?base64?ZWNobw?=", "=?base64?ZWNo*w==?="] {
        let answer = counted.send(request.clone().replace_header("Mcp-Name", header)).await;
        assert_eq!(refused(&answer), (400, -32020), "{header}");
    }
    assert_eq!(counted.calls(), 0);
    assert_eq!(text(&counted.send(request.replace_header("Mcp-Name", "=?base64?ZWNobw==?=")).await), MODERN);
    let mut read = plain("resources/read");
    read["params"]["uri"] = json!("text://a");
    let read = Request::stateless(read);
    assert_eq!(
        refused(&counted.send(read.clone().replace_header("Mcp-Name", "text://b")).await),
        (400, -32020)
    );
    assert_eq!(refused(&counted.send(read.clone().without_header("Mcp-Name")).await), (400, -32020));
    assert_eq!(counted.send(read).await.json()["result"]["contents"][0]["text"], "a");
    // A list has no name.
    assert_eq!(counted.send(Request::stateless(plain("tools/list"))).await.status, 200);
}

#[tokio::test]
async fn step_5_unsupported_method_is_not_found() {
    // HTTP-048, JRPC-023
    let counted = CountingServer::start().await;
    for method in [
        "no/such/method",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "tasks/get",
        "",
        "tools/Call",
    ] {
        let mut message = plain(method);
        message["params"]["name"] = json!("echo");
        message["params"]["taskId"] = json!("echo");
        let request = Request::stateless(message).replace_header("Mcp-Name", "echo");
        assert_eq!(refused(&counted.send(request).await), (404, -32601), "{method}");
    }
}

#[tokio::test]
async fn step_6_invalid_params_get_status_200() {
    let counted = CountingServer::start().await;
    let unknown = Request::stateless(call("nowhere"));
    let mut text = call("echo");
    text["params"]["arguments"] = json!("text");
    let mut cursor = plain("tools/list");
    cursor["params"]["cursor"] = json!(7);
    let mut nameless = call("echo");
    nameless["params"] = json!({"arguments": {}});
    for request in
        [unknown, Request::stateless(text), Request::stateless(cursor), Request::stateless(nameless)]
    {
        let answer = counted.send(request).await;
        assert_eq!(refused(&answer), (200, -32602), "{answer:?}");
    }
    let mut missing = plain("resources/read");
    missing["params"]["uri"] = json!("text://nowhere");
    assert_eq!(refused(&counted.send(Request::stateless(missing)).await), (200, -32602));
    assert_eq!(counted.calls(), 0);
}

#[tokio::test]
async fn step_7_marked_arguments_must_match_their_headers() {
    // HTTP-074, HTTP-075
    let counted = CountingServer::start().await;
    for (region, header) in [
        (json!("us"), Some("eu")),
        (json!("us"), Some("US")),
        (json!("us"), None),
        (json!(null), Some("us")),
        (json!("us"), Some("=?base64?dX=?=")),
    ] {
        let answer = counted.send(place(region.clone(), header)).await;
        assert_eq!(refused(&answer), (400, -32020), "{region} {header:?}");
    }
    assert_eq!(counted.calls(), 0);
    for (region, header) in [(json!("us"), Some("us")), (json!("us"), Some("=?base64?dXM=?="))] {
        assert_eq!(text(&counted.send(place(region, header)).await), "placed");
    }
    assert_eq!(text(&counted.send(Request::stateless(call("place"))).await), "placed");
    // An unknown tool is unknown, whatever its headers.
    let unknown = Request::stateless(call("nowhere")).header("Mcp-Param-Region", "us");
    assert_eq!(refused(&counted.send(unknown).await), (200, -32602));
}

#[tokio::test]
async fn step_8_missing_capability_is_named() {
    let counted = CountingServer::start().await;
    let answer = counted.send(Request::stateless(call("roots"))).await;
    assert_eq!(refused(&answer), (400, -32021));
    assert!(answer.json()["error"]["data"]["requiredCapabilities"].get("roots").is_some(), "{answer:?}");
}

#[tokio::test]
async fn earlier_steps_win() {
    let counted = CountingServer::start().await;
    // Wrong from step 8 down to step 1; each request corrects one more step.
    let mut message = json!({"jsonrpc": "2.0", "id": 7, "method": "no/such/method", "params": {
        "name": "roots", "arguments": 7, "_meta": {VERSION: "v999.0.0", CAPABILITIES: 7},
    }});
    let send = |message: &Value, headers: &[(&str, &str)]| {
        let request =
            headers.iter().fold(Request::post(message), |request, (name, value)| request.header(name, value));
        counted.send(request)
    };
    let version = ("MCP-Protocol-Version", MODERN);
    message["params"]["_meta"][VERSION] = json!(MODERN);
    assert_eq!(refused(&send(&message, &[version]).await), (400, -32602));
    message["params"]["_meta"][CAPABILITIES] = json!({});
    assert_eq!(refused(&send(&message, &[version]).await), (400, -32020));
    assert_eq!(refused(&send(&message, &[version, ("Mcp-Method", "no/such/method")]).await), (404, -32601));
    message["method"] = json!("tools/call");
    let method = ("Mcp-Method", "tools/call");
    assert_eq!(refused(&send(&message, &[version, method]).await), (400, -32020));
    let name = ("Mcp-Name", "roots");
    assert_eq!(refused(&send(&message, &[version, method, name]).await), (200, -32602));
    message["params"]["arguments"] = json!({});
    assert_eq!(refused(&send(&message, &[version, method, name]).await), (400, -32021));
    message["params"]["_meta"][CAPABILITIES] = json!({"roots": {}});
    let asked = send(&message, &[version, method, name]).await;
    assert_eq!((asked.status, &asked.json()["result"]["resultType"]), (200, &json!("input_required")));
}
