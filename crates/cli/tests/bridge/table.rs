//! Every revision and transport of clients × every revision and transport of servers × six features.
//!
//! There is one bridge for each server and stdio client, and one over HTTP for all clients at once. Every cell is listed
//! beforehand, and a cell without a result is a failure.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::bridge::Bridge;
use crate::client::{Client, LETTERS, On, Received};
use crate::message::{Rev, Transport};
use crate::pair::{Peer, call as call_of, same};
use crate::server::Server;
use crate::tool;

/// The feature that a cell tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Feature {
    List,
    Call,
    Progress,
    Elicitation,
    Cancellation,
    Change,
}

const FEATURES: [Feature; 6] = [
    Feature::List,
    Feature::Call,
    Feature::Progress,
    Feature::Elicitation,
    Feature::Cancellation,
    Feature::Change,
];

/// One cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    client: Peer,
    server: Peer,
    feature: Feature,
}

impl Cell {
    fn name(&self) -> String {
        let label = match self.feature {
            Feature::List => "list",
            Feature::Call => "call",
            Feature::Progress => "progress",
            Feature::Elicitation => "elicitation",
            Feature::Cancellation => "cancellation",
            Feature::Change => "list change",
        };
        let ((client, near), (server, far)) = (self.client, self.server);
        format!("{client} {near} → {server} {far}: {label}")
    }

    /// Whether the client's revision has the feature. Otherwise the test expects a clear error.
    fn is_possible(&self) -> bool {
        self.feature != Feature::Elicitation || self.client.0 >= Rev::Jun25
    }
}

pub(crate) fn every_cell_of_the_table_passes() {
    let peers: Vec<Peer> =
        Rev::ALL.into_iter().flat_map(|rev| [(rev, Transport::Stdio), (rev, Transport::Http)]).collect();
    let mut seen: BTreeMap<String, Vec<Result<(), String>>> = BTreeMap::new();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let permits = Arc::new(Semaphore::new(MAX_BRIDGES));
        let mut units = Vec::new();
        for server in &peers {
            let over_http: Vec<Peer> = Rev::ALL.into_iter().map(|rev| (rev, Transport::Http)).collect();
            let alone = Rev::ALL.into_iter().map(|rev| vec![(rev, Transport::Stdio)]);
            for clients in alone.chain([over_http]) {
                let (permits, server) = (Arc::clone(&permits), *server);
                units.push(tokio::spawn(async move {
                    let _permit = permits.acquire_owned().await;
                    unit(server, clients).await
                }));
            }
        }
        for unit in units {
            for (cell, outcome) in unit.await.unwrap() {
                seen.entry(cell.name()).or_default().push(outcome);
            }
        }
    });
    check_results(&peers, &seen);
}

