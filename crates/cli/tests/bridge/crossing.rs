//! Features that the bridge forwards and the table does not cover: unknown methods and members, server requests, logs
//! and resource subscriptions.

use serde_json::{Value, json};

use crate::client::{Client, On};
use crate::message::Rev::{Jul26, Jun25, Mar25, Nov24, Nov25};
use crate::message::Transport::{Http, Stdio};
use crate::pair::{Pair, call, each, is, same};

pub(crate) fn unknown_methods_are_forwarded() {
    let pairs = [
        ((Nov25, Stdio), (Mar25, Http)),
        ((Nov24, Http), (Nov25, Stdio)),
        ((Jun25, Http), (Nov24, Http)),
        ((Jul26, Stdio), (Jul26, Http)),
        ((Jul26, Http), (Jul26, Stdio)),
    ];
    each(&pairs, async |Pair { client, server, .. }| {
        let params = json!({"a": 1.0, "_meta": {"com.example/b": "ü"}});
        let result = client.request("x-unknown/do", params.clone()).await?;
        same("the method", &result["x-unknown"]["method"], &json!("x-unknown/do"))?;
        same("the params", &result["x-unknown"]["params"]["a"], &json!(1.0))?;
        same("`_meta`", &result["x-unknown"]["params"]["_meta"]["com.example/b"], &json!("ü"))?;
        client.request("tools/call", call("say", "said")).await?;
        let received = client.wait("an unknown notification", is("notifications/x-unknown")).await?;
        let wanted = json!({"a": 1.0, "_meta": {"com.example/cell": "said"}});
        same("the notification", &received.message.value["params"], &wanted)?;
        if client.rev.is_stateless() {
            return Ok(());
        }
        client.notify("notifications/x-unknown", params.clone()).await?;
        server.noted("notifications/x-unknown", &params.to_string()).await?;
        let mut asking = call("ask", "asked");
        asking["arguments"]["kind"] = json!("unknown");
        let id = client.begin("tools/call", asking).await?;
        let call_that_asks = client.wait("a question", is("x-unknown/ask")).await?;
        let wanted = json!({"a": 1.0, "_meta": {"com.example/cell": "asked"}});
        same("what the server asks", &call_that_asks.message.value["params"], &wanted)?;
        client.reply(&call_that_asks.message, json!({"yes": [1.0], "_meta": {"c": 1}})).await?;
        let answer = client.answer(&id).await?.value;
        same("the answer", &answer["result"]["x-answer"], &json!({"yes": [1.0], "_meta": {"c": 1}}))
    });
}

pub(crate) fn unknown_members_are_kept() {
    let pairs = [
        ((Nov25, Stdio), (Jun25, Http)),
        ((Jun25, Http), (Nov25, Stdio)),
        ((Jul26, Stdio), (Nov25, Stdio)),
        ((Nov25, Http), (Jul26, Http)),
        ((Jul26, Http), (Jul26, Http)),
    ];
    each(&pairs, async |Pair { client, server, .. }| {
        // The result of the handshake is forwarded only if both sides have the same kind of handshake.
        if client.rev.is_stateless() == server.shared.rev.is_stateless() {
            same("a member of the greeting", &client.greeting["x-unknown"], &json!([1]))?;
        }
        let offered = &client.greeting["capabilities"]["experimental"];
        same("a capability", offered, &json!({"x-unknown": {"a": 1}}))?;
        let mut params = call("params", "members");
        params["x-unknown"] = json!({"a": [1.0]});
        params["_meta"] = json!({"com.example/b": [null]});
        let result = client.request("tools/call", params).await?;
        same("a member of the params", &result["x-params"]["x-unknown"], &json!({"a": [1.0]}))?;
        same("a key of `_meta`", &result["x-params"]["_meta"]["com.example/b"], &json!([null]))?;
        same("a block", &result["content"][0]["x-unknown"], &json!(1))?;
        let can = &result["x-capabilities"];
        same("a capability of the client", &can["experimental"], &json!({"x-unknown": {"b": 1}}))?;
        let mut answer = json!({"action": "accept", "content": {"name": "Ada"}, "x-unknown": 1.0});
        // In 2026-07-28 the response to a form has no `_meta`.
        if !client.rev.is_stateless() && !server.shared.rev.is_stateless() {
            answer["_meta"] = json!({"d": 1});
        }
        let result = call_that_asks(client, "elicitation", &answer).await?;
        same("an answer", &result["x-answer"], &answer)?;
        let refused = client.ask("tools/call", call("refuse", "refused")).await?.value;
        let wanted = json!({"code": -31999, "message": "No.", "data": {"x-unknown": [1.0]}});
        same("an error", &refused["error"], &wanted)
    });
}

