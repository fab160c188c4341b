//! A client that speaks one revision and nothing else, over pipes or HTTP.
//!
//! Whatever it gets that this revision does not allow is an error.

mod http;
mod pipe;
mod sse;

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::bridge::Door;
use crate::message::{Message, Rev, Side, judge};
use crate::server::LONG;

/// A client.
pub(crate) struct Client {
    pub(crate) rev: Rev,
    wire: Wire,
    heard: mpsc::UnboundedReceiver<Result<Heard, String>>,
    last_id: i64,
    /// The method of every request there was.
    asked: HashMap<String, String>,
    /// What came while something else was waited for.
    early: VecDeque<Heard>,
    log: Vec<String>,
    capabilities: Value,
    /// What the server said of itself.
    pub(crate) greeting: Value,
    /// Whether the server may ask what its revision has not.
    rude: bool,
}

enum Wire {
    Pipe(pipe::Pipe),
    Http(http::Http),
    Sse(sse::Sse),
}

/// A message, and where it came.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) on: On,
    pub(crate) message: Message,
}

/// Where a message came.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum On {
    /// On the only way there is.
    Pipe,
    /// In response to the request with this id.
    Post(Value),
    /// On the stream of the session.
    Stream,
}

/// Where messages are brought to.
type Heards = mpsc::UnboundedSender<Result<Heard, String>>;

impl Client {
    /// Connects to a bridge, with a handshake where the revision has one.
    pub(crate) async fn connect(rev: Rev, door: Door) -> Result<Self, String> {
        let (heards, heard) = mpsc::unbounded_channel();
        let wire = match (door, rev) {
            (Door::Pipes(input, output), _) => Wire::Pipe(pipe::Pipe::new(input, output, heards)),
            (Door::At(address), Rev::Nov24) => Wire::Sse(sse::Sse::open(address, heards).await?),
            (Door::At(address), _) => Wire::Http(http::Http::new(address, rev, heards)),
        };
        let mut client = Self {
            rev,
            wire,
            heard,
            last_id: 0,
            asked: HashMap::new(),
            early: VecDeque::new(),
            log: Vec::new(),
            capabilities: capabilities(rev),
            greeting: Value::Null,
            rude: false,
        };
        client.open().await.map_err(|error| client.failed(&error))?;
        Ok(client)
    }

    async fn open(&mut self) -> Result<(), String> {
        if self.rev.is_stateless() {
            let found = self.request("server/discover", json!({})).await?;
            let versions = found["supportedVersions"].as_array().cloned().unwrap_or_default();
            self.greeting = found;
            return match versions.contains(&json!(self.rev.name())) {
                true => Ok(()),
                false => Err(format!("{} is not among {versions:?}", self.rev)),
            };
        }
        let offer = json!({
            "protocolVersion": self.rev.name(), "capabilities": self.capabilities,
            "clientInfo": {"name": "raw", "version": "1"},
        });
        let agreed = self.request("initialize", offer).await?;
        if agreed["protocolVersion"] != self.rev.name() {
            return Err(format!("another revision is agreed on: {agreed}"));
        }
        self.greeting = agreed;
        self.notify("notifications/initialized", json!({})).await?;
        match &mut self.wire {
            Wire::Http(http) => http.listen().await,
            _ => Ok(()),
        }
    }