/// Prints the table. Fails unless each cell has one result, and it passed.
fn check_results(peers: &[Peer], seen: &BTreeMap<String, Vec<Result<(), String>>>) {
    let mut wrong = Vec::new();
    let (mut green, mut impossible, mut names) = (0, 0, 0);
    println!("l list, c call, p progress, e elicitation, x cancellation, n list change");
    println!("- unsupported, with a clear error; ! failed; ? no result\n");
    let revs: String = peers.iter().map(|(rev, _)| format!("  {:<6}", &rev.name()[2..7])).collect();
    let transports: String =
        peers.iter().map(|(_, transport)| format!("  {:<6}", transport.to_string())).collect();
    println!("{:>17}{revs}\n{:>17}{transports}", "client", "server");
    for server in peers {
        let mut row = String::new();
        for client in peers {
            row.push_str("  ");
            for (feature, letter) in FEATURES.into_iter().zip("lcpexn".chars()) {
                let cell = Cell { client: *client, server: *server, feature };
                names += 1;
                row.push(match seen.get(&cell.name()).map(Vec::as_slice) {
                    Some([Ok(())]) if cell.is_possible() => {
                        green += 1;
                        letter
                    }
                    Some([Ok(())]) => {
                        impossible += 1;
                        '-'
                    }
                    Some([Err(error)]) => {
                        wrong.push(format!("{}\n{error}", cell.name()));
                        '!'
                    }
                    other => {
                        wrong.push(format!("{}\nseen {} times", cell.name(), other.map_or(0, <[_]>::len)));
                        '?'
                    }
                });
            }
        }
        println!("{:>17}{row}", format!("{} {}", server.0, server.1));
    }
    println!("\n{green} passed, {impossible} unsupported, {} failed, of {names} cells", wrong.len());
    assert!(seen.len() == names, "{} cells have results and {names} are listed", seen.len());
    assert!(wrong.is_empty(), "{} cells failed:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

/// One bridge between a server and its clients.
async fn unit(server: Peer, clients: Vec<Peer>) -> Vec<(Cell, Result<(), String>)> {
    let raw = Arc::new(Server::start(server.0, server.1).await);
    let transport = clients[0].1;
    let mut bridge = Bridge::start(transport, &raw).await;
    let mut running = Vec::new();
    let mut seen = Vec::new();
    for client in clients {
        let connected = Client::connect(client.0, bridge.endpoint()).await;
        let raw = Arc::clone(&raw);
        running.push(tokio::spawn(async move { run_cells(connected, client, server, &raw).await }));
    }
    for client in running {
        seen.extend(client.await.unwrap());
    }
    let ended = match transport {
        // Its only client has disconnected, so it ends.
        Transport::Stdio => bridge.end().await,
        Transport::Http => Ok(()),
    };
    for (cell, outcome) in &mut seen {
        let belongs = |of: &Option<String>| of.as_ref().is_none_or(|of| *of == cell.name());
        let faults: Vec<_> = raw.faults().into_iter().filter(|(of, _)| belongs(of)).collect();
        if outcome.is_ok() && !faults.is_empty() {
            *outcome = Err(format!("the server saw faults: {faults:#?}"));
        }
        if outcome.is_ok() {
            *outcome = ended.clone();
        }
    }
    seen
}

/// Tests the six cells of one client and one server.
async fn run_cells(
    connected: Result<Client, String>,
    client: Peer,
    server: Peer,
    raw: &Server,
) -> Vec<(Cell, Result<(), String>)> {
    let cells = FEATURES.map(|feature| Cell { client, server, feature });
    let mut connection = match connected {
        Ok(connection) => connection,
        Err(error) => return cells.map(|cell| (cell, Err(format!("cannot connect: {error}")))).to_vec(),
    };
    let mut seen = Vec::new();
    for cell in cells {
        let outcome = run_cell(cell, &mut connection, raw).await;
        let outcome = outcome.map_err(|error| format!("{}\n{}", connection.failed(&error), raw.log(8)));
        seen.push((cell, outcome));
    }
    if let Err(error) = connection.close().await
        && let Some((_, last)) = seen.last_mut()
    {
        *last = Err(error);
    }
    seen
}

async fn run_cell(cell: Cell, client: &mut Client, server: &Server) -> Result<(), String> {
    match cell.feature {
        Feature::List => list(cell, client).await,
        Feature::Call => call(cell, client).await,
        Feature::Progress => progress(cell, client).await,
        Feature::Elicitation if !cell.is_possible() => cannot_be_asked(cell, client).await,
        Feature::Elicitation => elicitation(cell, client, server).await,
        Feature::Cancellation => cancellation(cell, client, server).await,
        Feature::Change => change(cell, client).await,
    }
}

async fn list(cell: Cell, client: &mut Client) -> Result<(), String> {
    let mut result = client.request("tools/list", json!({})).await?;
    let both_stateless = cell.client.0.is_stateless() && cell.server.0.is_stateless();
    let hints = if both_stateless { json!([60000, "public"]) } else { json!([0, "private"]) };
    if cell.client.0.is_stateless() {
        same("the cache hints", &json!([result["ttlMs"], result["cacheScope"]]), &hints)?;
    }
    same("an unknown member of the result", &result["x-unknown"], &json!({"kept": [1, 2.0, "ü"]}))?;
    same("an unknown key of `_meta`", &result["_meta"]["com.example/n"], &json!(7))?;
    let tools = result["tools"].take();
    same("the tools", &tools, &json!([tool::described(cell.server.0, cell.client.0)]))
}

async fn call(cell: Cell, client: &mut Client) -> Result<(), String> {
    let arguments = format!(
        r#"{{"do":"echo","cell":"{}","big":12345678901234567890,"huge":123456789012345678901234567890,"float":1.0,"exp":1e2,"text":"ü 漢字 \u2028 😀 \\","null":null,"deep":[[{{"":{{}}}}]]}}"#,
        cell.name()
    );
    let meta = json!({"com.example/ключ": 12345678901234567890_u64, "trace": {"deep": [1.0, "ü"]}});
    let params = json!({"name": tool::NAME, "arguments": LETTERS, "_meta": meta});
    let id = client.begin_with("tools/call", params, &arguments).await?;
    let answer = client.answer(&id).await?;
    let result = &answer.value["result"];
    same("the text", &result["content"][0], &json!({"type": "text", "text": "echo", "x-unknown": 1}))?;
    let echoed = answer.raw(&["result", "x-arguments"]).unwrap_or_default();
    if echoed != arguments {
        return Err(format!("the arguments were {arguments}\nand came as {echoed}"));
    }
    let keys: Vec<_> =
        result["x-meta"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    let known = |key: &&&str| **key == "progressToken" || key.starts_with("io.modelcontextprotocol/");
    let others: Vec<_> = keys.iter().filter(|key| !known(key)).collect();
    if others != [&"com.example/ключ", &"trace"] {
        return Err(format!("other keys of `_meta` came: {keys:?}"));
    }
    for key in ["com.example/ключ", "trace"] {
        same(key, &result["x-meta"][key], &meta[key])?;
    }
    let structured = if cell.client.0.min(cell.server.0) >= Rev::Jun25 {
        json!({"cell": cell.name()})
    } else {
        Value::Null
    };
    same("the structured content", &result["structuredContent"], &structured)
}

async fn progress(cell: Cell, client: &mut Client) -> Result<(), String> {
    // Tokens are strings or integers, like ids.
    let token = match cell.client.0 {
        Rev::Mar25 | Rev::Jul26 => json!(7),
        _ => json!(format!("the token of {}", cell.name())),
    };
    let mut params = arguments("progress", cell);
    params["_meta"] = json!({"progressToken": token});
    let id = client.begin("tools/call", params).await?;
    for step in 1..=3 {
        let received = client.wait("progress", |received| !is_change(received)).await?;
        let mut wanted = json!({"progressToken": token, "progress": step, "total": 3, "x-unknown": step});
        if cell.client.0.min(cell.server.0) >= Rev::Mar25 {
            wanted["message"] = json!(format!("step {step}"));
        }
        same("what came", &received.message.value["method"], &json!("notifications/progress"))?;
        same("the progress", &received.message.value["params"], &wanted)?;
        on_its_stream(&received, &id, cell)?;
    }
    let answer = client.answer(&id).await?;
    same("the text", &answer.value["result"]["content"][0]["text"], &json!("three steps"))
}

async fn elicitation(cell: Cell, client: &mut Client, server: &Server) -> Result<(), String> {
    let params = arguments("ask", cell);
    let id = client.begin("tools/call", params.clone()).await?;
    let name = format!("Ada of {}", cell.name());
    let answer = json!({"action": "accept", "content": {"name": name}});
    let asked = format!("Who? {}", cell.name());
    let result = if cell.client.0.is_stateless() {
        let questions = client.answer(&id).await?.value["result"].clone();
        same("the kind of the result", &questions["resultType"], &json!("input_required"))?;
        let all = questions["inputRequests"].as_object().cloned().unwrap_or_default();
        let [(key, question)] = all.iter().collect::<Vec<_>>()[..] else {
            return Err(format!("not one question: {questions}"));
        };
        is_question(question, &asked)?;
        let mut again = params;
        again["inputResponses"] = json!({key: answer});
        again["requestState"] = questions["requestState"].clone();
        client.request("tools/call", again).await?
    } else {
        let received = client.wait("a question", |received| !is_change(received)).await?;
        on_its_stream(&received, &id, cell)?;
        is_question(&received.message.value, &asked)?;
        client.reply(&received.message, answer.clone()).await?;
        client.answer(&id).await?.value["result"].clone()
    };
    same("the answer, as the server got it", &result["x-answer"], &answer)?;
    same("the text", &result["content"][0]["text"], &json!(format!("accept {name}")))?;
    match cell.server.0 >= Rev::Jun25
        && server.notes(&cell.name()).iter().any(|note| note == "cannot be asked")
    {
        true => Err("the server does not know the elicitation capability of the client".to_owned()),
        false => Ok(()),
    }
}

fn is_question(message: &Value, text: &str) -> Result<(), String> {
    same("what is asked", &message["method"], &json!("elicitation/create"))?;
    same("the question", &message["params"]["message"], &json!(text))?;
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    same("the form", &message["params"]["requestedSchema"], &schema)?;
    same("an unknown member", &message["params"]["x-unknown"], &json!({"kept": true}))
}

/// A client without elicitation gets an error that names the method. A server of the same revision sends the request
/// anyway, and the client rejects it.
async fn cannot_be_asked(cell: Cell, client: &mut Client) -> Result<(), String> {
    let id = client.begin("tools/call", arguments("ask", cell)).await?;
    if cell.client.0 == cell.server.0 {
        client.refuse_question().await?;
    }
    let answer = client.answer(&id).await?;
    let message = answer.value["error"]["message"].as_str().unwrap_or_default();
    match message.contains("elicitation/create") {
        true => Ok(()),
        false => Err(format!("no clear error: {}", answer.text)),
    }
}

async fn cancellation(cell: Cell, client: &mut Client, server: &Server) -> Result<(), String> {
    let id = client.begin("tools/call", arguments("wait", cell)).await?;
    server.noted(&cell.name(), "begun").await?;
    client.cancel(&id).await?;
    let how = match cell.server {
        (Rev::Jul26, Transport::Http) => "closed",
        _ => "cancelled",
    };
    server.noted(&cell.name(), how).await?;
    // Every late message arrives before the response to another call.
    let mut fence = arguments("echo", cell);
    fence["arguments"]["fence"] = json!(true);
    client.request("tools/call", fence).await?;
    let late = client
        .kept()
        .into_iter()
        .find(|received| received.message.value["id"] == id || received.on == On::Post(id.clone()));
    match late {
        Some(late) => Err(format!("a message arrived for a cancelled call: {}", late.message.text)),
        None => Ok(()),
    }
}

async fn change(cell: Cell, client: &mut Client) -> Result<(), String> {
    let stateless = cell.client.0.is_stateless();
    let mut listening = None;
    if stateless {
        let wish = json!({"notifications": {"toolsListChanged": true}});
        let id = client.begin("subscriptions/listen", wish).await?;
        let first = client.next("an acknowledgement").await?;
        let message = &first.message.value;
        same("the first message", &message["method"], &json!("notifications/subscriptions/acknowledged"))?;
        same("the granted filter", &message["params"]["notifications"], &json!({"toolsListChanged": true}))?;
        is_of(&first, &id, cell)?;
        listening = Some(id);
    }
    client.request("tools/call", arguments("change", cell)).await?;
    let marked = |received: &Received| {
        received.message.value["params"]["_meta"]["com.example/cell"] == json!(cell.name())
    };
    let received = client.wait("a change", |received| is_change(received) && marked(received)).await?;
    match (listening, cell.client) {
        (Some(id), _) => {
            is_of(&received, &id, cell)?;
            client.cancel(&id).await
        }
        (None, (_, Transport::Stdio)) => Ok(()),
        (None, _) if received.on == On::Stream => Ok(()),
        (None, _) => Err(format!("a change was sent on the stream of a request: {received:?}")),
    }
}

/// Whether it is a change notification, which every client with a session receives.
fn is_change(received: &Received) -> bool {
    received.message.value["method"] == "notifications/tools/list_changed"
}

/// Fails unless a message names the subscription and arrived on its stream.
fn is_of(received: &Received, id: &Value, cell: Cell) -> Result<(), String> {
    let meta = &received.message.value["params"]["_meta"];
    same("the subscription", &meta["io.modelcontextprotocol/subscriptionId"], id)?;
    on_its_stream(received, id, cell)
}

/// Fails unless a message arrived on the stream of its request.
fn on_its_stream(received: &Received, id: &Value, cell: Cell) -> Result<(), String> {
    let right = match cell.client {
        (_, Transport::Stdio) => On::Pipe,
        (Rev::Nov24, Transport::Http) => On::Stream,
        (_, Transport::Http) => On::Post(id.clone()),
    };
    match received.on == right {
        true => Ok(()),
        false => {
            Err(format!("it arrived on {:?} and not on {right:?}: {}", received.on, received.message.text))
        }
    }
}

fn arguments(action: &str, cell: Cell) -> Value {
    call_of(action, &cell.name())
}

/// The limit of concurrent bridges.
const MAX_BRIDGES: usize = 4;
