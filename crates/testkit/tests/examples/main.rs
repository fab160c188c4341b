//! The examples: their responses, and that their counterparts without macros respond the same.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    dead_code,
    unreachable_pub,
    reason = "a test fails by panicking; an example has a `main` that is not called here"
)]

mod by_hand;
mod tutorials;

#[path = "../../../tsugite/examples/axum.rs"]
mod axum_application;
#[path = "../../../tsugite/examples/calculator.rs"]
mod calculator;
#[path = "../../../tsugite/examples/completion.rs"]
mod completion;
#[path = "../../../tsugite/examples/dynamic.rs"]
mod dynamic;
#[path = "../../../tsugite/examples/elicitation.rs"]
mod elicitation;
#[path = "../../../tsugite/examples/host.rs"]
mod host;
#[path = "../../../tsugite/examples/http.rs"]
mod http;
#[path = "../../../tsugite/examples/mounting.rs"]
mod mounting;
#[path = "../../../tsugite/examples/prompts.rs"]
mod prompts;
#[path = "../../../tsugite/examples/resources.rs"]
mod resources;
#[path = "../../../tsugite/examples/sampling.rs"]
mod sampling;
#[path = "../../../tsugite/examples/task.rs"]
mod task;
#[path = "../../../tsugite/examples/tools.rs"]
mod tools;
#[path = "../../../tsugite/examples/weather.rs"]
mod weather;

use std::future::IntoFuture;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tsugite::client::{Client, FormResponse};
use tsugite::prelude::*;
use tsugite_testkit::http::{Connection, Request, TestServer, open_session};
use tsugite_testkit::raw_client::RawClient;
use tsugite_testkit::replicas::TempDir;

fn revisions() -> impl Iterator<Item = Revision> {
    Revisions::ALL.newest_first()
}

fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {response}"))
}

