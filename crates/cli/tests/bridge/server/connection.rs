//! A connection of the server: a process, a session, or in 2026-07-28 over HTTP a single request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot, watch};

use super::actions::{self, Call};
use super::{Listen, Out, Shared};
use crate::message::{Message, Rev, Side, validate};
use crate::tool;

pub(super) struct Connection {
    number: usize,
    pub(super) shared: Arc<Shared>,
    standalone: Arc<dyn Out>,
    state: Mutex<State>,
    death: Notify,
}

#[derive(Default)]
struct State {
    opened: bool,
    ready: bool,
    /// The capabilities of the client.
    capabilities: Value,
    last_id: i64,
    /// The pending requests to the client, by id.
    asked: HashMap<i64, (String, oneshot::Sender<Message>)>,
    /// The calls in flight, by id, with the reason to stop.
    calls: HashMap<String, watch::Sender<Option<&'static str>>>,
    /// The requested log level.
    level: Option<String>,
    /// The subscribed resources.
    uris: Vec<String>,
}

impl Connection {
    pub(super) fn new(number: usize, shared: Arc<Shared>, standalone: Arc<dyn Out>) -> Self {
        Self { number, shared, standalone, state: Mutex::default(), death: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn standalone(&self) -> &Arc<dyn Out> {
        &self.standalone
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state().ready
    }

    /// Waits until the server is to end abruptly.
    pub(super) async fn dead(&self) {
        self.death.notified().await;
    }

    pub(super) fn die(&self) {
        self.death.notify_one();
    }

    pub(super) fn level(&self) -> Option<String> {
        self.state().level.clone()
    }

    pub(super) fn watches(&self, uri: &str) -> bool {
        self.state().uris.iter().any(|known| known == uri)
    }

    /// Ends all calls of the connection.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.asked.clear();
        for (_, call) in state.calls.drain() {
            call.send_if_modified(|how| how.is_none() && how.replace("gone").is_none());
        }
    }

    /// Stops a call, if it is in flight.
    pub(super) fn stop(&self, id: &Value, how: &'static str) -> bool {
        match self.state().calls.get(&id.to_string()) {
            Some(call) => call.send_if_modified(|known| known.is_none() && known.replace(how).is_none()),
            None => false,
        }
    }

    pub(super) fn receive(self: &Arc<Self>, message: Message, out: &Arc<dyn Out>) {
        self.shared.log(format!("  server {} < {}", self.number, message.text));
        let rev = self.shared.rev;
        let method = message.value["method"].as_str().unwrap_or_default().to_owned();
        let id = message.value.get("id").cloned();
        // A client may probe with `server/discover`; any other method of 2026-07-28 is a fault.
        if method == "server/discover" && !rev.is_stateless() {
            return self.refuse(out, id.as_ref(), -32601, "Method not found");
        }
        let validate = validate(rev, Side::Client, &message.value, |id| self.method_of(id));
        if let Err(fault) = validate.and_then(|()| self.in_order(&method, &message)) {
            self.shared.fault(Some(&message), &fault);
            return self.refuse(out, id.as_ref(), -32600, &fault);
        }
        match (message.value.get("method").is_some(), id) {
            (true, Some(id)) => self.request(&method, id, message, out),
            (true, None) => self.notification(&method, &message),
            (false, id) => {
                let asked = id.and_then(|id| self.state().asked.remove(&id.as_i64()?));
                if let Some((_, asked)) = asked {
                    let _ = asked.send(message);
                }
            }
        }
    }

    fn refuse(&self, out: &Arc<dyn Out>, id: Option<&Value>, code: i64, text: &str) {
        if let Some(id) = id {
            self.answer(out, &json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}));
        }
    }

    pub(super) fn answer(&self, out: &Arc<dyn Out>, message: &Value) {
        self.answer_text(out, &message.to_string());
    }

    pub(super) fn answer_text(&self, out: &Arc<dyn Out>, text: &str) {
        self.shared.log(format!("  server {} > {text}", self.number));
        out.answer(text);
    }

    pub(super) fn send(&self, out: &Arc<dyn Out>, message: &Value) {
        self.shared.log(format!("  server {} > {message}", self.number));
        out.send(&message.to_string());
    }

    fn method_of(&self, id: &Value) -> Option<String> {
        self.state().asked.get(&id.as_i64()?).map(|(method, _)| method.clone())
    }

    /// Fails if the method is not allowed in the current state.
    fn in_order(&self, method: &str, message: &Message) -> Result<(), String> {
        let mut state = self.state();
        if self.shared.rev.is_stateless() {
            if message.value.get("id").is_some() {
                let meta = &message.value["params"]["_meta"];
                let claim = &meta["io.modelcontextprotocol/protocolVersion"];
                if claim != self.shared.rev.name() {
                    return Err(format!("claims {claim} and not {}", self.shared.rev));
                }
                state.capabilities = meta["io.modelcontextprotocol/clientCapabilities"].clone();
            }
            return Ok(());
        }
        match method {
            "initialize" if state.opened => Err("a second initialize".to_owned()),
            "initialize" | "ping" => Ok(()),
            _ if !state.opened => Err(format!("{method} before initialize")),
            "notifications/initialized" if state.ready => Err("ready twice".to_owned()),
            "notifications/initialized" => Ok(()),
            _ if !state.ready => Err(format!("{method} before notifications/initialized")),
            _ => Ok(()),
        }
    }

    fn request(self: &Arc<Self>, method: &str, id: Value, message: Message, out: &Arc<dyn Out>) {
        let rev = self.shared.rev;
        let result = match method {
            "initialize" => {
                let mut state = self.state();
                state.opened = true;
                state.capabilities = message.value["params"]["capabilities"].clone();
                let mut result = description(rev);
                result["protocolVersion"] = json!(rev.name());
                result["serverInfo"] = json!({"name": "raw", "version": "1"});
                result
            }
            "server/discover" => {
                let mut result = description(rev);
                result["supportedVersions"] = json!([rev.name()]);
                result["_meta"] =
                    json!({"io.modelcontextprotocol/serverInfo": {"name": "raw", "version": "1"}});
                (result["ttlMs"], result["cacheScope"]) = (json!(0), json!("private"));
                result
            }
            "ping" => json!({}),
            "tools/list" => {
                let mut result = json!({
                    "tools": [tool::offered(rev)], "x-unknown": {"kept": [1, 2.0, "ü"]}, "_meta": {"com.example/n": 7},
                });
                if rev.is_stateless() {
                    (result["ttlMs"], result["cacheScope"]) = (json!(60000), json!("public"));
                }
                result
            }
            "tools/call" => return self.call(id, message, out),
            "subscriptions/listen" => return self.listen(id, &message, out),
            "logging/setLevel" => {
                let level = message.value["params"]["level"].as_str().map(str::to_owned);
                self.shared.note("level", level.as_deref().unwrap_or_default());
                self.state().level = level;
                json!({})
            }
            "resources/subscribe" | "resources/unsubscribe" => {
                let uri = message.value["params"]["uri"].as_str().unwrap_or_default().to_owned();
                self.shared.note(&uri, method);
                let mut state = self.state();
                match method {
                    "resources/subscribe" => state.uris.push(uri),
                    _ => state.uris.retain(|known| *known != uri),
                }
                json!({})
            }
            _ if method.contains("x-unknown") => {
                json!({"x-unknown": {"method": method, "params": message.value["params"]}})
            }
            _ => return self.refuse(out, Some(&id), -32601, "Method not found"),
        };
        self.answer(out, &actions::complete(rev, &id, result));
    }

    fn notification(&self, method: &str, message: &Message) {
        match method {
            "notifications/initialized" => self.state().ready = true,
            "notifications/cancelled" => {
                let id = &message.value["params"]["requestId"];
                self.shared.unlisten(|listen| listen.connection == self.number && listen.id == *id);
                // The call may have ended already.
                self.stop(id, "cancelled");
            }
            _ if method.contains("x-unknown") => {
                self.shared.note(method, &message.value["params"].to_string());
            }
            _ => self.shared.note(method, "received"),
        }
    }

    fn listen(&self, id: Value, message: &Message, out: &Arc<dyn Out>) {
        let filter = message.value["params"]["notifications"].clone();
        let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
        let method = "notifications/subscriptions/acknowledged";
        let params = json!({"_meta": meta, "notifications": filter});
        self.send(out, &json!({"jsonrpc": "2.0", "method": method, "params": params}));
        self.shared.state().listens.push(Listen {
            connection: self.number,
            id,
            filter,
            out: Arc::clone(out),
        });
        self.shared.noted.send_modify(|count| *count += 1);
    }

    fn call(self: &Arc<Self>, id: Value, message: Message, out: &Arc<dyn Out>) {
        let (stop, stopped) = watch::channel(None);
        let key = id.to_string();
        if self.state().calls.insert(key.clone(), stop).is_some() {
            return self.shared.fault(Some(&message), &format!("the id {id} is used twice at a time"));
        }
        let call = Call { connection: Arc::clone(self), id, message, out: Arc::clone(out), stopped };
        let connection = Arc::clone(self);
        tokio::spawn(async move {
            call.run().await;
            connection.state().calls.remove(&key);
        });
    }

    /// Sends a request to the client; `None` if it never responds.
    pub(super) async fn ask(&self, out: &Arc<dyn Out>, method: &str, params: Value) -> Option<Message> {
        let (asked, answered) = oneshot::channel();
        let id = {
            let mut state = self.state();
            state.last_id += 1;
            let id = state.last_id;
            state.asked.insert(id, (method.to_owned(), asked));
            id
        };
        self.send(out, &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        answered.await.ok()
    }

    pub(super) fn capabilities(&self) -> Value {
        self.state().capabilities.clone()
    }
}

fn description(rev: Rev) -> Value {
    let mut offers = json!({
        "tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {}, "experimental": {"x-unknown": {"a": 1}},
    });
    if rev >= Rev::Mar25 {
        offers["completions"] = json!({});
    }
    json!({"capabilities": offers, "instructions": "Be raw.", "x-unknown": [1]})
}
