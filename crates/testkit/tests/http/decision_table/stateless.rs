//! Rows 3 to 8, 14 to 16 and 25: requests of the stateless era, and requests that only look like it.

use serde_json::{Value, json};
use tsugite_testkit::http::{Request, initialize_request};

use super::{CAPABILITIES, CountingServer, MODERN, VERSION, call, claiming, notice, plain, refused, text};

#[tokio::test]
async fn row_3_matching_claim_and_header_are_served() {
    let counted = CountingServer::start().await;
    let answer = counted.send(Request::stateless(call("echo"))).await;
    assert_eq!(text(&answer), MODERN);
    assert_eq!(answer.json()["id"], 7);
    // SESS-014: a session is neither used nor opened.
    let answer = counted.send(Request::stateless(call("echo")).session("unknown-session")).await;
    assert_eq!((text(&answer), answer.header("mcp-session-id")), (MODERN.to_owned(), None));
}

#[tokio::test]
async fn row_4_claim_without_a_header_is_a_mismatch() {
    // HTTP-055
    let counted = CountingServer::start().await;
    for version in [MODERN, "v999.0.0", "2030-01-01"] {
        let request = Request::post(&claiming(version, call("echo")));
        assert_eq!(refused(&counted.send(request).await), (400, -32020), "{version}");
    }
    assert_eq!(counted.calls(), 0);
}

#[tokio::test]
async fn row_5_claim_and_header_that_differ_are_a_mismatch() {
    // HTTP-047
    let counted = CountingServer::start().await;
    for (claim, header) in
        [("v999.0.0", MODERN), (MODERN, "v999.0.0"), (MODERN, "2025-11-25"), ("2030-01-01", "2031-01-01")]
    {
        let request =
            Request::stateless(claiming(claim, call("echo"))).replace_header("MCP-Protocol-Version", header);
        assert_eq!(refused(&counted.send(request).await), (400, -32020), "{claim} {header}");
    }
    assert_eq!(counted.calls(), 0);
}

#[tokio::test]
async fn row_6_unsupported_version_error_lists_supported_versions() {
    let all = CountingServer::start().await;
    let old =
        CountingServer::with(|server| server.revisions(tsugite::prelude::Revisions::ALL.handshake())).await;
    for (counted, version, supports) in
        [(&all, "2030-01-01", MODERN), (&all, "v999.0.0", MODERN), (&old, MODERN, "2025-11-25")]
    {
        let request = Request::stateless(claiming(version, call("echo")))
            .replace_header("MCP-Protocol-Version", version);
        let answer = counted.send(request).await;
        assert_eq!(refused(&answer), (400, -32022), "{version}");
        let data = &answer.json()["error"]["data"];
        assert_eq!(data["requested"], version);
        assert!(data["supported"].as_array().unwrap().contains(&json!(supports)), "{data}");
        assert_eq!(counted.calls(), 0);
    }
}

#[tokio::test]
async fn row_7_older_claim_is_not_stateless() {
    let counted = CountingServer::start().await;
    let session = counted.open("2025-06-18").await;
    let request = Request::post(&claiming("2025-06-18", call("echo")));
    let answer = counted.send(request.clone().session(&session)).await;
    assert_eq!(text(&answer), "2025-06-18");
    // Without a session it is refused like any other request without one.
    assert_eq!(refused(&counted.send(request).await).0, 400);
    let mut hello = initialize_request("2025-06-18", json!({}));
    hello["params"]["_meta"] = json!({VERSION: "2025-06-18"});
    let opened = counted.send(Request::post(&hello)).await;
    assert_eq!((opened.status, opened.header("mcp-session-id").is_some()), (200, true));
}

#[tokio::test]
async fn row_8_stateless_header_without_a_claim_is_invalid() {
    // VER-004
    let counted = CountingServer::start().await;
    let session = counted.open("2025-11-25").await;
    let mut without_version = call("echo");
    without_version["params"]["_meta"] = json!({CAPABILITIES: {}});
    let mut hello = initialize_request("2025-11-25", json!({}));
    hello["id"] = json!(7);
    for message in [call("echo"), without_version, plain("tools/list"), hello] {
        let request = Request::post(&message).header("MCP-Protocol-Version", MODERN);
        let request = request.header("Mcp-Method", message["method"].as_str().unwrap());
        for request in [request.clone(), request.session(&session)] {
            let answer = counted.send(request).await;
            assert_eq!(refused(&answer), (400, -32602), "{message}");
            assert!(answer.json()["error"]["message"].as_str().unwrap().contains(VERSION), "{answer:?}");
            assert_eq!(answer.header("mcp-session-id"), None);
        }
    }
    assert_eq!(counted.calls(), 0);
}

