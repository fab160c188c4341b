//! What the tool does: whatever its argument `do` says.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::Out;
use super::link::Link;
use crate::message::{Message, Rev};
use crate::tool;

/// A call of the tool.
pub(super) struct Call {
    pub(super) link: Arc<Link>,
    pub(super) id: Value,
    pub(super) message: Message,
    pub(super) out: Arc<dyn Out>,
    pub(super) stopped: watch::Receiver<Option<&'static str>>,
}

/// A response with a result that is complete.
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
                self.link.shared.tell_change(&self.cell());
                self.done("changed", json!({}));
            }
            "change here" => {
                let params = json!({"_meta": {"com.example/cell": self.cell()}});
                let method = "notifications/tools/list_changed";
                self.link.say(&self.out, &json!({"jsonrpc": "2.0", "method": method, "params": params}));
                self.done("changed", json!({}));
            }
            "update" => {
                self.link.shared.tell_update(arguments["uri"].as_str().unwrap_or_default(), &self.cell());
                self.done("updated", json!({}));
            }
            "log" => self.log(false),
            "log loudly" => self.log(true),
            "say" => {
                let params = json!({"a": 1.0, "_meta": {"com.example/cell": self.cell()}});
                self.link.say(&self.out, &json!({"jsonrpc": "2.0", "method": SAYING, "params": params}));
                self.done("said", json!({}));
            }
            "params" => {
                let (params, can) = (self.params().clone(), self.link.capabilities());
                self.done("params", json!({"x-params": params, "x-capabilities": can}));
            }
            "refuse" => {
                let error = json!({"code": -31999, "message": "No.", "data": {"x-unknown": [1.0]}});
                self.link.answer(&self.out, &json!({"jsonrpc": "2.0", "id": self.id, "error": error}));
            }
            "die" => self.link.die(),
            "flood" => self.flood(&arguments),
            other => self.fail(-32602, &format!("nobody knows how to do {other:?}")),
        }
    }

    fn rev(&self) -> Rev {
        self.link.shared.rev
    }

    fn params(&self) -> &Value {
        &self.message.value["params"]
    }

    fn cell(&self) -> String {
        self.params()["arguments"]["cell"].as_str().unwrap_or_default().to_owned()
    }

    fn note(&self, what: &str) {
        self.link.shared.note(&self.cell(), what);
    }

    fn fail(&self, code: i64, text: &str) {
        let error = json!({"code": code, "message": text});
        self.link.answer(&self.out, &json!({"jsonrpc": "2.0", "id": self.id, "error": error}));
    }

    fn done(&self, text: &str, mut more: Value) {
        more["content"] = json!([{"type": "text", "text": text, "x-unknown": 1}]);
        if self.rev() >= Rev::Jun25 {
            more["structuredContent"] = json!({"cell": self.cell()});
        }
        self.link.answer(&self.out, &complete(self.rev(), &self.id, more));
    }

    /// Gives back what it got, letter by letter.
    fn echo(&self) {
        let arguments = self.message.raw(&["params", "arguments"]).unwrap_or_default();
        let meta = self.message.raw(&["params", "_meta"]).unwrap_or("null".to_owned());
        let mut result = json!({"content": [{"type": "text", "text": "echo", "x-unknown": 1}], "x-arguments": "?", "x-meta": "?"});
        if self.rev() >= Rev::Jun25 {
            result["structuredContent"] = json!({"cell": self.cell()});
        }
        let text = complete(self.rev(), &self.id, result).to_string();
        let text = text.replace("\"x-arguments\":\"?\"", &format!("\"x-arguments\":{arguments}"));
        self.link.answer_text(&self.out, &text.replace("\"x-meta\":\"?\"", &format!("\"x-meta\":{meta}")));
    }

    fn progress(&self) {
        let Some(token) = self.params().pointer("/_meta/progressToken") else {
            return self.fail(-32602, "nobody wants to hear of progress");
        };
        for step in 1..=3 {
            let mut params = json!({"progressToken": token, "progress": step, "total": 3, "x-unknown": step});
            if self.rev() >= Rev::Mar25 {
                params["message"] = json!(format!("step {step}"));
            }
            let said = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            self.link.say(&self.out, &said);
        }
        self.done("three steps", json!({}));
    }

    /// Says something at each level that is wanted, or at every one.
    fn log(&self, loudly: bool) {
        let wanted = match self.rev().is_stateless() {
            _ if loudly => Some("debug".to_owned()),
            true => self.params()["_meta"]["io.modelcontextprotocol/logLevel"].as_str().map(str::to_owned),
            false => Some(self.link.level().unwrap_or("info".to_owned())),
        };
        let from =
            wanted.map_or(LEVELS.len(), |wanted| LEVELS.iter().position(|level| *level == wanted).unwrap());
        for level in &LEVELS[from..] {
            let params =
                json!({"level": level, "logger": "raw", "data": {"cell": self.cell()}, "x-unknown": 1});
            self.link.say(
                &self.out,
                &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}),
            );
        }
        self.done("logged", json!({}));
    }

    /// Says more than anybody wants to hear: while the call is under way, or when it is over, to whoever listens.
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
                true => self.link.shared.tell(method, params, |_| true, |_| true),
                false => {
                    self.out.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string())
                }
            }
        }
        if !over {
            self.done("flooded", json!({}));
        }
    }

    /// Waits until it is told to stop, and answers all the same: the answer may have been under way.
    async fn wait(&mut self) {
        self.note("begun");
        let how = self.stopped.wait_for(Option::is_some).await.ok().and_then(|how| *how);
        self.note(how.unwrap_or("gone"));
        self.done("too late", json!({}));
    }

    async fn ask(&self) {
        let kind = self.params()["arguments"]["kind"].as_str().unwrap_or("elicitation").to_owned();
        let (method, capability, params) = question(&kind, &self.cell(), self.rev());
        let can = self.link.capabilities().get(capability).is_some();
        self.note(if can { "can be asked" } else { "cannot be asked" });
        if self.rev().is_stateless() {
            return self.ask_in_result(method, &params);
        }
        let mut stopped = self.stopped.clone();
        let answer = tokio::select! {
            answer = self.link.ask(&self.out, method, params) => answer,
            how = stopped.wait_for(Option::is_some) => {
                return self.note(how.map_or("gone", |how| how.unwrap_or("gone")));
            }
        };
        let Some(answer) = answer else { return self.note("never answered") };
        match (answer.value.get("result"), answer.value.get("error")) {
            (Some(answer), _) => self.done(&told(answer), json!({"x-answer": answer})),
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
                self.link.answer(&self.out, &json!({"jsonrpc": "2.0", "id": self.id, "result": result}));
            }
            (Some(back), Some(answers)) if *back == state => match answers.get("the question") {
                Some(answer) => self.done(&told(answer), json!({"x-answer": answer})),
                None => self.fail(-32602, "the answer is missing"),
            },
            (state, answers) => self.fail(-32602, &format!("not what was asked: {state:?} {answers:?}")),
        }
    }
}

/// What an answer says.
fn told(answer: &Value) -> String {
    match (&answer["action"], &answer["content"], &answer["roots"]) {
        (Value::String(action), content, _) => {
            format!("{action} {}", content["name"].as_str().unwrap_or_default())
        }
        (_, Value::Null, roots) => roots[0]["uri"].as_str().unwrap_or_default().to_owned(),
        (_, content, _) => content["text"].as_str().unwrap_or_default().to_owned(),
    }
}

/// The method, the capability it needs, and the params of a question.
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

/// What no revision knows.
pub(crate) const SAYING: &str = "notifications/x-unknown";
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
