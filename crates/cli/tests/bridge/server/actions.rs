//! The actions of the tool, selected by its argument `do`.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::Out;
use super::connection::Connection;
use crate::message::{Message, Rev};
use crate::tool;

/// A call of the tool.
pub(super) struct Call {
    pub(super) connection: Arc<Connection>,
    pub(super) id: Value,
    pub(super) message: Message,
    pub(super) out: Arc<dyn Out>,
    pub(super) stopped: watch::Receiver<Option<&'static str>>,
}

/// Returns a response with a complete result.
pub(super) fn complete(rev: Rev, id: &Value, mut result: Value) -> Value {
    if rev.is_stateless() {
        result["resultType"] = json!("complete");
    }
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

impl Call {
    pub(super) async fn run(mut self) {
        let arguments = self.params()["arguments"].clone();
        if self.params()["name"] != tool::NAME {
            return self.fail(-32602, "Unknown tool");
        }
        match arguments["do"].as_str().unwrap_or_default() {
            "echo" => self.echo(),
            "progress" => self.progress(),
            "wait" => self.wait().await,
            "ask" => self.ask().await,
            "change" => {
                self.connection.shared.notify_change(&self.cell());
                self.done("changed", json!({}));
            }
            "change here" => {
                let params = json!({"_meta": {"com.example/cell": self.cell()}});
                let method = "notifications/tools/list_changed";
                self.connection
                    .send(&self.out, &json!({"jsonrpc": "2.0", "method": method, "params": params}));
                self.done("changed", json!({}));
            }
            "update" => {
                self.connection
                    .shared
                    .notify_update(arguments["uri"].as_str().unwrap_or_default(), &self.cell());
                self.done("updated", json!({}));
            }
            "log" => self.log(false),
            "log loudly" => self.log(true),
            "say" => {
                let params = json!({"a": 1.0, "_meta": {"com.example/cell": self.cell()}});
                self.connection
                    .send(&self.out, &json!({"jsonrpc": "2.0", "method": SAYING, "params": params}));
                self.done("said", json!({}));
            }
            "params" => {
                let (params, can) = (self.params().clone(), self.connection.capabilities());
                self.done("params", json!({"x-params": params, "x-capabilities": can}));
            }
            "refuse" => {
                let error = json!({"code": -31999, "message": "No.", "data": {"x-unknown": [1.0]}});
                self.connection.answer(&self.out, &json!({"jsonrpc": "2.0", "id": self.id, "error": error}));
            }
            "die" => self.connection.die(),
            "flood" => self.flood(&arguments),
            other => self.fail(-32602, &format!("unknown action {other:?}")),
        }
    }

    fn rev(&self) -> Rev {
        self.connection.shared.rev
    }

    fn params(&self) -> &Value {
        &self.message.value["params"]
    }

    fn cell(&self) -> String {
        self.params()["arguments"]["cell"].as_str().unwrap_or_default().to_owned()
    }

    fn note(&self, event: &str) {
        self.connection.shared.note(&self.cell(), event);
    }

    fn fail(&self, code: i64, text: &str) {
        let error = json!({"code": code, "message": text});
        self.connection.answer(&self.out, &json!({"jsonrpc": "2.0", "id": self.id, "error": error}));
    }

    fn done(&self, text: &str, mut more: Value) {
        more["content"] = json!([{"type": "text", "text": text, "x-unknown": 1}]);
        if self.rev() >= Rev::Jun25 {
            more["structuredContent"] = json!({"cell": self.cell()});
        }
        self.connection.answer(&self.out, &complete(self.rev(), &self.id, more));
    }

    /// Returns the arguments and `_meta` byte for byte.
    fn echo(&self) {
        let arguments = self.message.raw(&["params", "arguments"]).unwrap_or_default();
        let meta = self.message.raw(&["params", "_meta"]).unwrap_or("null".to_owned());
        let mut result = json!({"content": [{"type": "text", "text": "echo", "x-unknown": 1}], "x-arguments": "?", "x-meta": "?"});
        if self.rev() >= Rev::Jun25 {
            result["structuredContent"] = json!({"cell": self.cell()});
        }
        let text = complete(self.rev(), &self.id, result).to_string();
        let text = text.replace("\"x-arguments\":\"?\"", &format!("\"x-arguments\":{arguments}"));
        self.connection
            .answer_text(&self.out, &text.replace("\"x-meta\":\"?\"", &format!("\"x-meta\":{meta}")));
    }

    fn progress(&self) {
        let Some(token) = self.params().pointer("/_meta/progressToken") else {
            return self.fail(-32602, "no progress token");
        };
        for step in 1..=3 {
            let mut params = json!({"progressToken": token, "progress": step, "total": 3, "x-unknown": step});
            if self.rev() >= Rev::Mar25 {
                params["message"] = json!(format!("step {step}"));
            }
            let message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            self.connection.send(&self.out, &message);
        }
        self.done("three steps", json!({}));
    }

    /// Logs at each requested level, or with `loudly` at every level.
    fn log(&self, loudly: bool) {
        let wanted = match self.rev().is_stateless() {
            _ if loudly => Some("debug".to_owned()),
            true => self.params()["_meta"]["io.modelcontextprotocol/logLevel"].as_str().map(str::to_owned),
            false => Some(self.connection.level().unwrap_or("info".to_owned())),
        };
        let from =
            wanted.map_or(LEVELS.len(), |wanted| LEVELS.iter().position(|level| *level == wanted).unwrap());
        for level in &LEVELS[from..] {
            let params =
                json!({"level": level, "logger": "raw", "data": {"cell": self.cell()}, "x-unknown": 1});
            self.connection.send(
                &self.out,
                &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}),
            );
        }
        self.done("logged", json!({}));
    }

    /// Sends many notifications: during the call, or after it to all subscribers.
    fn flood(&self, arguments: &Value) {
        let method = arguments["method"].as_str().unwrap_or_default();
        let (count, text) = (arguments["count"].as_u64().unwrap_or(0), "x".repeat(8_000));
        let over = arguments["over"] == true;
        if over {
            self.done("flooded", json!({}));
        }
        for number in 0..count {
            let mut params = json!({"_meta": {"com.example/n": number, "com.example/text": text}});
            match method {
                "notifications/message" => {
                    (params["level"], params["data"]) = (json!("error"), json!(number))
                }
                "notifications/resources/updated" => params["uri"] = json!(format!("flood:{number}")),
                _ => {}
            }
            match over {
                true => self.connection.shared.notify(method, params, |_| true, |_| true),
                false => {
                    self.out.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string())
                }
            }
        }
        if !over {
            self.done("flooded", json!({}));
        }
    }

    /// Waits until it is cancelled, and responds anyway, as the response may have been in flight.
    async fn wait(&mut self) {
        self.note("begun");
        let how = self.stopped.wait_for(Option::is_some).await.ok().and_then(|how| *how);
        self.note(how.unwrap_or("gone"));
        self.done("too late", json!({}));
    }

    async fn ask(&self) {
        let kind = self.params()["arguments"]["kind"].as_str().unwrap_or("elicitation").to_owned();
        let (method, capability, params) = question(&kind, &self.cell(), self.rev());
        let can = self.connection.capabilities().get(capability).is_some();
        self.note(if can { "can be asked" } else { "cannot be asked" });
        if self.rev().is_stateless() {
            return self.ask_in_result(method, &params);
        }
        let mut stopped = self.stopped.clone();
        let answer = tokio::select! {
            answer = self.connection.ask(&self.out, method, params) => answer,
            how = stopped.wait_for(Option::is_some) => {
                return self.note(how.map_or("gone", |how| how.unwrap_or("gone")));
            }
        };
        let Some(answer) = answer else { return self.note("never answered") };
        match (answer.value.get("result"), answer.value.get("error")) {
            (Some(answer), _) => self.done(&answer_text(answer), json!({"x-answer": answer})),
            (None, error) => self.fail(
                -32603,
                &format!("{method} came back with an error: {}", error.unwrap_or(&Value::Null)["message"]),
            ),
        }
    }

    fn ask_in_result(&self, method: &str, params: &Value) {
        let state = format!("state of {}", self.cell());
        let params = params.clone();
        match (self.params().get("requestState"), self.params().get("inputResponses")) {
            (None, None) => {
                let result = json!({
                    "resultType": "input_required", "requestState": state,
                    "inputRequests": {"the question": {"method": method, "params": params}},
                });
                self.connection
                    .answer(&self.out, &json!({"jsonrpc": "2.0", "id": self.id, "result": result}));
            }
            (Some(back), Some(answers)) if *back == state => match answers.get("the question") {
                Some(answer) => self.done(&answer_text(answer), json!({"x-answer": answer})),
                None => self.fail(-32602, "the answer is missing"),
            },
            (state, answers) => self.fail(-32602, &format!("not what was asked: {state:?} {answers:?}")),
        }
    }
}

