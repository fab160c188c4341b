//! Clients of 2026-07-28 and servers that ask in the middle of a call: the call waits until its client comes back.

use std::time::Duration;

use serde_json::{Value, json};
use tsugite::bridge::Bridge as Span;
use tsugite::client::{ClientBuilder, Command};
use tsugite_testkit::http::TestServer;

use crate::bridge::{Bridge, Door};
use crate::client::Client;
use crate::message::Rev::{Jul26, Nov25};
use crate::message::Way::{self, Http, Stdio};
use crate::pair::{call, run, same};
use crate::server::Server;

/// Calls, and gives the question: its key, its text and the state.
async fn question(client: &mut Client, cell: &str) -> Result<(String, Value, Value), String> {
    let result = client.request("tools/call", call("ask", cell)).await?;
    let questions = result["inputRequests"].as_object().cloned().unwrap_or_default();
    let (key, question) = questions.iter().next().ok_or(format!("no question: {result}"))?;
    Ok((key.clone(), question["params"]["message"].clone(), result["requestState"].clone()))
}

fn comes_back(cell: &str, key: &str, state: &Value) -> Value {
    let mut params = call("ask", cell);
    let answer = json!({"action": "accept", "content": {"name": format!("Ada of {cell}")}});
    params["inputResponses"] = json!({key: answer});
    params["requestState"] = state.clone();
    params
}

pub(crate) fn two_clients_at_once_get_their_own_questions() {
    run(async {
        for way in [Stdio, Http] {
            let server = Server::start(Nov25, way).await;
            let mut bridge = Bridge::start(Http, &server).await;
            let mut one = Client::connect(Jul26, bridge.door()).await?;
            let mut other = Client::connect(Jul26, bridge.door()).await?;
            let mut asked = Vec::new();
            // Both are open before either is answered.
            for (client, cell) in [(&mut one, "one"), (&mut other, "other")] {
                let (key, text, state) = question(client, cell).await?;
                same("the question", &text, &json!(format!("Who? {cell}")))?;
                asked.push((key, state));
            }
            for (client, cell, (key, state)) in
                [(&mut other, "other", &asked[1]), (&mut one, "one", &asked[0])]
            {
                let result = client.request("tools/call", comes_back(cell, key, state)).await?;
                same("the answer", &result["content"][0]["text"], &json!(format!("accept Ada of {cell}")))?;
            }
            same("the faults", &json!(server.faults()), &json!([]))?;
        }
        Ok(())
    });
}

pub(crate) fn a_state_that_is_not_its_own_is_refused() {
    run(async {
        let server = Server::start(Nov25, Http).await;
        let mut bridge = Bridge::start(Http, &server).await;
        let mut elsewhere = Bridge::start(Http, &server).await;
        let mut client = Client::connect(Jul26, bridge.door()).await?;
        let mut stranger = Client::connect(Jul26, elsewhere.door()).await?;
        let (key, _, state) = question(&mut client, "mine").await?;
        let text = state.as_str().unwrap_or_default();
        let last = if text.ends_with('A') { "B" } else { "A" };
        let middle = text.len() / 2;
        let swapped = if text[middle..].starts_with('A') { "B" } else { "A" };
        let forged = [
            format!("{}{swapped}{}", &text[..middle], &text[middle + 1..]),
            format!("{}{last}", &text[..text.len() - 1]),
            text[..text.len() - 4].to_owned(),
            text[..7].to_owned(),
        ];
        for forged in forged {
            refused(&mut client, comes_back("mine", &key, &json!(forged))).await?;
        }
        // Sealed for other arguments, and by another bridge.
        refused(&mut client, comes_back("another", &key, &state)).await?;
        refused(&mut stranger, comes_back("mine", &key, &state)).await?;
        refused(&mut client, comes_back("mine", &key, &json!(7))).await?;
        // None of that has harmed the call.
        let result = client.request("tools/call", comes_back("mine", &key, &state)).await?;
        same("the answer", &result["content"][0]["text"], &json!("accept Ada of mine"))?;
        refused(&mut client, comes_back("mine", &key, &state)).await
    });
}

async fn refused(client: &mut Client, params: Value) -> Result<(), String> {
    let answer = client.ask("tools/call", params).await?;
    same("the number of the error", &answer.value["error"]["code"], &json!(-32602))?;
    match answer.value["error"]["message"].as_str().is_some_and(|text| text.contains("requestState")) {
        true => Ok(()),
        false => Err(format!("no clear error: {}", answer.text)),
    }
}

/// In the same process, since how long a call waits is a setting of the library.
pub(crate) fn a_call_nobody_comes_back_for_is_ended() {
    run(async {
        for way in [Stdio, Http] {
            let server = Server::start(Nov25, way).await;
            let bridge = Span::to(target(&server, way))
                .max_suspended_calls(1)
                .suspended_call_ttl(Duration::from_millis(100));
            let serving = TestServer::start(&bridge.server()).await;
            let mut client = Client::connect(Jul26, Door::At(serving.address)).await?;
            let (key, _, state) = question(&mut client, "left").await?;
            server.noted("left", "cancelled").await?;
            refused(&mut client, comes_back("left", &key, &state)).await?;
            let result = client.request("tools/call", call("echo", "next")).await?;
            same("the answer", &result["content"][0]["text"], &json!("echo"))?;
            bridge.close().await;
            server.has_connections(0).await?;
        }
        Ok(())
    });
}

pub(crate) fn no_more_calls_wait_than_may() {
    run(async {
        let server = Server::start(Nov25, Stdio).await;
        let bridge = Span::to(target(&server, Stdio)).max_suspended_calls(1);
        let serving = TestServer::start(&bridge.server()).await;
        let mut client = Client::connect(Jul26, Door::At(serving.address)).await?;
        let (key, _, state) = question(&mut client, "first").await?;
        let answer = client.ask("tools/call", call("ask", "second")).await?;
        let told = answer.value["error"]["message"].as_str().unwrap_or_default();
        if !told.contains("try again later") {
            return Err(format!("no clear error: {}", answer.text));
        }
        server.noted("second", "cancelled").await?;
        let result = client.request("tools/call", comes_back("first", &key, &state)).await?;
        same("the answer", &result["content"][0]["text"], &json!("accept Ada of first"))
    });
}

fn target(server: &Server, way: Way) -> ClientBuilder {
    match (way, server.target().as_slice()) {
        (Stdio, [_, program, words @ ..]) => tsugite::Client::spawn(Command::new(program).args(words)),
        _ => tsugite::Client::connect(server.url()),
    }
}
