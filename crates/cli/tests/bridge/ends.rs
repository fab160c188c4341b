//! Clients that go, servers that die, and servers that say more than anybody reads.

use serde_json::json;

use crate::bridge::Bridge;
use crate::client::Client;
use crate::message::Rev::{Jul26, Mar25, Nov24, Nov25};
use crate::message::Way::{Http, Stdio};
use crate::pair::{Pair, call, each, is, run, same};
use crate::server::Server;

pub(crate) fn a_server_goes_with_its_client() {
    run(async {
        // Through the pipes: with the client, and with the bridge.
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
        // Over HTTP each session has a server of its own, and ends with a word or with its stream.
        for (rev, far) in [(Nov25, Stdio), (Nov24, Http), (Mar25, Http)] {
            let server = Server::start(rev, far).await;
            let mut bridge = Bridge::start(Http, &server).await;
            let mut one = Client::connect(Mar25, bridge.door()).await?;
            let mut other = Client::connect(Nov24, bridge.door()).await?;
            same("the servers", &json!(server.connections()), &json!(2))?;
            one.begin("tools/call", call("wait", "one")).await?;
            server.noted("one", "begun").await?;
            // One that leaves a question behind.
            let mut asking = call("ask", "other");
            asking["arguments"]["kind"] = json!("sampling");
            other.begin("tools/call", asking).await?;
            other.wait("a question", is("sampling/createMessage")).await?;
            one.close().await?;
            server.has_connections(1).await?;
            drop(other);
            server.has_connections(0).await?;
            same("the faults", &json!(server.faults()), &json!([]))?;
        }
        Ok(())
    });
}

pub(crate) fn a_server_that_dies_in_a_call_is_started_again() {
    let pairs = [
        ((Nov25, Stdio), (Nov25, Stdio)),
        ((Nov24, Http), (Jul26, Stdio)),
        ((Jul26, Stdio), (Nov24, Stdio)),
        ((Jul26, Http), (Jul26, Stdio)),
    ];
    each(&pairs, async |Pair { client, .. }| {
        for _ in 0..2 {
            let answer = client.ask("tools/call", call("die", "dead")).await?;
            let told = answer.value["error"]["message"].as_str().unwrap_or_default();
            if !told.contains("the connection was lost") {
                return Err(format!("no clear error: {}", answer.text));
            }
            let result = client.request("tools/call", call("echo", "alive")).await?;
            same("the answer", &result["content"][0]["text"], &json!("echo"))?;
        }
        Ok(())
    });
}

pub(crate) fn a_flood_that_nobody_reads_takes_no_memory() {
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

/// Floods a client that does not read, in the middle of a call or when it is over.
async fn flooded(pair: &mut Pair, method: &str, over: bool) -> Result<(), String> {
    let Pair { client, server, bridge } = pair;
    if client.rev.is_stateless() {
        let wish = json!({"toolsListChanged": true, "resourceSubscriptions": ["flood:"]});
        client.begin("subscriptions/listen", json!({"notifications": wish})).await?;
        client.next("an acknowledgement").await?;
    }
    let before = bridge.memory();
    client.hear(false);
    let mut params = call("flood", method);
    params["arguments"]["count"] = json!(FLOOD);
    params["arguments"]["method"] = json!(method);
    params["arguments"]["over"] = json!(over);
    let id = client.begin("tools/call", params).await?;
    let written = server.stalled(FLOOD * 8_000).await;
    let grown = bridge.memory().unwrap_or(0).saturating_sub(before.unwrap_or(0));
    if grown > MOST {
        return Err(format!("{method}: {written} bytes were written, and the bridge has grown by {grown}"));
    }
    client.hear(true);
    let answer = client.answer(&id).await?.value;
    same("the answer", &answer["result"]["content"][0]["text"], &json!("flooded"))?;
    // A client with a session has made its server wait, and lost nothing.
    if !over && !client.rev.is_stateless() {
        let heard = client.kept().iter().filter(|heard| is(method)(heard)).count();
        same("how much was heard", &json!(heard), &json!(FLOOD))?;
    }
    let result = client.request("tools/call", call("echo", "afterwards")).await?;
    same("the answer", &result["content"][0]["text"], &json!("echo"))
}

/// Notifications of eight thousand bytes and a little: several times what the sockets on the way take up by themselves.
const FLOOD: u64 = 1_500;
/// What the bridge may grow by meanwhile.
const MOST: u64 = 3 << 20;