/// Returns the text of an answer.
fn answer_text(answer: &Value) -> String {
    match (&answer["action"], &answer["content"], &answer["roots"]) {
        (Value::String(action), content, _) => {
            format!("{action} {}", content["name"].as_str().unwrap_or_default())
        }
        (_, Value::Null, roots) => roots[0]["uri"].as_str().unwrap_or_default().to_owned(),
        (_, content, _) => content["text"].as_str().unwrap_or_default().to_owned(),
    }
}

/// Returns the method, the capability and the params of a request to the client.
fn question(kind: &str, cell: &str, rev: Rev) -> (&'static str, &'static str, Value) {
    match kind {
        "sampling" => {
            let asked = json!({"role": "user", "content": {"type": "text", "text": cell}});
            (
                "sampling/createMessage",
                "sampling",
                json!({"messages": [asked], "maxTokens": 10, "x-unknown": 1}),
            )
        }
        "roots" => ("roots/list", "roots", json!({})),
        "unknown" => {
            ("x-unknown/ask", "experimental", json!({"a": 1.0, "_meta": {"com.example/cell": cell}}))
        }
        _ => {
            let mut params = json!({
                "message": format!("Who? {cell}"), "x-unknown": {"kept": true},
                "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            });
            if rev >= Rev::Nov25 {
                params["mode"] = json!("form");
            }
            ("elicitation/create", "elicitation", params)
        }
    }
}

/// A method that no revision has.
pub(crate) const SAYING: &str = "notifications/x-unknown";
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
