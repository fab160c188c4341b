//! Clients that disconnect, servers that die, and servers that send more than the client reads.

use serde_json::json;

use crate::bridge::Bridge;
use crate::client::Client;
use crate::message::Rev::{Jul26, Mar25, Nov24, Nov25};
use crate::message::Transport::{Http, Stdio};
use crate::pair::{Pair, call, each, is, run, same};
use crate::server::Server;

pub(crate) fn server_ends_with_its_client() {
    run(async {
        // Over stdio the server ends with the client, and with the bridge.
        for (rev, far) in [(Nov24, Stdio), (Nov25, Stdio), (Jul26, Stdio), (Nov24, Http), (Nov25, Http)] {
            let Pair { client, server, bridge } = Pair::new((Nov25, Stdio), (rev, far)).await?;
            drop(client);
            bridge.end().await?;
            server.has_connections(0).await?;
            same("the faults", &json!(server.faults()), &json!([]))?;
        }
        let Pair { client, server, bridge } = Pair::new((Nov25, Stdio), (Nov25, Stdio)).await?;
        bridge.kill().await;
        server.has_connections(0).await?;
        drop(client);
        // Over HTTP each session has a server of its own, and ends with DELETE or with its stream.
        for (rev, far) in [(Nov25, Stdio), (Nov24, Http), (Mar25, Http)] {
            let server = Server::start(rev, far).await;
            let mut bridge = Bridge::start(Http, &server).await;
            let mut one = Client::connect(Mar25, bridge.endpoint()).await?;
            let mut other = Client::connect(Nov24, bridge.endpoint()).await?;
            // The second client needs none before its first request.
            same("the servers", &json!(server.connections()), &json!(1))?;
            one.begin("tools/call", call("wait", "one")).await?;
            server.noted("one", "begun").await?;
            // A client that disconnects with an open question.
            let mut asking = call("ask", "other");
            asking["arguments"]["kind"] = json!("sampling");
            other.begin("tools/call", asking).await?;
            other.wait("a question", is("sampling/createMessage")).await?;
            same("the servers", &json!(server.connections()), &json!(2))?;
            one.close().await?;
            server.has_connections(1).await?;
            drop(other);
            server.has_connections(0).await?;
            same("the faults", &json!(server.faults()), &json!([]))?;
        }
        Ok(())
    });
}

pub(crate) fn server_that_dies_in_a_call_is_restarted() {
    let pairs = [
        ((Nov25, Stdio), (Nov25, Stdio)),
        ((Nov24, Http), (Jul26, Stdio)),
        ((Jul26, Stdio), (Nov24, Stdio)),
        ((Jul26, Http), (Jul26, Stdio)),
    ];
    each(&pairs, async |Pair { client, .. }| {
        for _ in 0..2 {
            let answer = client.ask("tools/call", call("die", "dead")).await?;
            let message = answer.value["error"]["message"].as_str().unwrap_or_default();
            if !message.contains("the connection was lost") {
                return Err(format!("no clear error: {}", answer.text));
            }
            let result = client.request("tools/call", call("echo", "alive")).await?;
            same("the answer", &result["content"][0]["text"], &json!("echo"))?;
        }
        Ok(())
    });
}

pub(crate) fn unread_notifications_do_not_grow_memory() {
    let during = [
        ((Nov25, Stdio), (Nov25, Stdio)),
        ((Jul26, Stdio), (Nov25, Stdio)),
        ((Nov24, Stdio), (Jul26, Stdio)),
    ];
    each(&during, async |pair| flooded(pair, "notifications/message", false).await);
    let later = [
        ((Nov25, Stdio), (Nov25, Stdio)),
        ((Jul26, Stdio), (Nov24, Stdio)),
        ((Jul26, Stdio), (Jul26, Stdio)),
    ];
    for method in
        ["notifications/message", "notifications/tools/list_changed", "notifications/resources/updated"]
    {
        each(&later, async |pair| flooded(pair, method, true).await);
    }
}

/// Floods a client that does not read, during a call or after it.
async fn flooded(pair: &mut Pair, method: &str, over: bool) -> Result<(), String> {
    let Pair { client, server, bridge } = pair;
    if client.rev.is_stateless() {
        let wish = json!({"toolsListChanged": true, "resourceSubscriptions": ["flood:"]});
        client.begin("subscriptions/listen", json!({"notifications": wish})).await?;
        client.next("an acknowledgement").await?;
    }
    let before = bridge.memory();
    client.set_reading(false);
    let mut params = call("flood", method);
    params["arguments"]["count"] = json!(FLOOD);
    params["arguments"]["method"] = json!(method);
    params["arguments"]["over"] = json!(over);
    let id = client.begin("tools/call", params).await?;
    let written = server.stalled(FLOOD * 8_000).await;
    let grown = bridge.memory().unwrap_or(0).saturating_sub(before.unwrap_or(0));
    if grown > MAX_GROWTH {
        return Err(format!("{method}: {written} bytes were written, and the bridge has grown by {grown}"));
    }
    client.set_reading(true);
    let answer = client.answer(&id).await?.value;
    same("the answer", &answer["result"]["content"][0]["text"], &json!("flooded"))?;
    // A client with a session slows its server down, and loses nothing.
    if !over && !client.rev.is_stateless() {
        let received = client.kept().iter().filter(|received| is(method)(received)).count();
        same("the number of notifications", &json!(received), &json!(FLOOD))?;
    }
    let result = client.request("tools/call", call("echo", "afterwards")).await?;
    same("the answer", &result["content"][0]["text"], &json!("echo"))
}

/// Notifications of about 8,000 bytes: several times the capacity of all socket buffers.
const FLOOD: u64 = 1_500;
/// How much the memory of the bridge may grow.
const MAX_GROWTH: u64 = 3 << 20;
