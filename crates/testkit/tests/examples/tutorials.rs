//! Plays the messages of five tutorials to the example `weather`, in the order of each text.
//!
//! A file of `tutorials` has a line for each message: `>` to the server, `<` from it. `handshake:` opens a session where
//! the tutorial does not show it. Some samples are plain JSON-RPC or messages of a server; the file shows the response to
//! them too. `SNAPSHOTS=overwrite` writes the responses anew.

use std::path::PathBuf;

use serde_json::{Value, json};
use tsugite::transport::memory::{self, MemoryConnection};

/// Sends one message. Returns all messages up to its response; none if it is a notification.
async fn exchange(wire: &mut MemoryConnection, message: &Value) -> Vec<Value> {
    let is_request = |message: &Value| message.get("method").is_some() && message.get("id").is_some();
    let awaits = match message {
        Value::Array(batch) => batch.iter().any(is_request),
        single => is_request(single),
    };
    wire.send(message.to_string());
    let mut received = Vec::new();
    while awaits && received.last().is_none_or(|last: &Value| last.get("method").is_some()) {
        received.push(serde_json::from_str(&wire.next().await).unwrap());
    }
    received
}

/// Plays a file to a new connection. Returns the file with the responses of the server.
async fn play(text: &str) -> String {
    let mut wire = memory::connect(&super::weather::server()).unwrap();
    let mut played = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with("< ")) {
        played.push(line.to_owned());
        if let Some(version) = line.strip_prefix("handshake: ") {
            let client = json!({"name": "reader", "version": "1"});
            let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
            let opened =
                json!({"jsonrpc": "2.0", "id": "handshake", "method": "initialize", "params": params});
            assert_eq!(exchange(&mut wire, &opened).await[0]["result"]["protocolVersion"], version);
            wire.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        } else if let Some(message) = line.strip_prefix("> ") {
            let received = exchange(&mut wire, &serde_json::from_str(message).unwrap()).await;
            played.extend(received.iter().map(|message| format!("< {message}")));
        }
    }
    let end = exchange(&mut wire, &json!({"jsonrpc": "2.0", "id": "end", "method": "ping"})).await;
    assert_eq!(end, [json!({"jsonrpc": "2.0", "id": "end", "result": {}})], "a late message");
    played.push(String::new());
    played.join("\n")
}

#[tokio::test(start_paused = true)]
async fn messages_of_tutorials_are_answered() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/examples/tutorials"));
    let mut sent = 0;
    for name in ["transports", "methods", "base_protocol", "json_rpc", "weather"] {
        let path = folder.join(name).with_extension("txt");
        let text = std::fs::read_to_string(&path).unwrap();
        let played = play(&text).await;
        if std::env::var_os("SNAPSHOTS").is_some_and(|mode| mode == "overwrite") {
            std::fs::write(&path, &played).unwrap();
        } else {
            for (expected, line) in text.lines().zip(played.lines()) {
                assert_eq!(line, expected, "{name}");
            }
            assert_eq!(played, text, "{name}");
        }
        sent += text.lines().filter(|line| line.starts_with("> ")).count();
    }
    // Three more samples are the progress that the server sends in the weather conversation.
    assert_eq!(sent + 3, 46);
}
