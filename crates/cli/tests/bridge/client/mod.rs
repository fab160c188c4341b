//! A client for one revision, over pipes or HTTP.
//!
//! Every message that the revision does not allow is an error.

mod http;
mod pipe;
mod sse;

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::bridge::Endpoint;
use crate::message::{Message, Rev, Side, validate};
use crate::server::LONG;

/// A client.
pub(crate) struct Client {
    pub(crate) rev: Rev,
    transport: ClientTransport,
    received: mpsc::UnboundedReceiver<Result<Received, String>>,
    last_id: i64,
    /// The method of every request that was sent.
    asked: HashMap<String, String>,
    /// Messages that arrived while another was awaited.
    early: VecDeque<Received>,
    log: Vec<String>,
    capabilities: Value,
    /// The result of the handshake, or of `server/discover`.
    pub(crate) greeting: Value,
    /// Whether the server may send requests that its revision does not have.
    allows_unsupported_requests: bool,
}

enum ClientTransport {
    Pipe(pipe::Pipe),
    Http(http::Http),
    Sse(sse::Sse),
}

/// A message, and the stream it arrived on.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) on: On,
    pub(crate) message: Message,
}

/// The stream that a message arrived on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum On {
    /// Standard output.
    Pipe,
    /// The response to the request with this id.
    Post(Value),
    /// The stream of the session.
    Stream,
}

/// The channel for received messages.
type ReceivedSender = mpsc::UnboundedSender<Result<Received, String>>;

impl Client {
    /// Connects to a bridge, with a handshake where the revision has one.
    pub(crate) async fn connect(rev: Rev, endpoint: Endpoint) -> Result<Self, String> {
        let (sender, received) = mpsc::unbounded_channel();
        let transport = match (endpoint, rev) {
            (Endpoint::Pipes(input, output), _) => {
                ClientTransport::Pipe(pipe::Pipe::new(input, output, sender))
            }
            (Endpoint::At(address), Rev::Nov24) => {
                ClientTransport::Sse(sse::Sse::open(address, sender).await?)
            }
            (Endpoint::At(address), _) => ClientTransport::Http(http::Http::new(address, rev, sender)),
        };
        let mut client = Self {
            rev,
            transport,
            received,
            last_id: 0,
            asked: HashMap::new(),
            early: VecDeque::new(),
            log: Vec::new(),
            capabilities: capabilities(rev),
            greeting: Value::Null,
            allows_unsupported_requests: false,
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
            return Err(format!("another revision was negotiated: {agreed}"));
        }
        self.greeting = agreed;
        self.notify("notifications/initialized", json!({})).await?;
        match &mut self.transport {
            ClientTransport::Http(http) => http.listen().await,
            _ => Ok(()),
        }
    }