/// Makes the server send a request, answers it, and returns the result of the call.
async fn call_that_asks(client: &mut Client, kind: &str, answer: &Value) -> Result<Value, String> {
    let mut params = call("ask", kind);
    params["arguments"]["kind"] = json!(kind);
    let method = match kind {
        "sampling" => "sampling/createMessage",
        "roots" => "roots/list",
        _ => "elicitation/create",
    };
    let id = client.begin("tools/call", params.clone()).await?;
    if !client.rev.is_stateless() {
        let question = client.wait("a question", is(method)).await?;
        client.reply(&question.message, answer.clone()).await?;
        return Ok(client.answer(&id).await?.value["result"].clone());
    }
    let result = client.answer(&id).await?.value["result"].clone();
    let questions = result["inputRequests"].as_object().cloned().unwrap_or_default();
    let [(key, question)] = questions.iter().collect::<Vec<_>>()[..] else {
        return Err(format!("not one question: {result}"));
    };
    same("what is asked", &question["method"], &json!(method))?;
    params["inputResponses"] = json!({key: answer});
    params["requestState"] = result["requestState"].clone();
    client.request("tools/call", params).await
}

pub(crate) fn sampling_and_roots_requests_are_forwarded() {
    let pairs = [
        ((Nov24, Http), (Nov25, Stdio)),
        ((Nov25, Stdio), (Nov24, Http)),
        ((Nov25, Http), (Jul26, Http)),
        ((Mar25, Stdio), (Jul26, Stdio)),
        ((Jul26, Stdio), (Nov24, Stdio)),
        ((Jul26, Http), (Nov25, Http)),
        ((Jul26, Http), (Jul26, Stdio)),
    ];
    each(&pairs, async |Pair { client, server, .. }| {
        let reply = json!({"role": "assistant", "content": {"type": "text", "text": "a poem"}, "model": "m", "x-unknown": 1});
        let result = call_that_asks(client, "sampling", &reply).await?;
        same("the reply of the model", &result["x-answer"], &reply)?;
        let roots = json!({"roots": [{"uri": "file:///a", "name": "A", "x-unknown": 1}]});
        let result = call_that_asks(client, "roots", &roots).await?;
        same("the folders", &result["x-answer"], &roots)?;
        for kind in ["sampling", "roots"] {
            same("what the server knows", &json!(server.notes(kind)[0]), &json!("can be asked"))?;
        }
        // 2026-07-28 has no such notification.
        if !client.rev.is_stateless() && !server.shared.rev.is_stateless() {
            client.notify("notifications/roots/list_changed", json!({})).await?;
            server.noted("notifications/roots/list_changed", "received").await?;
        }
        Ok(())
    });
}

