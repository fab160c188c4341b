//! Requirements of 2026-07-28 alone.

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tsugite::prelude::*;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Request, TestServer, open_session};

use super::{FeatureServer, call, feature_server, notice, rest, send, stream, summary, with_http, within};

#[tokio::test]
async fn closing_a_request_stream_cancels_the_request() {
    // HTTP-028, HTTP-030: the call is dropped. HTTP-029: no stream carries further messages of it.
    let FeatureServer { server, gate, mut ended } = feature_server();
    let serving = TestServer::start(&server).await;
    let listen = json!({"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen",
        "params": {"notifications": {"toolsListChanged": true}}});
    let mut listening = stream(&serving, Request::stateless(listen)).await;
    assert_eq!(
        within(listening.next_message()).await.unwrap()["method"],
        "notifications/subscriptions/acknowledged"
    );
    let mut other = stream(&serving, Request::stateless(call(2, "waits"))).await;
    assert_eq!(within(other.next_message()).await.unwrap()["params"]["progressToken"], 2);
    let mut closed = stream(&serving, Request::stateless(call(1, "waits"))).await;
    assert_eq!(within(closed.next_message()).await.unwrap()["params"]["progressToken"], 1);
    drop(closed);
    assert_eq!(within(ended.recv()).await, Some(false));
    gate.add_permits(2);
    let heard = rest(other).await;
    assert_eq!(summary(&heard), ["notifications/progress", "answer 2"]);
    assert_eq!(heard[0]["params"]["progressToken"], 2);
    assert_eq!(send(&serving, Request::stateless(call(3, "hides"))).await.status, 200);
    assert_eq!(within(listening.next_message()).await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn progress_and_logs_use_the_request_stream() {
    // HTTP-083; HTTP-084, PROG-012: on no other stream. HTTP-086: proxies are told not to buffer.
    let FeatureServer { server, gate, .. } = feature_server();
    let serving = TestServer::start(&server).await;
    let mut streams = Vec::new();
    for id in 1..=3 {
        let mut connection = serving.connect().await;
        let head = connection.send(Request::stateless(call(id, "waits"))).await;
        assert_eq!((head.status, head.header("x-accel-buffering")), (200, Some("no")), "{head:?}");
        streams.push((id, connection));
    }
    gate.add_permits(3);
    for (id, stream) in streams {
        let heard = rest(stream).await;
        let answer = format!("answer {id}");
        assert_eq!(summary(&heard), ["notifications/progress", "notifications/progress", &answer]);
        assert!(heard[..2].iter().all(|message| message["params"]["progressToken"] == id), "{heard:?}");
    }
    let mut logs = call(4, "steps");
    logs["params"]["_meta"] = json!({"io.modelcontextprotocol/logLevel": "debug"});
    let heard = rest(stream(&serving, Request::stateless(logs)).await).await;
    assert_eq!(summary(&heard), ["notifications/message", "answer 4"]);
}

#[tokio::test]
async fn input_required_result_ends_the_stream() {
    // HTTP-085, MRTR-024
    let serving = TestServer::start(&feature_server().server).await;
    let mut asks = call(1, "tells_and_asks");
    asks["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"roots": {}});
    let heard = rest(stream(&serving, Request::stateless(asks)).await).await;
    assert_eq!(summary(&heard), ["notifications/progress", "answer 1"]);
    assert_eq!(heard[1]["result"]["resultType"], "input_required", "{heard:?}");
    assert!(heard.iter().all(|message| message.get("method").is_none() || message.get("id").is_none()));
}

#[tokio::test]
async fn silent_stream_sends_keep_alives() {
    // HTTP-087
    let server = with_http(Http::new().keep_alive_interval(std::time::Duration::from_millis(1)));
    let serving = TestServer::start(&server).await;
    let mut connection = serving.connect().await;
    connection.write_request(&Request::stateless(call(1, "waits"))).await;
    let mut text = String::new();
    let mut bytes = [0; 1024];
    // A comment is a line that begins with a colon.
    let comment = async {
        while !text.contains("\n:") {
            let read = connection.socket().read(&mut bytes).await.unwrap();
            assert!(read > 0, "the stream ended: {text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    };
    within(comment).await;
}

#[tokio::test]
async fn listen_response_is_a_stream_that_stays_open() {
    // SUBS-014
    let serving = TestServer::start(&feature_server().server).await;
    let listen = json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen",
        "params": {"notifications": {"toolsListChanged": true}}});
    let mut listening = stream(&serving, Request::stateless(listen)).await;
    let first = within(listening.next_message()).await.unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    for id in 1..=3 {
        assert_eq!(send(&serving, Request::stateless(call(id, "echo"))).await.status, 200);
    }
    assert_eq!(send(&serving, Request::stateless(call(4, "hides"))).await.status, 200);
    let news = within(listening.next_message()).await.unwrap();
    assert_eq!(news["method"], "notifications/tools/list_changed");
    assert_eq!(news["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
}

#[tokio::test]
async fn unknown_method_is_404_and_missing_capability_is_400() {
    // HTTP-048, VER-019
    let serving = TestServer::start(&feature_server().server).await;
    for method in ["tools/dance", "initialize", "ping", "logging/setLevel", "resources/subscribe"] {
        let request = json!({"jsonrpc": "2.0", "id": "x-1", "method": method, "params": {}});
        let refused = send(&serving, Request::stateless(request)).await;
        assert_eq!((refused.status, refused.error_code()), (404, Some(-32601)), "{method} {refused:?}");
        assert_eq!(refused.json()["id"], "x-1");
    }
    let refused = send(&serving, Request::stateless(call(2, "asks"))).await;
    assert_eq!((refused.status, refused.error_code()), (400, Some(-32021)), "{refused:?}");
    assert_eq!(refused.json()["id"], 2);
}

#[tokio::test]
async fn header_names_ignore_case_but_values_do_not() {
    // HTTP-057
    let serving = TestServer::start(&feature_server().server).await;
    let request = Request::stateless(call(1, "echo"));
    let named = |name: &str, method: &str, tool: &str| {
        let renamed = request
            .clone()
            .without_header("Mcp-Method")
            .without_header("Mcp-Name")
            .without_header("MCP-Protocol-Version");
        let names = match name {
            "upper" => ["MCP-METHOD", "MCP-NAME", "MCP-PROTOCOL-VERSION"],
            _ => ["mcp-method", "mcp-name", "mcp-protocol-version"],
        };
        renamed.header(names[0], method).header(names[1], tool).header(names[2], "2026-07-28")
    };
    for case in ["upper", "lower"] {
        assert_eq!(send(&serving, named(case, "tools/call", "echo")).await.status, 200, "{case}");
    }
    for (method, tool) in [("Tools/Call", "echo"), ("TOOLS/CALL", "echo"), ("tools/call", "Echo")] {
        let refused = send(&serving, named("lower", method, tool)).await;
        assert_eq!((refused.status, refused.error_code()), (400, Some(-32020)), "{method} {tool}");
    }
}

#[tokio::test]
async fn header_must_match_its_argument() {
    // HTTP-060, HTTP-075; HTTP-065: ambiguous notations of numbers are refused.
    #[derive(Deserialize, JsonSchema)]
    struct Deploy {
        #[schemars(extend("x-mcp-header" = "Region"))]
        region: String,
        #[schemars(extend("x-mcp-header" = "Count"))]
        count: i64,
    }
    let deploy = Tool::new("deploy")
        .handler(|Args(deploy): Args<Deploy>| async move { format!("{} {}", deploy.region, deploy.count) });
    let serving = TestServer::start(&Server::new("s", "1").tool(deploy)).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let listed = send(&serving, Request::stateless(list)).await.json();
    assert_eq!(listed["result"]["tools"][0]["inputSchema"]["properties"]["region"]["x-mcp-header"], "Region");
    let deploy = |arguments: Value| {
        let mut request = call(1, "deploy");
        request["params"]["arguments"] = arguments;
        Request::stateless(request)
    };
    let region = deploy(json!({"region": "eu-west", "count": 1})).header("Mcp-Param-Count", "1");
    for (request, status) in [
        (region.clone().header("Mcp-Param-Region", "eu-west"), 200),
        (region.clone().header("mcp-param-region", "=?base64?ZXUtd2VzdA==?="), 200),
        (region.clone(), 400),
        (region.clone().header("Mcp-Param-Region", "eu-east"), 400),
        (region.clone().header("Mcp-Param-Region", "EU-WEST"), 400),
        (region.header("Mcp-Param-Region", "eu-west").header("Mcp-Param-Region", "eu-west"), 400),
    ] {
        let answer = send(&serving, request.clone()).await;
        assert_eq!(answer.status, status, "{request:?} {answer:?}");
        assert_eq!(answer.error_code(), (status == 400).then_some(-32020), "{answer:?}");
    }
    for (count, status) in [
        (9_007_199_254_740_991_i64, 200),
        (-9_007_199_254_740_991, 200),
        (9_007_199_254_740_992, 400),
        (-9_007_199_254_740_992, 400),
    ] {
        let request = deploy(json!({"region": "eu", "count": count}))
            .header("Mcp-Param-Region", "eu")
            .header("Mcp-Param-Count", &count.to_string());
        let answer = send(&serving, request).await;
        assert_eq!(answer.status, status, "{count} {answer:?}");
    }
}

#[tokio::test]
async fn session_ids_are_ignored_and_never_created() {
    // SESS-014
    let serving = TestServer::start(&feature_server().server).await;
    let known = open_session(&serving, "2025-11-25", json!({})).await;
    for id in [known.as_str(), "unknown", "not even an id"] {
        for request in [Request::stateless(call(1, "echo")), Request::stateless(notice("notifications/x"))] {
            let answer = send(&serving, request.session(id)).await;
            assert!(answer.status == 200 || answer.status == 202, "{answer:?}");
            assert_eq!(answer.header("mcp-session-id"), None);
        }
    }
    let discover = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}});
    assert_eq!(send(&serving, Request::stateless(discover)).await.header("mcp-session-id"), None);
}

#[tokio::test]
async fn too_many_or_large_headers_are_refused_before_the_body() {
    // SEC-030
    let serving = TestServer::start(&feature_server().server).await;
    let garbage = Request::stateless(call(1, "echo")).body("{oops");
    let large = format!("=?base64?{}?=", "A".repeat(1 << 20));
    let mut many = garbage.clone();
    for number in 0..200 {
        many = many.header(&format!("Mcp-Param-{number}"), "x");
    }
    for request in [many, garbage.header("Mcp-Param-Region", &large)] {
        let mut connection = serving.connect().await;
        connection.write_request(&request).await;
        let refused = connection.read_head().await.unwrap();
        assert_eq!(refused.status, 431, "{refused:?}");
    }
}
