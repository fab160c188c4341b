//! A call that its client gives up: the server hears of it, and keeps running.

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite_testkit::http::{Request, TestServer};
use tsugite_testkit::raw_client::RawClient;
use tsugite_testkit::script::ScriptFile;

use super::script::{Reports, spawn};
use super::{HANDSHAKE, STATELESS, can_be_asked, names, text, within};

#[tokio::test]
async fn reason_of_a_cancellation_is_forwarded() {
    for near in [HANDSHAKE, STATELESS] {
        let heard = Reports::listen().await;
        let far = spawn(&format!(
            "handshake; read_line; report {heard} yes; read_line; report {heard} $line; drain"
        ));
        let bridge = Bridge::to(far);
        let mut peer = RawClient::connect(&bridge.server(), near, can_be_asked()).await;
        let call = peer.send_request("tools/call", json!({"name": "slow"}));
        heard.next().await;
        peer.notify("notifications/cancelled", json!({"requestId": call, "reason": "the user left"}));
        let told: Value = serde_json::from_str(&heard.next().await).unwrap();
        assert_eq!(told["method"], "notifications/cancelled", "{near}: {told}");
        assert_eq!(told["params"]["reason"], "the user left", "{near}: {told}");
        bridge.close().await;
    }
}

#[tokio::test]
async fn reason_of_a_withdrawn_question_is_forwarded() {
    let go = Reports::listen().await;
    let far = spawn(&format!(
        r#"handshake; read_line; ask 9; wait_for {go}
        send_line '{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":9,"reason":"too late"}}}}'
        drain"#
    ));
    let bridge = Bridge::to(far);
    let mut peer = RawClient::connect(&bridge.server(), HANDSHAKE, can_be_asked()).await;
    peer.send_request("tools/call", json!({"name": "asks"}));
    let question = within(peer.next()).await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    go.allow().await;
    let told = within(peer.next()).await;
    assert_eq!(told["method"], "notifications/cancelled", "{told}");
    assert_eq!(told["params"], json!({"requestId": question["id"], "reason": "too late"}));
    bridge.close().await;
}

/// A second process of the server lists another tool.
#[tokio::test]
async fn abandoned_call_does_not_end_the_server() {
    let (first, heard) = (ScriptFile::new(), Reports::listen().await);
    let list = |id: u32, name: &str| {
        format!(
            r#"send_line '{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{{"name":"{name}","inputSchema":{{"type":"object"}}}}]}}}}'"#
        )
    };
    let (old, new) = (list(3, "old"), list(2, "new"));
    let far = spawn(&format!(
        "once {first} {{
            handshake; read_line; report {heard} yes; read_line; report {heard} $line; read_line; {old}; drain
        }}
        handshake; read_line; {new}; drain"
    ));
    let bridge = Bridge::to(far);
    let near = TestServer::start(&bridge.server()).await;
    let request = |method: &str, mut params: Value| {
        params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": can_be_asked()});
        Request::stateless(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    };
    let call = request("tools/call", json!({"name": "slow", "arguments": {}}));
    let sending = tokio::spawn({
        let mut connection = near.connect().await;
        async move { connection.send(call).await }
    });
    heard.next().await;
    // Dropping the connection gives up the call.
    sending.abort();
    assert!(heard.next().await.contains("notifications/cancelled"));
    let list = within(near.send(request("tools/list", json!({})))).await.json();
    assert_eq!(names(&list), ["old"]);
    bridge.close().await;
}

/// The calls after an abandoned one share the second process, and with it its state.
#[tokio::test]
async fn process_in_place_of_one_set_aside_stays() {
    let (first, heard) = (ScriptFile::new(), Reports::listen().await);
    let far = spawn(&format!(
        "handshake
        once {first} {{ read_line; report {heard} yes; read_line; report {heard} $line; drain }}
        repeat forever {{ read_line; answer $id $process }}"
    ));
    let bridge = Bridge::to(far);
    let near = TestServer::start(&bridge.server()).await;
    let call = || {
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": can_be_asked()});
        let params = json!({"name": "t", "arguments": {}, "_meta": meta});
        Request::stateless(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
    };
    let sending = tokio::spawn({
        let (mut connection, call) = (near.connect().await, call());
        async move { connection.send(call).await }
    });
    heard.next().await;
    sending.abort();
    assert!(heard.next().await.contains("notifications/cancelled"));
    let mut processes = Vec::new();
    for _ in 0..3 {
        let answer = within(near.send(call())).await.json();
        processes.push(text(&answer).to_owned());
    }
    assert!(processes.iter().all(|process| *process == processes[0]), "{processes:?}");
    bridge.close().await;
}