pub(crate) fn logs_are_forwarded_at_the_requested_level() {
    let pairs = [
        ((Nov25, Stdio), (Mar25, Http)),
        ((Nov24, Http), (Nov24, Stdio)),
        ((Jun25, Http), (Jul26, Http)),
        ((Nov25, Stdio), (Jul26, Stdio)),
        ((Jul26, Stdio), (Nov25, Stdio)),
        ((Jul26, Http), (Jun25, Http)),
        ((Jul26, Http), (Jul26, Stdio)),
        ((Jul26, Stdio), (Jul26, Http)),
    ];
    each(&pairs, async |Pair { client, .. }| {
        if client.rev.is_stateless() {
            // A client that also listens receives logs on the response to its call.
            client
                .begin("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))
                .await?;
            client.next("an acknowledgement").await?;
        }
        for level in ["error", "alert"] {
            let mut params = call("log", level);
            match client.rev.is_stateless() {
                true => params["_meta"] = json!({"io.modelcontextprotocol/logLevel": level}),
                false => drop(client.request("logging/setLevel", json!({"level": level})).await?),
            }
            let id = client.begin("tools/call", params).await?;
            let wanted: &[&str] = if level == "error" {
                &["error", "critical", "alert", "emergency"]
            } else {
                &["alert", "emergency"]
            };
            for level_of in wanted {
                let received = client.next("a log").await?;
                let wanted =
                    json!({"level": level_of, "logger": "raw", "data": {"cell": level}, "x-unknown": 1});
                same("a log", &received.message.value["params"], &wanted)?;
                if client.rev.is_stateless() && received.on != On::Pipe {
                    same("its place", &json!(received.on == On::Post(id.clone())), &json!(true))?;
                }
            }
            client.answer(&id).await?;
        }
        if client.rev.is_stateless() {
            // A client receives only logs of the level it asked for, whatever the server sends.
            client.request("tools/call", call("log", "none")).await?;
            let mut loud = call("log loudly", "loud");
            loud["_meta"] = json!({"io.modelcontextprotocol/logLevel": "emergency"});
            client.request("tools/call", loud).await?;
            let received: Vec<_> = client
                .kept()
                .into_iter()
                .map(|received| received.message.value["params"]["level"].clone())
                .collect();
            return same("what was received", &json!(received), &json!(["emergency"]));
        }
        Ok(())
    });
}

/// Servers of the handshake era may send a change notification in the middle of a response.
pub(crate) fn change_is_sent_on_the_right_stream() {
    let pairs = [
        ((Jul26, Http), (Mar25, Http)),
        ((Jul26, Stdio), (Nov25, Http)),
        ((Nov25, Http), (Jun25, Http)),
        ((Nov24, Stdio), (Nov25, Http)),
    ];
    each(&pairs, async |Pair { client, .. }| {
        let listening = match client.rev.is_stateless() {
            true => {
                let wish = json!({"notifications": {"toolsListChanged": true}});
                let id = client.begin("subscriptions/listen", wish).await?;
                client.next("an acknowledgement").await?;
                Some(id)
            }
            false => None,
        };
        let id = client.begin("tools/call", call("change here", "here")).await?;
        let received = client.wait("a change", is("notifications/tools/list_changed")).await?;
        if let Some(listening) = listening {
            let meta = &received.message.value["params"]["_meta"];
            same("the subscription", &meta["io.modelcontextprotocol/subscriptionId"], &listening)?;
            same("its place", &json!(received.on != On::Post(id.clone())), &json!(true))?;
        }
        client.answer(&id).await?;
        same("what else was received", &json!(client.kept().len()), &json!(0))
    });
}

pub(crate) fn resource_subscriptions_are_forwarded() {
    let pairs = [
        ((Nov25, Http), (Jun25, Stdio)),
        ((Nov24, Stdio), (Jul26, Stdio)),
        ((Nov25, Http), (Jul26, Http)),
        ((Jul26, Stdio), (Nov25, Http)),
        ((Jul26, Http), (Nov24, Stdio)),
        ((Jul26, Http), (Jul26, Http)),
    ];
    each(&pairs, async |Pair { client, server, .. }| {
        let uri = "raw:///ä b";
        let listening = match client.rev.is_stateless() {
            true => {
                let wish = json!({"notifications": {"resourceSubscriptions": [uri]}});
                let id = client.begin("subscriptions/listen", wish).await?;
                let first = client.next("an acknowledgement").await?.message.value;
                let granted = &first["params"]["notifications"];
                same("the granted filter", granted, &json!({"resourceSubscriptions": [uri]}))?;
                Some(id)
            }
            false => {
                client.request("resources/subscribe", json!({"uri": uri})).await?;
                None
            }
        };
        for other in ["raw:///other", uri] {
            let mut params = call("update", other);
            params["arguments"]["uri"] = json!(other);
            client.request("tools/call", params).await?;
        }
        let received = client.wait("an update", is("notifications/resources/updated")).await?.message.value;
        let mut params = json!({"uri": uri, "x-unknown": [uri], "_meta": {"com.example/cell": uri}});
        if let Some(id) = &listening {
            params["_meta"]["io.modelcontextprotocol/subscriptionId"] = id.clone();
        }
        same("the update", &received["params"], &params)?;
        match &listening {
            Some(id) => client.cancel(id).await?,
            None => drop(client.request("resources/unsubscribe", json!({"uri": uri})).await?),
        }
        match server.shared.rev.is_stateless() {
            true => {
                server.noted(&json!({"resourceSubscriptions": [uri]}).to_string(), "no longer listens").await
            }
            false => server.noted(uri, "resources/unsubscribe").await,
        }
    });
}
