//! Every revision and transport of clients × every revision and transport of servers × six features.
//!
//! A bridge is started for each server and each client on stdio, and one over HTTP for all clients at once. Every cell is
//! written down beforehand: one that nobody reports is a failure.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::bridge::Bridge;
use crate::client::{Client, Heard, LETTERS, On};
use crate::message::{Rev, Way};
use crate::pair::{Peer, call as call_of, same};
use crate::server::Server;
use crate::tool;

/// What is tried in a cell.
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
        let what = match self.feature {
            Feature::List => "list",
            Feature::Call => "call",
            Feature::Progress => "progress",
            Feature::Elicitation => "elicitation",
            Feature::Cancellation => "cancellation",
            Feature::Change => "list change",
        };
        let ((client, near), (server, far)) = (self.client, self.server);
        format!("{client} {near} → {server} {far}: {what}")
    }

    /// Whether the client's revision has what this cell is about. Where it has not, the error is what counts.
    fn is_possible(&self) -> bool {
        self.feature != Feature::Elicitation || self.client.0 >= Rev::Jun25
    }
}

pub(crate) fn every_cell_of_the_table_is_green() {
    let peers: Vec<Peer> =
        Rev::ALL.into_iter().flat_map(|rev| [(rev, Way::Stdio), (rev, Way::Http)]).collect();
    let mut seen: BTreeMap<String, Vec<Result<(), String>>> = BTreeMap::new();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let mut units = Vec::new();
        for server in &peers {
            let over_http: Vec<Peer> = Rev::ALL.into_iter().map(|rev| (rev, Way::Http)).collect();
            let alone = Rev::ALL.into_iter().map(|rev| vec![(rev, Way::Stdio)]);
            for clients in alone.chain([over_http]) {
                let (places, server) = (Arc::clone(&places), *server);
                units.push(tokio::spawn(async move {
                    let _place = places.acquire_owned().await;
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
    judged(&peers, &seen);
}

/// Prints the table; fails unless each cell was seen once, and green.
fn judged(peers: &[Peer], seen: &BTreeMap<String, Vec<Result<(), String>>>) {
    let mut wrong = Vec::new();
    let (mut green, mut impossible, mut names) = (0, 0, 0);
    println!("l list, c call, p progress, e elicitation, x cancellation, n list change");
    println!("- impossible, and refused with a clear error; ! failed; ? nobody knows\n");
    let revs: String = peers.iter().map(|(rev, _)| format!("  {:<6}", &rev.name()[2..7])).collect();
    let ways: String = peers.iter().map(|(_, way)| format!("  {:<6}", way.to_string())).collect();
    println!("{:>17}{revs}\n{:>17}{ways}", "client", "server");
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
    println!("\n{green} green, {impossible} impossible, {} failed, of {names} cells", wrong.len());
    assert!(seen.len() == names, "{} cells were seen and {names} written down", seen.len());
    assert!(wrong.is_empty(), "{} cells failed:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

/// One bridge between a server and its clients.
async fn unit(server: Peer, clients: Vec<Peer>) -> Vec<(Cell, Result<(), String>)> {
    let raw = Arc::new(Server::start(server.0, server.1).await);
    let way = clients[0].1;
    let mut bridge = Bridge::start(way, &raw).await;
    let mut running = Vec::new();
    let mut seen = Vec::new();
    for client in clients {
        let connected = Client::connect(client.0, bridge.door()).await;
        let raw = Arc::clone(&raw);
        running.push(tokio::spawn(async move { six(connected, client, server, &raw).await }));
    }
    for client in running {
        seen.extend(client.await.unwrap());
    }
    let ended = match way {
        // Its client is gone, and so it goes.
        Way::Stdio => bridge.end().await,
        Way::Http => Ok(()),
    };
    for (cell, outcome) in &mut seen {
        let is_its = |of: &Option<String>| of.as_ref().is_none_or(|of| *of == cell.name());
        let faults: Vec<_> = raw.faults().into_iter().filter(|(of, _)| is_its(of)).collect();
        if outcome.is_ok() && !faults.is_empty() {
            *outcome = Err(format!("the server saw faults: {faults:#?}"));
        }
        if outcome.is_ok() {
            *outcome = ended.clone();
        }
    }
    seen
}

/// The six cells of one client and one server.
async fn six(
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
        let outcome = tried(cell, &mut connection, raw).await;
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

async fn tried(cell: Cell, client: &mut Client, server: &Server) -> Result<(), String> {
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
    same("a member of the result that nobody knows", &result["x-unknown"], &json!({"kept": [1, 2.0, "ü"]}))?;
    same("a key of `_meta` that nobody knows", &result["_meta"]["com.example/n"], &json!(7))?;
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
    // Tokens are of two kinds, as ids are.
    let token = match cell.client.0 {
        Rev::Mar25 | Rev::Jul26 => json!(7),
        _ => json!(format!("the token of {}", cell.name())),
    };
    let mut params = arguments("progress", cell);
    params["_meta"] = json!({"progressToken": token});
    let id = client.begin("tools/call", params).await?;
    for step in 1..=3 {
        let heard = client.wait("progress", |heard| !is_change(heard)).await?;
        let mut wanted = json!({"progressToken": token, "progress": step, "total": 3, "x-unknown": step});
        if cell.client.0.min(cell.server.0) >= Rev::Mar25 {
            wanted["message"] = json!(format!("step {step}"));
        }
        same("what came", &heard.message.value["method"], &json!("notifications/progress"))?;
        same("the progress", &heard.message.value["params"], &wanted)?;
        on_its_stream(&heard, &id, cell)?;
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
        let heard = client.wait("a question", |heard| !is_change(heard)).await?;
        on_its_stream(&heard, &id, cell)?;
        is_question(&heard.message.value, &asked)?;
        client.reply(&heard.message, answer.clone()).await?;
        client.answer(&id).await?.value["result"].clone()
    };
    same("the answer, as the server got it", &result["x-answer"], &answer)?;
    same("the text", &result["content"][0]["text"], &json!(format!("accept {name}")))?;
    match cell.server.0 >= Rev::Jun25
        && server.notes(&cell.name()).iter().any(|note| note == "cannot be asked")
    {
        true => Err("the server was not told that the client can be asked".to_owned()),
        false => Ok(()),
    }
}

fn is_question(message: &Value, text: &str) -> Result<(), String> {
    same("what is asked", &message["method"], &json!("elicitation/create"))?;
    same("the question", &message["params"]["message"], &json!(text))?;
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    same("the form", &message["params"]["requestedSchema"], &schema)?;
    same("a member that nobody knows", &message["params"]["x-unknown"], &json!({"kept": true}))
}

/// A client that cannot be asked is told what failed, and why. A server of its own revision says to it what it wants, and
/// then it is the client that refuses.
async fn cannot_be_asked(cell: Cell, client: &mut Client) -> Result<(), String> {
    let id = client.begin("tools/call", arguments("ask", cell)).await?;
    if cell.client.0 == cell.server.0 {
        client.refuse_question().await?;
    }
    let answer = client.answer(&id).await?;
    let told = answer.value["error"]["message"].as_str().unwrap_or_default();
    match told.contains("elicitation/create") {
        true => Ok(()),
        false => Err(format!("no clear error: {}", answer.text)),
    }
}

async fn cancellation(cell: Cell, client: &mut Client, server: &Server) -> Result<(), String> {
    let id = client.begin("tools/call", arguments("wait", cell)).await?;
    server.noted(&cell.name(), "begun").await?;
    client.cancel(&id).await?;
    let how = match cell.server {
        (Rev::Jul26, Way::Http) => "closed",
        _ => "cancelled",
    };
    server.noted(&cell.name(), how).await?;
    // Whatever comes has come before the answer to another call.
    let mut fence = arguments("echo", cell);
    fence["arguments"]["fence"] = json!(true);
    client.request("tools/call", fence).await?;
    let late = client
        .kept()
        .into_iter()
        .find(|heard| heard.message.value["id"] == id || heard.on == On::Post(id.clone()));
    match late {
        Some(late) => Err(format!("something came for a call that was cancelled: {}", late.message.text)),
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
        same("what is granted", &message["params"]["notifications"], &json!({"toolsListChanged": true}))?;
        is_of(&first, &id, cell)?;
        listening = Some(id);
    }
    client.request("tools/call", arguments("change", cell)).await?;
    let marked =
        |heard: &Heard| heard.message.value["params"]["_meta"]["com.example/cell"] == json!(cell.name());
    let heard = client.wait("a change", |heard| is_change(heard) && marked(heard)).await?;
    match (listening, cell.client) {
        (Some(id), _) => {
            is_of(&heard, &id, cell)?;
            client.cancel(&id).await
        }
        (None, (_, Way::Stdio)) => Ok(()),
        (None, _) if heard.on == On::Stream => Ok(()),
        (None, _) => Err(format!("a change was told on the stream of a request: {heard:?}")),
    }
}

/// Every client with a session is told of what another has changed.
fn is_change(heard: &Heard) -> bool {
    heard.message.value["method"] == "notifications/tools/list_changed"
}

/// Whether a message names the subscription, and came on its stream.
fn is_of(heard: &Heard, id: &Value, cell: Cell) -> Result<(), String> {
    let meta = &heard.message.value["params"]["_meta"];
    same("the subscription", &meta["io.modelcontextprotocol/subscriptionId"], id)?;
    on_its_stream(heard, id, cell)
}

/// Whether a message came where what belongs to a request must come.
fn on_its_stream(heard: &Heard, id: &Value, cell: Cell) -> Result<(), String> {
    let right = match cell.client {
        (_, Way::Stdio) => On::Pipe,
        (Rev::Nov24, Way::Http) => On::Stream,
        (_, Way::Http) => On::Post(id.clone()),
    };
    match heard.on == right {
        true => Ok(()),
        false => Err(format!("it came on {:?} and not on {right:?}: {}", heard.on, heard.message.text)),
    }
}

fn arguments(what: &str, cell: Cell) -> Value {
    call_of(what, &cell.name())
}

/// Bridges at a time.
const AT_ONCE: usize = 4;
