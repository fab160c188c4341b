//! What is remembered is limited in number and bytes, for each caller and in total.

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite_testkit::raw_client::RawClient;

use super::{FIRST, NEWEST, Stage, call, fault, text};

const UNAVAILABLE: i64 = -32803;

fn key(number: usize) -> String {
    format!("key-with-number-{number:04}")
}

fn assert_limited(response: &Value, setting: &str) {
    assert_eq!(response["error"]["code"], UNAVAILABLE, "{response}");
    assert!(response["error"]["message"].as_str().unwrap().contains(setting), "{response}");
}

#[tokio::test(start_paused = true)]
async fn number_of_keys_is_limited() {
    let stage = Stage::new();
    let server = stage.server().max_once_keys(3).max_once_keys_per_caller(2);
    let connect = |name| RawClient::connect_as(&server, Principal::new(name), NEWEST, json!({}));
    let (mut ann, mut ben) = (connect("ann").await, connect("ben").await);
    for number in 0..2 {
        text(&call(&mut ann, "pay", &key(number)).await);
    }
    assert_limited(&call(&mut ann, "pay", &key(2)).await, "max_once_keys_per_caller");
    text(&call(&mut ben, "pay", &key(0)).await);
    assert_limited(&call(&mut ben, "pay", &key(1)).await, "`max_once_keys`");
    assert_eq!(stage.runs(), 3);
    // Known keys and calls without a key still work.
    assert_eq!(text(&call(&mut ann, "pay", &key(0)).await), "run 1 with {}");
    assert_eq!(text(&ben.call("pay", json!({})).await), "run 4 with {}");
    tokio::time::advance(std::time::Duration::from_secs(3_601)).await;
    assert_eq!(text(&call(&mut ben, "pay", &key(1)).await), "run 5 with {}");
}

#[tokio::test]
async fn call_that_did_not_run_does_not_count() {
    let stage = Stage::new();
    let server = stage.server().max_once_keys(1);
    let mut client = super::connect(&server).await;
    for number in 0..3 {
        let mut unfit = super::params("pay", &key(number));
        unfit["requestState"] = json!("made up");
        assert_eq!(client.request_once("tools/call", unfit).await["error"]["code"], -32602);
    }
    text(&call(&mut client, "pay", FIRST).await);
}

#[tokio::test]
async fn too_large_result_is_sent_once_and_not_run_again() {
    let large = || Tool::new("large").once(true).handler(|| async { "x".repeat(10_000) });
    for server in [
        Server::new("once", "1").tool(large()).max_once_result_bytes(9_999),
        Server::new("once", "1").tool(large()).max_once_bytes(9_999),
        Server::new("once", "1").tool(large()).max_once_bytes_per_caller(9_999),
    ] {
        let mut client = RawClient::connect_as(&server, Principal::new("ann"), NEWEST, json!({})).await;
        assert_eq!(text(&call(&mut client, "large", FIRST).await).len(), 10_000);
        assert_eq!(fault(&call(&mut client, "large", FIRST).await), "result_not_kept");
    }
}