#[tokio::test]
async fn row_14_discovery_without_a_claim_is_invalid() {
    let counted = CountingServer::start().await;
    let session = counted.open("2025-11-25").await;
    let request = Request::post(&plain("server/discover"));
    for request in [
        request.clone(),
        request.clone().session(&session),
        request.clone().header("MCP-Protocol-Version", "2025-11-25"),
        request.header("MCP-Protocol-Version", MODERN),
    ] {
        assert_eq!(refused(&counted.send(request).await), (400, -32602));
    }
    let found = counted.send(Request::stateless(plain("server/discover"))).await;
    assert_eq!(found.status, 200);
    let supported = &found.json()["result"]["supportedVersions"];
    assert!(supported.as_array().unwrap().contains(&json!(MODERN)), "{found:?}");
}

#[tokio::test]
async fn row_14_bare_discover_is_served() {
    let counted = CountingServer::start().await;
    let session = counted.open("2025-11-25").await;
    let full = counted.send(Request::stateless(plain("server/discover"))).await.json();
    let request = Request::post(&plain("mcp/discover"));
    for request in [
        request.clone(),
        request.clone().session(&session),
        request.clone().header("MCP-Protocol-Version", "2025-11-25"),
    ] {
        let found = counted.send(request).await;
        assert_eq!((found.status, found.header("mcp-session-id")), (200, None));
        assert_eq!(found.json()["result"], full["result"]);
    }
    let strict = counted.send(request.header("MCP-Protocol-Version", MODERN)).await;
    assert_eq!(refused(&strict), (400, -32602));
}

#[tokio::test]
async fn row_15_removed_methods_are_not_found() {
    // VER-034, PING-005
    let counted = CountingServer::start().await;
    let session = counted.open("2025-11-25").await;
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "roots/list",
        "sampling/createMessage",
    ] {
        let request = Request::stateless(plain(method));
        for request in [request.clone(), request.session(&session)] {
            let answer = counted.send(request).await;
            assert_eq!(refused(&answer), (404, -32601), "{method}");
            assert_eq!(answer.header("mcp-session-id"), None, "{method}");
        }
    }
}

#[tokio::test]
async fn row_16_stateless_notification_needs_no_more_headers() {
    // HTTP-014, HTTP-090
    let counted = CountingServer::start().await;
    let mut claims = notice("notifications/anything");
    claims["params"] = json!({"_meta": {VERSION: MODERN}});
    let header = |message: Value| Request::post(&message).header("MCP-Protocol-Version", MODERN);
    for request in [
        Request::post(&claims),
        header(claims),
        header(notice("notifications/unheard/of")),
        header(notice("notifications/cancelled")),
    ] {
        let answer = counted.send(request).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{answer:?}");
    }
}

#[tokio::test]
async fn row_25_stateless_server_lists_its_versions() {
    // VER-032, HTTP-050
    let counted = CountingServer::stateless_only().await;
    let mut hello = initialize_request("2025-11-25", json!({}));
    hello["id"] = json!(7);
    let answer = counted.send(Request::post(&hello)).await;
    assert_eq!(refused(&answer).0, 400);
    assert_eq!(answer.json()["error"]["data"]["supported"], json!([MODERN]));
    assert_eq!(answer.header("mcp-session-id"), None);
    assert_eq!(refused(&counted.send(Request::post(&call("echo"))).await), (400, -32020));
    for version in ["2025-11-25", "2025-03-26", "1999-01-01"] {
        let request = Request::post(&call("echo")).header("MCP-Protocol-Version", version);
        let answer = counted.send(request).await;
        assert_eq!(refused(&answer), (400, -32022), "{version}");
        let data = json!({"supported": [MODERN], "requested": version});
        assert_eq!(answer.json()["error"]["data"], data);
    }
    assert_eq!(counted.calls(), 0);
    assert_eq!(text(&counted.send(Request::stateless(call("echo"))).await), MODERN);
}