    /// Sends a request and returns its result.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let answer = self.ask(method, params).await?;
        match answer.value.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(format!("error response: {}", answer.text)),
        }
    }

    /// Sends a request and returns the whole response.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Result<Message, String> {
        let id = self.begin(method, params).await?;
        self.answer(&id).await
    }

    /// Sends a request and returns its id.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.begin_with(method, params, "").await
    }

    /// Sends a request with an exact text in place of [`LETTERS`] in the params.
    pub(crate) async fn begin_with(
        &mut self,
        method: &str,
        mut params: Value,
        letters: &str,
    ) -> Result<Value, String> {
        self.last_id += 1;
        // Use both kinds of id.
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

    /// Waits for the response to a request. Other messages are kept.
    pub(crate) async fn answer(&mut self, id: &Value) -> Result<Message, String> {
        let received = self.wait("an answer", |received| {
            received.message.value.get("method").is_none() && received.message.value["id"] == *id
        });
        let received = received.await?;
        match &received.on {
            On::Post(of) if of != id => Err(format!("the response to {id} arrived on the stream of {of}")),
            On::Stream if !matches!(self.transport, ClientTransport::Sse(_)) => {
                Err(format!("the response to {id} did not arrive on its own stream"))
            }
            _ => Ok(received.message),
        }
    }

    /// Waits for a message that matches. Other messages are kept.
    pub(crate) async fn wait(
        &mut self,
        expected: &str,
        fits: impl Fn(&Received) -> bool,
    ) -> Result<Received, String> {
        if let Some(at) = self.early.iter().position(&fits) {
            return Ok(self.early.remove(at).unwrap());
        }
        loop {
            let received = self.next(expected).await?;
            if fits(&received) {
                return Ok(received);
            }
            self.early.push_back(received);
        }
    }

    /// Returns the next message.
    pub(crate) async fn next(&mut self, expected: &str) -> Result<Received, String> {
        let received = match tokio::time::timeout(LONG, self.received.recv()).await {
            Ok(Some(received)) => received?,
            Ok(None) => return Err(format!("the bridge ended; expected {expected}")),
            Err(_) => return Err(format!("timed out; expected {expected}")),
        };
        self.log.push(format!("client < {}", received.message.text));
        if self.allows_unsupported_requests && received.message.value["method"] == "elicitation/create" {
            return Ok(received);
        }
        let asked = &self.asked;
        validate(self.rev, Side::Server, &received.message.value, |id| asked.get(&id.to_string()).cloned())?;
        Ok(received)
    }

    /// Takes the messages that were not awaited.
    pub(crate) fn kept(&mut self) -> Vec<Received> {
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

    /// Rejects an elicitation request that the revision does not have.
    pub(crate) async fn refuse_question(&mut self) -> Result<(), String> {
        self.allows_unsupported_requests = true;
        let asked = self
            .wait("a question", |received| received.message.value["method"] == "elicitation/create")
            .await;
        self.allows_unsupported_requests = false;
        let error = json!({"code": -32601, "message": "Method not found"});
        self.send(&json!({"jsonrpc": "2.0", "id": asked?.message.value["id"], "error": error})).await
    }

    /// Responds to a request of the server.
    pub(crate) async fn reply(&mut self, to: &Message, result: Value) -> Result<(), String> {
        self.send(&json!({"jsonrpc": "2.0", "id": to.value["id"], "result": result})).await
    }

    /// Cancels a request, in the transport of the revision.
    pub(crate) async fn cancel(&mut self, id: &Value) -> Result<(), String> {
        match &mut self.transport {
            ClientTransport::Http(http) if self.rev.is_stateless() => {
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
        match &mut self.transport {
            ClientTransport::Pipe(pipe) => pipe.send(text).await,
            ClientTransport::Http(http) => http.send(message, text).await,
            ClientTransport::Sse(sse) => sse.send(text).await,
        }
    }

    /// Stops or resumes reading.
    pub(crate) fn set_reading(&self, reads: bool) {
        match &self.transport {
            ClientTransport::Pipe(pipe) => pipe.set_reading(reads),
            _ => panic!("only pipes can stop reading"),
        }
    }

    /// Ends the session.
    pub(crate) async fn close(&mut self) -> Result<(), String> {
        match &mut self.transport {
            ClientTransport::Http(http) => http.end().await,
            _ => Ok(()),
        }
    }

    /// Formats an error with the last messages.
    pub(crate) fn failed(&self, error: &str) -> String {
        let from = self.log.len().saturating_sub(8);
        format!("{error}\n{}", self.log[from..].join("\n"))
    }
}

/// The placeholder for an exact text.
pub(crate) const LETTERS: &str = "@letters";

/// Returns the capabilities of a client of this revision.
fn capabilities(rev: Rev) -> Value {
    let mut can = json!({"sampling": {}, "roots": if rev.is_stateless() { json!({}) } else { json!({"listChanged": true}) }});
    can["experimental"] = json!({"x-unknown": {"b": 1}});
    if rev >= Rev::Jun25 {
        can["elicitation"] = json!({});
    }
    can
}