    /// Sends a request and gives its result.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let answer = self.ask(method, params).await?;
        match answer.value.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(format!("refused: {}", answer.text)),
        }
    }

    /// Sends a request and gives the whole response.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Result<Message, String> {
        let id = self.begin(method, params).await?;
        self.answer(&id).await
    }

    /// Sends a request; gives its id.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.begin_with(method, params, "").await
    }

    /// The same, with a text to the letter where the params say [`LETTERS`].
    pub(crate) async fn begin_with(
        &mut self,
        method: &str,
        mut params: Value,
        letters: &str,
    ) -> Result<Value, String> {
        self.last_id += 1;
        // Both kinds of id are in use.
        let id =
            if self.last_id % 2 == 0 { json!(format!("№ {}", self.last_id)) } else { json!(self.last_id) };
        if self.rev.is_stateless() {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = json!(self.rev.name());
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "raw", "version": "1"});
        }
        self.asked.insert(id.to_string(), method.to_owned());
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let text = message.to_string().replace(&format!("\"{LETTERS}\""), letters);
        self.send_text(&message, text).await?;
        Ok(id)
    }

    /// Waits for the response to a request. Whatever else comes is kept.
    pub(crate) async fn answer(&mut self, id: &Value) -> Result<Message, String> {
        let heard = self.wait("an answer", |heard| {
            heard.message.value.get("method").is_none() && heard.message.value["id"] == *id
        });
        let heard = heard.await?;
        match &heard.on {
            On::Post(of) if of != id => Err(format!("the answer to {id} came on the stream of {of}")),
            On::Stream if !matches!(self.wire, Wire::Sse(_)) => {
                Err(format!("the answer to {id} came on no stream of its own"))
            }
            _ => Ok(heard.message),
        }
    }

    /// Waits for a message that fits. Whatever else comes is kept.
    pub(crate) async fn wait(&mut self, what: &str, fits: impl Fn(&Heard) -> bool) -> Result<Heard, String> {
        if let Some(at) = self.early.iter().position(&fits) {
            return Ok(self.early.remove(at).unwrap());
        }
        loop {
            let heard = self.next(what).await?;
            if fits(&heard) {
                return Ok(heard);
            }
            self.early.push_back(heard);
        }
    }

    /// The next message, whatever it is.
    pub(crate) async fn next(&mut self, what: &str) -> Result<Heard, String> {
        let heard = match tokio::time::timeout(LONG, self.heard.recv()).await {
            Ok(Some(heard)) => heard?,
            Ok(None) => return Err(format!("the bridge is gone instead of {what}")),
            Err(_) => return Err(format!("nothing came instead of {what}")),
        };
        self.log.push(format!("client < {}", heard.message.text));
        if self.rude && heard.message.value["method"] == "elicitation/create" {
            return Ok(heard);
        }
        let asked = &self.asked;
        judge(self.rev, Side::Server, &heard.message.value, |id| asked.get(&id.to_string()).cloned())?;
        Ok(heard)
    }

    /// Everything that came and was not waited for.
    pub(crate) fn kept(&mut self) -> Vec<Heard> {
        self.early.drain(..).collect()
    }

    /// Sends a notification.
    pub(crate) async fn notify(&mut self, method: &str, params: Value) -> Result<(), String> {
        let bare = params == json!({});
        let mut message = json!({"jsonrpc": "2.0", "method": method});
        if !bare {
            message["params"] = params;
        }
        self.send(&message).await
    }

    /// Refuses a question that this revision has not, and the server asks all the same.
    pub(crate) async fn refuse_question(&mut self) -> Result<(), String> {
        self.rude = true;
        let asked =
            self.wait("a question", |heard| heard.message.value["method"] == "elicitation/create").await;
        self.rude = false;
        let error = json!({"code": -32601, "message": "Method not found"});
        self.send(&json!({"jsonrpc": "2.0", "id": asked?.message.value["id"], "error": error})).await
    }

    /// Answers what the server asked.
    pub(crate) async fn reply(&mut self, to: &Message, result: Value) -> Result<(), String> {
        self.send(&json!({"jsonrpc": "2.0", "id": to.value["id"], "result": result})).await
    }

    /// Gives a request up, in the way of the revision.
    pub(crate) async fn cancel(&mut self, id: &Value) -> Result<(), String> {
        match &mut self.wire {
            Wire::Http(http) if self.rev.is_stateless() => {
                http.close(id);
                Ok(())
            }
            _ => self.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"})).await,
        }
    }

    async fn send(&mut self, message: &Value) -> Result<(), String> {
        self.send_text(message, message.to_string()).await
    }

    async fn send_text(&mut self, message: &Value, text: String) -> Result<(), String> {
        self.log.push(format!("client > {text}"));
        match &mut self.wire {
            Wire::Pipe(pipe) => pipe.send(text).await,
            Wire::Http(http) => http.send(message, text).await,
            Wire::Sse(sse) => sse.send(text).await,
        }
    }

    /// Reads nothing from now on, or again.
    pub(crate) fn hear(&self, hears: bool) {
        match &self.wire {
            Wire::Pipe(pipe) => pipe.hear(hears),
            _ => panic!("only pipes are left unread here"),
        }
    }

    /// Ends it in good order.
    pub(crate) async fn close(&mut self) -> Result<(), String> {
        match &mut self.wire {
            Wire::Http(http) => http.end().await,
            _ => Ok(()),
        }
    }

    /// What went wrong, with the last messages.
    pub(crate) fn failed(&self, error: &str) -> String {
        let from = self.log.len().saturating_sub(8);
        format!("{error}\n{}", self.log[from..].join("\n"))
    }
}

/// Stands where a text is to stand to the letter.
pub(crate) const LETTERS: &str = "@letters";

/// What a client of this revision can be asked.
fn capabilities(rev: Rev) -> Value {
    let mut can = json!({"sampling": {}, "roots": if rev.is_stateless() { json!({}) } else { json!({"listChanged": true}) }});
    can["experimental"] = json!({"x-unknown": {"b": 1}});
    if rev >= Rev::Jun25 {
        can["elicitation"] = json!({});
    }
    can
}
