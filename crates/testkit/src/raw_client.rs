//! A client of raw messages: any revision, in memory, with a handler for requests of the server.
//!
//! It uses only the wire format of the library, so that a misreading in the library is not repeated here.

#![allow(clippy::panic, clippy::indexing_slicing, reason = "a peer of tests fails by panicking")]

use std::collections::VecDeque;

use serde_json::{Value, json};
use tsugite::server::Principal;
use tsugite::{Server, transport::memory};
use tsugite_core::revision::Revision;

/// A handler for requests of a server: method and params in, result out.
pub type RequestHandler = Box<dyn FnMut(&str, &Value) -> Value + Send>;

/// A client of one revision.
pub struct RawClient {
    wire: memory::MemoryConnection,
    revision: Revision,
    capabilities: Value,
    handler: RequestHandler,
    last_id: u64,
    /// The notifications of the server.
    pub notifications: Vec<Value>,
    /// The requests of the server: method and params.
    pub received_requests: Vec<(String, Value)>,
    /// The number of rounds of the last request.
    pub rounds: usize,
    early_responses: VecDeque<Value>,
}

impl RawClient {
    /// Connects, with a handshake where the revision has one.
    pub async fn connect(server: &Server, revision: Revision, capabilities: Value) -> Self {
        Self::connect_to(
            memory::connect(server).unwrap_or_else(|error| panic!("{error}")),
            revision,
            capabilities,
        )
        .await
    }

    /// Connects as a principal.
    pub async fn connect_as(
        server: &Server,
        who: Principal,
        revision: Revision,
        capabilities: Value,
    ) -> Self {
        let wire = memory::connect_as(server, who).unwrap_or_else(|error| panic!("{error}"));
        Self::connect_to(wire, revision, capabilities).await
    }

    async fn connect_to(wire: memory::MemoryConnection, revision: Revision, capabilities: Value) -> Self {
        let mut peer = Self {
            wire,
            revision,
            capabilities,
            handler: Box::new(|method, _| panic!("no handler for {method}")),
            last_id: 0,
            notifications: Vec::new(),
            received_requests: Vec::new(),
            rounds: 0,
            early_responses: VecDeque::new(),
        };
        if !revision.is_stateless() {
            let offer = json!({
                "protocolVersion": revision.as_str(), "capabilities": peer.capabilities,
                "clientInfo": {"name": "peer", "version": "1"},
            });
            let answer = peer.request("initialize", offer).await;
            assert_eq!(answer["result"]["protocolVersion"], revision.as_str(), "{answer}");
            peer.notify("notifications/initialized", json!({}));
        }
        peer
    }

    /// Sets the handler for requests of the server.
    #[must_use]
    pub fn on_request(mut self, answer: impl FnMut(&str, &Value) -> Value + Send + 'static) -> Self {
        self.handler = Box::new(answer);
        self
    }

    /// Sends a request and returns the whole response. Requests of the server are answered meanwhile, in both eras.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        self.rounds = 0;
        let mut retry = params.clone();
        loop {
            self.rounds += 1;
            let response = self.request_once(method, retry).await;
            let result = &response["result"];
            if result["resultType"] != "input_required" || self.rounds > 20 {
                return response;
            }
            let mut answers = json!({});
            for (key, question) in result["inputRequests"].as_object().into_iter().flatten() {
                answers[key] =
                    self.handle_request(question["method"].as_str().unwrap_or_default(), &question["params"]);
            }
            retry = params.clone();
            retry["inputResponses"] = answers;
            retry["requestState"] = result["requestState"].clone();
        }
    }

    /// Sends a request and returns the whole response, also if it requires input.
    pub async fn request_once(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        self.wait_for_response(id).await
    }

    /// Sends a request and returns its id.
    pub fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let params = self.with_request_meta(params);
        self.send(&json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}));
        self.last_id
    }

    /// Waits for the response to a request.
    pub async fn wait_for_response(&mut self, id: u64) -> Value {
        loop {
            if let Some(at) = self.early_responses.iter().position(|message| message["id"] == id) {
                return self.early_responses.remove(at).unwrap_or_default();
            }
            let message = self.next().await;
            match (message.get("method"), message.get("id")) {
                (None, _) => self.early_responses.push_back(message),
                (Some(method), Some(asked)) => {
                    let (method, asked) = (method.as_str().unwrap_or_default().to_owned(), asked.clone());
                    let answer = self.handle_request(&method, &message["params"]);
                    match answer.get("error") {
                        Some(error) => self.send(&json!({"jsonrpc": "2.0", "id": asked, "error": error})),
                        None => self.send(&json!({"jsonrpc": "2.0", "id": asked, "result": answer})),
                    }
                }
                (Some(_), None) => self.notifications.push(message),
            }
        }
    }

    /// Calls a tool.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends any message.
    pub fn send(&mut self, message: &Value) {
        self.wire.send(message.to_string());
    }

    /// The next message, whatever it is.
    pub async fn next(&mut self) -> Value {
        // Silence must fail the test, not hang it; a paused clock moves on when nothing else can.
        let line = tokio::time::timeout(std::time::Duration::from_secs(3_600), self.wire.next()).await;
        let line = line.unwrap_or_else(|_| panic!("the server sent no message"));
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("not a message: {error}: {line}"))
    }

    /// Closes the sending side.
    pub fn close(&mut self) {
        self.wire.close();
    }

    fn handle_request(&mut self, method: &str, params: &Value) -> Value {
        self.received_requests.push((method.to_owned(), params.clone()));
        (self.handler)(method, params)
    }

    fn with_request_meta(&self, mut params: Value) -> Value {
        if self.revision.is_stateless() {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = json!(self.revision.as_str());
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        params
    }
}