/// Checks that two servers return the same lists in every revision.
async fn twins(one: Server, other: Server) {
    for revision in revisions() {
        let mut one = RawClient::connect(&one, revision, everything()).await;
        let mut other = RawClient::connect(&other, revision, everything()).await;
        for list in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
            let (mut ours, mut theirs) =
                (one.request(list, json!({})).await, other.request(list, json!({})).await);
            // Only a macro writes the default of an argument to the schema.
            for response in [&mut ours, &mut theirs] {
                for tool in response["result"]["tools"].as_array_mut().into_iter().flatten() {
                    for (_, property) in
                        tool["inputSchema"]["properties"].as_object_mut().into_iter().flatten()
                    {
                        property.as_object_mut().unwrap().remove("default");
                    }
                }
            }
            assert_eq!(ours, theirs, "{list} on {revision}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calculator_has_at_most_twenty_lines() {
    let source = include_str!("../../../tsugite/examples/calculator.rs");
    assert!(source.lines().count() <= 20, "{} lines", source.lines().count());
    let server = by_hand::calculator::server();
    twins(Server::new("calculator", "1.0.0").tool(calculator::add), server.clone()).await;
    for server in [Server::new("calculator", "1.0.0").tool(calculator::add), server] {
        for revision in revisions() {
            let mut peer = RawClient::connect(&server, revision, json!({})).await;
            assert_eq!(text(&peer.call("add", json!({"a": 1, "b": 2})).await), "3");
            assert_eq!(text(&peer.call("add", json!({"a": 40.0, "b": 2})).await), "42");
            let wrong = peer.call("add", json!({"a": 1, "b": "two"})).await;
            assert_eq!(wrong["result"]["isError"], true);
            assert!(text(&wrong).contains("`b`"), "{wrong}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn task_asks_half_way() {
    for (order, expected) in [(true, "a kite is ordered, number 7"), (false, "a kite was not ordered")] {
        let server = task::server();
        let client = Client::in_process(&server).revision(Revision::V2026_07_28).tasks();
        let client = client.on_elicit_form(move |form| async move {
            assert_eq!(form.message, "a kite costs 42 euros. Order it?");
            FormResponse::accept(json!({"order": order}))
        });
        let client = client.await.unwrap();
        let text: String = client.call("buy", json!({"item": "a kite"})).await.unwrap();
        assert_eq!(text, expected);
    }
}

/// Starts the example as its documentation says, with its store in a file.
fn start_task_example(file: &std::path::Path) -> (tokio::process::Child, tsugite::client::ClientBuilder) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_example-task"));
    let command = command.arg(file).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut process = command.spawn().unwrap();
    let (output, input) = (process.stdout.take().unwrap(), process.stdin.take().unwrap());
    (process, Client::over(output, input).tasks())
}

#[tokio::test]
async fn killed_task_goes_on_with_the_answer() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let folder = TempDir::create(&format!("example-task-{revision}")).unwrap();
        let file = folder.path().join("store");
        let (mut process, client) = start_task_example(&file);
        let (tell, mut asked) = tokio::sync::mpsc::unbounded_channel();
        let client = client.revision(revision).on_elicit_form(move |_| {
            let _ = tell.send(());
            std::future::pending()
        });
        let client = client.await.unwrap();
        let (tell, mut tasks) = tokio::sync::mpsc::unbounded_channel();
        let call = client.call::<String>("buy", json!({"item": "a kite"})).on_task(move |task| {
            let _ = tell.send(task.task_id);
        });
        let call = tokio::spawn(call.into_future());
        let within = std::time::Duration::from_secs(60);
        let id = tokio::time::timeout(within, tasks.recv()).await.unwrap().unwrap();
        tokio::time::timeout(within, asked.recv()).await.unwrap().unwrap();
        process.kill().await.unwrap();
        call.abort();
        drop(client);
        let (_process, client) = start_task_example(&file);
        let answer = |_| std::future::ready(FormResponse::accept(json!({"order": true})));
        let client = client.revision(revision).on_elicit_form(answer).await.unwrap();
        let result = tokio::time::timeout(within, client.follow_task(id).into_future()).await.unwrap();
        assert_eq!(result.unwrap().text(), "a kite is ordered, number 7", "{revision}");
    }
}

#[tokio::test]
async fn tools_return_values_structures_images_and_errors() {
    twins(tools::server(), by_hand::tools::server()).await;
    for server in [tools::server(), by_hand::tools::server()] {
        for revision in revisions() {
            let mut peer = RawClient::connect(&server, revision, json!({})).await;
            let basket = json!({"items": [{"name": "oak", "count": 2}], "discount": 50});
            let bill = peer.call("price", basket).await;
            assert_eq!(text(&bill), r#"{"total":3.0,"currency":"EUR"}"#, "{revision}");
            if revision.as_str() >= "2025-06-18" {
                let structured = json!({"total": 3.0, "currency": "EUR"});
                assert_eq!(bill["result"]["structuredContent"], structured);
            }
            let plain = peer.call("price", json!({"items": []})).await;
            assert_eq!(text(&plain), r#"{"total":0.0,"currency":"EUR"}"#);
            let refused = peer.call("price", json!({"items": [], "discount": 101})).await;
            assert_eq!(
                (text(&refused), &refused["result"]["isError"]),
                ("the discount is 101 %, and the limit is 100 %", &json!(true))
            );
            let wrong = peer.call("price", json!({"items": [{"name": "oak"}]})).await;
            assert_eq!(text(&wrong), "invalid argument `items[0]`: missing field `count`");
            let dot = peer.call("dot", json!({})).await;
            let picture = json!({"type": "image", "data": "R0lGODlhAQABAAAAADs=", "mimeType": "image/gif"});
            assert_eq!(dot["result"]["content"][0], picture);
            let secret = peer.call("read", json!({"path": "/nowhere"})).await;
            assert!(text(&secret).starts_with("tool failed (number "), "{secret}");
            let mut params = json!({"name": "count", "arguments": {"to": 3}});
            params["_meta"] = json!({"progressToken": "p"});
            assert_eq!(text(&peer.request("tools/call", params).await), "counted to 3");
            let told: Vec<_> =
                peer.notifications.iter().map(|news| news["params"]["progress"].clone()).collect();
            assert_eq!(json!(told), json!([1, 2, 3]), "{revision}");
        }
    }
}

#[tokio::test]
async fn resources_are_read() {
    twins(resources::server(), by_hand::resources::server()).await;
    for server in [resources::server(), by_hand::resources::server()] {
        for revision in revisions() {
            let mut peer = RawClient::connect(&server, revision, json!({})).await;
            for (uri, text) in [
                ("config://settings", r#"{"theme":"dark"}"#),
                ("books://Joinery/7", "Joinery, page 7"),
                ("notes://motto", "Measure twice, cut once."),
                ("source:///calculator.rs", include_str!("../../../tsugite/examples/calculator.rs")),
            ] {
                let read = peer.request("resources/read", json!({"uri": uri})).await;
                assert_eq!(read["result"]["contents"][0]["text"], text, "{uri} on {revision}");
            }
            let none = peer.request("resources/read", json!({"uri": "books://Joinery/101"})).await;
            assert!(none.get("error").is_some());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn prompts_are_filled_in() {
    twins(prompts::server(), by_hand::prompts::server()).await;
    for server in [prompts::server(), by_hand::prompts::server()] {
        let mut peer = RawClient::connect(&server, Revision::NEWEST, json!({})).await;
        let review = json!({"name": "review", "arguments": {"code": "1 + 1", "remarks": "2"}});
        let review = peer.request("prompts/get", review).await;
        let text = "Review this code with at most 2 remarks:\n1 + 1";
        assert_eq!(review["result"]["messages"][0]["content"]["text"], text);
        let lesson =
            peer.request("prompts/get", json!({"name": "lesson", "arguments": {"topic": "joinery"}})).await;
        let roles: Vec<_> = (0..2).map(|n| lesson["result"]["messages"][n]["role"].clone()).collect();
        assert_eq!(json!(roles), json!(["user", "assistant"]));
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_are_completed() {
    twins(completion::server(), by_hand::completion::server()).await;
    for server in [completion::server(), by_hand::completion::server()] {
        let mut peer = RawClient::connect(&server, Revision::NEWEST, json!({})).await;
        let reference = json!({"type": "ref/prompt", "name": "journey"});
        let ask = json!({"ref": reference, "argument": {"name": "country", "value": "j"}});
        let answer = peer.request("completion/complete", ask).await;
        assert_eq!(answer["result"]["completion"]["values"], json!(["Japan"]));
        let context = json!({"arguments": {"country": "Norway"}});
        let ask = json!({"ref": reference, "argument": {"name": "city", "value": ""}, "context": context});
        let answer = peer.request("completion/complete", ask).await;
        assert_eq!(answer["result"]["completion"]["values"], json!(["Bergen", "Oslo"]));
    }
}

#[tokio::test(start_paused = true)]
async fn users_are_asked_where_the_revision_allows() {
    twins(elicitation::server(), by_hand::elicitation::server()).await;
    for server in [elicitation::server(), by_hand::elicitation::server()] {
        for revision in revisions() {
            for (sure, said) in [(true, "deleted /tmp/x"), (false, "kept")] {
                let peer = RawClient::connect(&server, revision, everything()).await;
                let mut peer = peer.on_request(move |_, params| {
                    assert_eq!(params["message"], "/tmp/x holds 2 files.");
                    json!({"action": "accept", "content": {"sure": sure}})
                });
                let answer = peer.call("delete", json!({"path": "/tmp/x"})).await;
                if revision.has_elicitation() {
                    assert_eq!(text(&answer), said, "{revision}");
                } else {
                    assert_eq!(answer["result"]["isError"], true, "{revision}: {answer}");
                }
            }
        }
        let peer = RawClient::connect(&server, Revision::NEWEST, everything()).await;
        let mut peer = peer.on_request(
            |_, _| json!({"action": "accept", "content": {"size": "large", "receipt": "a@b.example"}}),
        );
        assert_eq!(text(&peer.call("order", json!({})).await), "2 large planks, receipt to a@b.example");
        let (_, asked) = &peer.received_requests[0];
        let expected = json!({
            "type": "object",
            "properties": {
                "size": {"type": "string", "description": "How should it be cut?", "oneOf": [
                    {"const": "small", "title": "Small"}, {"const": "large", "title": "Quite large"},
                ]},
                "count": {"type": "integer", "title": "How many", "minimum": 1, "maximum": 12, "default": 2},
                "receipt": {"type": "string", "format": "email"},
            },
            "required": ["size"],
        });
        assert_eq!(asked["requestedSchema"], expected);
        let peer = RawClient::connect(&server, Revision::NEWEST, everything()).await;
        let mut peer = peer.on_request(|_, _| json!({"action": "decline"}));
        assert_eq!(text(&peer.call("order", json!({})).await), "no planks then");
    }
}

#[tokio::test(start_paused = true)]
async fn models_and_roots_are_requested() {
    twins(sampling::server(), by_hand::sampling::server()).await;
    for server in [sampling::server(), by_hand::sampling::server()] {
        for revision in revisions() {
            let peer = RawClient::connect(&server, revision, everything()).await;
            let mut peer = peer.on_request(|method, params| match method {
                "sampling/createMessage" => {
                    assert_eq!(params["messages"][0]["content"]["text"], "Summarize: a long story");
                    assert_eq!(
                        (&params["systemPrompt"], &params["maxTokens"]),
                        (&json!("Be brief."), &json!(100))
                    );
                    json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "short"}})
                }
                _ => json!({"roots": [{"uri": "file:///home"}]}),
            });
            assert_eq!(
                text(&peer.call("summarize", json!({"text": "a long story"})).await),
                "short",
                "{revision}"
            );
            assert_eq!(text(&peer.call("places", json!({})).await), r#"["file:///home"]"#, "{revision}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tools_are_added_and_removed() {
    twins(dynamic::server(), by_hand::dynamic::server()).await;
    for make in [dynamic::server, by_hand::dynamic::server] {
        for revision in revisions() {
            let mut peer = RawClient::connect(&make(), revision, json!({})).await;
            let learn = json!({"language": "danish", "greeting": "Hej"});
            assert_eq!(text(&peer.call("learn", learn.clone()).await), "learnt danish");
            assert_eq!(text(&peer.call("danish", json!({"name": "Ada"})).await), "Hej, Ada!");
            let wrong = peer.call("danish", json!({"name": ""})).await;
            assert_eq!(wrong["result"]["isError"], true, "the schema is enforced: {wrong}");
            assert_eq!(peer.call("learn", learn).await["result"]["isError"], true);
            assert_eq!(text(&peer.call("forget", json!({"language": "danish"})).await), "true");
            assert_eq!(peer.call("danish", json!({"name": "Ada"})).await["error"]["code"], -32602);
            let told = peer
                .notifications
                .iter()
                .filter(|news| news["method"] == "notifications/tools/list_changed")
                .count();
            assert_eq!(told, if revision.is_stateless() { 0 } else { 2 }, "{revision}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn servers_are_mounted() {
    twins(mounting::server(), by_hand::mounting::server()).await;
    for server in [mounting::server(), by_hand::mounting::server()] {
        let mut guest = RawClient::connect(&server, Revision::NEWEST, json!({})).await;
        assert_eq!(text(&guest.call("weather_forecast", json!({"city": "Bergen"})).await), "rain in Bergen");
        let read = guest.request("resources/read", json!({"uri": "stations://weather/all"})).await;
        assert_eq!(read["result"]["contents"][0]["text"], "Bergen, Kyoto");
        assert_eq!(guest.call("house_heating_off", json!({})).await["error"]["code"], -32602);
        let admin = Principal::new("ada").with_issuer("house").with_scopes(["admin"]);
        let mut admin = RawClient::connect_as(&server, admin, Revision::NEWEST, json!({})).await;
        assert_eq!(text(&admin.call("house_heating_off", json!({})).await), "it gets cold");
    }
}

#[tokio::test]
async fn http_serves_every_revision_at_one_path() {
    twins(http::server(), by_hand::http::server()).await;
    for server in [http::server(), by_hand::http::server()] {
        let serving = TestServer::start(&server).await;
        let call = |tool: &str, arguments: Value| {
            let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}});
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        };
        for revision in revisions() {
            let session = match revision.is_stateless() {
                true => None,
                false => Some(open_session(&serving, revision.as_str(), json!({})).await),
            };
            let request = |message: Value| match &session {
                None => Request::stateless(message),
                Some(session) => Request::post(&message).session(session),
            };
            let sum = serving.send(request(call("add", json!({"a": 1, "b": 2})))).await;
            assert_eq!(text(&sum.json()), "3", "{revision}");
            let sums = serving.send(request(call("add_up", json!({"to": 4})))).await;
            let said: Vec<_> = sums.events().into_iter().filter(|event| !event.data.is_empty()).collect();
            let progress = said.iter().map(|event| event.json()["params"]["progress"].clone());
            assert_eq!(json!(progress.take(4).collect::<Vec<_>>()), json!([1, 2, 3, 4]), "{revision}");
            assert_eq!(text(&said[4].json()), "10", "{revision}");
        }
        serving.stop().await.unwrap();
    }
}

#[tokio::test]
async fn axum_application_serves_pages_and_shuts_down_gracefully() {
    twins(axum_application::server(Default::default()), by_hand::axum::server(Default::default())).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let stopping = async move { drop(stopped.await) };
    let application = tokio::spawn(axum_application::serve(listener, stopping));
    let mut connection = Connection::connect(address).await;
    for visitor in ["visitor 1\n", "visitor 2\n"] {
        let page = connection.send(Request::new("GET").path("/")).await;
        assert_eq!((page.status, connection.read_body().await.as_str()), (200, visitor));
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "visitors"}});
    assert_eq!(connection.send(Request::stateless(call)).await.status, 200);
    let answer: Value = serde_json::from_str(&connection.read_body().await).unwrap();
    assert_eq!(text(&answer), "2");
    let wish = json!({"notifications": {"toolsListChanged": true}});
    let listen = json!({"jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": wish});
    assert_eq!(connection.send(Request::stateless(listen)).await.status, 200);
    let acknowledged = connection.next_message().await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    drop(stop);
    let ended = connection.next_message().await.unwrap();
    assert_eq!((&ended["id"], ended.get("result").is_some()), (&json!(2), true), "{ended}");
    assert_eq!(connection.next_message().await, None);
    application.await.unwrap().unwrap();
}

#[tokio::test]
async fn host_joins_three_servers() {
    let serving = TestServer::start(&host::files()).await;
    let url = format!("http://{}/mcp", serving.address);
    // The fixture replaces the example's program, which starts itself as a server.
    let host = host::host(env!("CARGO_BIN_EXE_fixture"), url).await;
    assert!(host.failures().is_empty(), "{:?}", host.failures());
    assert_eq!(host::reply(&host, "add 1 2").await.unwrap(), "3.0");
    assert_eq!(host::reply(&host, "say hello").await.unwrap(), "hello");
    assert!(host::reply(&host, "what").await.unwrap().contains("files_delete"));
    host.close().await;
    serving.stop().await.unwrap();
}
