//! Clients that use the keys of others, or keys in ways that are not allowed.

use serde_json::json;
use tsugite::prelude::*;
use tsugite_testkit::raw_client::RawClient;

use super::{FIRST, KEY, NEWEST, Stage, call, fault, params, text};

#[tokio::test]
async fn key_of_another_caller_runs_another_call() {
    let stage = Stage::new();
    let server = stage.server();
    let ann = || Principal::new("ann");
    let callers = [
        (ann(), 1),
        (Principal::new("ben"), 2),
        (ann().with_issuer("https://other.example"), 3),
        (Principal::from_client("ann"), 4),
        // A token with other scopes is the same caller.
        (ann().with_scopes(["admin"]), 1),
    ];
    for (caller, run) in callers {
        let mut client = RawClient::connect_as(&server, caller, NEWEST, json!({})).await;
        assert_eq!(text(&call(&mut client, "pay", FIRST).await), format!("run {run} with {{}}"));
    }
    let mut nobody = RawClient::connect(&server, NEWEST, json!({})).await;
    assert_eq!(text(&call(&mut nobody, "pay", FIRST).await), "run 5 with {}");
}

#[tokio::test]
async fn other_arguments_under_a_key_do_not_run() {
    let stage = Stage::new();
    let mut client = super::connect(&stage.server()).await;
    assert_eq!(text(&call(&mut client, "pay", FIRST).await), "run 1 with {}");
    for arguments in [json!({"to": "ben"}), json!({"": null})] {
        let params = json!({"name": "pay", "arguments": arguments, "_meta": {KEY: FIRST}});
        assert_eq!(fault(&client.request_once("tools/call", params).await), "other_call");
    }
    assert_eq!(fault(&call(&mut client, "slow", FIRST).await), "other_call");
    assert_eq!(stage.runs(), 1);
}

#[tokio::test]
async fn key_holds_for_one_revision() {
    let stage = Stage::new();
    let server = stage.server();
    let mut client = super::connect(&server).await;
    assert_eq!(text(&call(&mut client, "pay", FIRST).await), "run 1 with {}");
    let mut older = RawClient::connect(&server, Revision::V2025_11_25, json!({})).await;
    assert_eq!(fault(&call(&mut older, "pay", FIRST).await), "other_call");
}

#[tokio::test]
async fn refused_call_is_not_remembered() {
    let stage = Stage::new();
    let server = Server::new("once", "1").tool(stage.pay().scope("pay"));
    let mut without = RawClient::connect_as(&server, Principal::new("ann"), NEWEST, json!({})).await;
    assert!(call(&mut without, "pay", FIRST).await["error"].is_object());
    let with = Principal::new("ann").with_scopes(["pay"]);
    let mut with = RawClient::connect_as(&server, with, NEWEST, json!({})).await;
    assert_eq!(text(&call(&mut with, "pay", FIRST).await), "run 1 with {}");
    // The outcome needs the scope, too.
    assert!(call(&mut without, "pay", FIRST).await["error"].is_object());
}

#[tokio::test]
async fn forged_state_does_not_use_the_key() {
    let stage = Stage::new();
    let mut client = super::connect(&stage.server()).await;
    let mut forged = params("pay", FIRST);
    forged["requestState"] = json!("made up");
    assert_eq!(client.request_once("tools/call", forged).await["error"]["code"], -32602);
    assert_eq!(text(&call(&mut client, "pay", FIRST).await), "run 1 with {}");
}

#[tokio::test]
async fn key_is_shown_in_no_message() {
    let stage = Stage::new();
    let mut client = super::connect(&stage.server()).await;
    call(&mut client, "pay", FIRST).await;
    let refused = call(&mut client, "slow", FIRST).await;
    assert!(!refused.to_string().contains(FIRST), "{refused}");
}
