//! Transcripts of our client: actions of an application, messages of the client, and messages of a scripted server.
//!
//! As in transcripts of our server, `>` is sent to our side and `<` is received from it.
//!
//! ```text
//! # what it shows
//! on: 2025-06-18 2026-07-28        (or: all, handshake, stateless)
//! over: stdio                      (only where it means something else elsewhere; default: http and sse too)
//! paused                           (over a pipe in the process, by a test whose clock is paused)
//! raw                              (the client is not connected beforehand, nothing is added or ignored)
//! client: forms {"name":"Kiku"}    (a setting of the client)
//! do: call ask {"x":1}
//! < {"id":"$a","method":"tools/call","params":{"name":"ask","arguments":{"x":1}}}
//! <[http 2026-07-28] Mcp-Name: ask
//! > {"id":"$a","result":{"content":[{"type":"text","text":"done"}]}}
//! = "done"
//! < (nothing)
//! ```
//!
//! A line marked for revisions or transports applies only there; `do[handshake]: …` too. `jsonrpc` may be left out.
//! `"$a"` stands for any value the first time and for the same value from then on; `"$_"` stands for any value,
//! `"$revision"` for the revision of the run. Unless the transcript is raw:
//!
//! - a client of this one revision is connected first;
//! - members that every request may have (a progress token, and the client's `_meta` keys on 2026-07-28) are compared
//!   only if the line contains them;
//! - results of 2026-07-28 get their required members, except in lines marked with the name of the revision.
//!
//! The lines:
//!
//! - `client:` `forms CONTENT|decline|cancel`, `pages open|decline|cancel`, `samples TEXT|no`, `roots URI…`,
//!   `logs LEVEL`, `changes`, `speaks all|REVISION…`, `probe MILLISECONDS`, `rounds N`, `tasks`, or `tasks offered` if the
//!   server offers them, too (2025-11-25).
//! - `do:` starts `connect`, `list tools|prompts|resources|templates`, `call NAME ARGUMENTS`,
//!   `hurry MILLISECONDS NAME ARGUMENTS` (a call with this timeout), `task NAME ARGUMENTS` (a call that asks for a task),
//!   `follow ID` (of a task), `cancel-task ID`, `check NAME ARGUMENTS` (a call whose result is validated with the output schema), `read URI`, `prompt NAME ARGUMENTS`, `complete PARAMS`, `level LEVEL`, `ping`,
//!   `subscribe URI`, `unsubscribe URI`, `tell-roots`, `ask METHOD PARAMS`, `listen tools|prompts|resources|URI…`,
//!   `close`; it performs `unlisten` and `drop` (of the last call) at once.
//! - `= VALUE` and `! FAILURE` are the outcome of the oldest action. `* …` is an event for the application: `progress`,
//!   `log`, `change`, `form`, `page`, `sample`, `task`.
//! - `< (nothing)` is proven by a fence: another request, whose message must be the next. `< (end)` is the end of a
//!   child's stdin, `< DELETE` the end of a session, `< GET` the resumption of a stream, `< Name: value` a header of
//!   the last received message over HTTP, with `(none)` for a missing one. On 2026-07-28 over HTTP a cancellation is
//!   the close of the stream.
//! - `> 400 {…}` sets the status of a message over HTTP, `> 404` is only a status. `> (break)` ends the child, or every
//!   stream over HTTP; `> (noise) …` is a line that is not a message, `> (prime 7 20)` an event with an id and a
//!   reconnection time and no message.
//! - `after: 40000` says that the line before it was waited for exactly so many milliseconds of the paused clock, which
//!   goes on only when the client has nothing to do but to wait.
//!
//! Over HTTP everything runs twice, with responses as JSON and as events. Each message of the client is validated with
//! the official schema of the revision, and its headers by `scripted_http.rs`. At the end the client is closed; no
//! message may be left, and a session must have been deleted.

mod app;
mod matching;
mod scripted_http;
mod scripted_server;
mod step;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tsugite_core::revision::Revision;

use super::matching::Bindings;
use super::{Condition, RUN_TIMEOUT, RunConfig, Transport};
use crate::spec_schema;
use app::{ActionResult, Application};
use matching::{
    META_CLIENT_CAPABILITIES, META_CLIENT_INFO, META_PROTOCOL_VERSION, add_required_result_fields,
    strip_client_meta,
};
use scripted_server::{ClientAction, Headers, ScriptedServer};
use step::ClientStep;

/// A transcript of a client.
#[derive(Debug)]
pub struct ClientTranscript {
    condition: Condition,
    raw: bool,
    /// Whether the clock of its test is paused.
    paused: bool,
    settings: Vec<String>,
    /// The steps, with their line numbers.
    steps: Vec<(usize, Condition, ClientStep)>,
}

impl ClientTranscript {
    /// Parses a transcript. An error names the line it is about.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut transcript = Self {
            condition: Condition::always(),
            raw: false,
            paused: false,
            settings: Vec::new(),
            steps: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            transcript.parse_line(number, line.trim()).map_err(|error| format!("line {number}: {error}"))?;
        }
        if transcript.condition.revisions.is_empty() {
            return Err("no `on:` line says for which revisions it is".to_owned());
        }
        Ok(transcript)
    }

    fn parse_line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line == "raw" {
            self.raw = true;
        } else if line == "paused" {
            self.paused = true;
        } else if let Some(names) = line.strip_prefix("on:").or_else(|| line.strip_prefix("over:")) {
            self.condition.add(names)?;
        } else if let Some(setting) = line.strip_prefix("client:") {
            self.settings.push(setting.trim().to_owned());
        } else {
            let kind =
                ["do", "<", ">", "=", "!", "*", "after"].into_iter().find(|kind| line.starts_with(kind));
            let kind = kind.ok_or_else(|| format!("what is {line:?}"))?;
            let mut mark = Condition::always();
            let rest = line.strip_prefix(kind).unwrap_or_default();
            let rest = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                Some((names, rest)) => {
                    mark.add(names)?;
                    rest
                }
                None => rest,
            };
            self.steps.push((number, mark, ClientStep::parse(kind, rest.trim())?));
        }
        Ok(())
    }

    /// The runs of it: each of its revisions over each transport that carries them; `true` for responses as events.
    pub fn run_configs(&self) -> Vec<(RunConfig, bool)> {
        let sockets = [
            (Transport::Stdio, false),
            (Transport::Http, false),
            (Transport::Http, true),
            (Transport::Sse, false),
        ];
        // A paused clock would go on while a socket or a child is waited for.
        let transports = if self.paused { &[(Transport::Memory, false)][..] } else { &sockets };
        let all = transports
            .iter()
            .flat_map(|(transport, events)| Revision::ALL.map(|revision| ((*transport, revision), *events)));
        all.filter(|(place, _)| place.0.supports(place.1) && self.condition.matches(*place)).collect()
    }

    /// Runs it; `program` is the server for stdio. An error names the line that failed.
    pub async fn run(&self, place: RunConfig, events: bool, program: &str) -> Result<(), String> {
        let mut play = ClientRun::new(place, self.raw);
        let (mut wire, connecting) = ScriptedServer::new(place.0, events, program).await?;
        let mut connecting = Some(connecting);
        let mut at = "the handshake".to_owned();
        let steps = async {
            if !self.raw {
                play.app.connect(connecting.take().ok_or("connected already")?, place.1, &self.settings)?;
                let logs = self.settings.iter().any(|setting| setting.starts_with("logs"));
                let tasks = self.settings.iter().any(|setting| setting == "tasks offered");
                play.handshake(&mut wire, logs, tasks).await?;
            }
            for (number, mark, step) in &self.steps {
                at = format!("line {number}");
                match step {
                    _ if !mark.matches(place) => {}
                    ClientStep::Action(action) if action == "connect" => {
                        let connecting = connecting.take().ok_or("connected already")?;
                        play.app.connect(connecting, place.1, &self.settings)?;
                    }
                    step => {
                        let begun = Instant::now();
                        play.run_step(&mut wire, mark, step).await?;
                        play.waited = begun.elapsed();
                    }
                }
            }
            "the end".clone_into(&mut at);
            play.finish(&mut wire).await
        };
        // A client that stays silent must fail the test, not hang it.
        let limit = if self.paused { PAUSED_RUN_TIMEOUT } else { RUN_TIMEOUT };
        match tokio::time::timeout(limit, steps).await {
            Ok(result) => result.map_err(|error| format!("{at}: {error}")),
            Err(_) => Err(format!("{at}: no message")),
        }
    }
}

/// A transcript while it runs.
struct ClientRun {
    app: Application,
    config: RunConfig,
    raw: bool,
    bindings: Bindings,
    /// The requests of the client, by id.
    client_requests: HashMap<String, String>,
    /// The requests of the server, by id.
    server_requests: HashMap<String, String>,
    ids: HashSet<String>,
    tokens: HashSet<String>,
    headers: Headers,
    /// How long the last line was waited for.
    waited: Duration,
    /// The negotiated revision.
    revision: Revision,
    ended: bool,
    fences: usize,
}

impl ClientRun {
    fn new(config: RunConfig, raw: bool) -> Self {
        let mut bindings = Bindings::default();
        bindings.bind("$revision", json!(config.1.as_str()));
        Self {
            app: Application::new(),
            config,
            raw,
            bindings,
            client_requests: HashMap::new(),
            server_requests: HashMap::new(),
            ids: HashSet::new(),
            tokens: HashSet::new(),
            headers: Headers::default(),
            waited: Duration::ZERO,
            revision: config.1,
            ended: false,
            fences: 0,
        }
    }

    /// Makes the handshake, if the revision has one.
    async fn handshake(&mut self, wire: &mut ScriptedServer, logs: bool, tasks: bool) -> Result<(), String> {
        if !self.config.1.is_stateless() {
            let hello = json!({"id": "$hello", "method": "initialize", "params": {
                "protocolVersion": "$revision", "capabilities": "$_", "clientInfo": {"name": "transcript", "version": "1"},
            }});
            self.receive(wire, &hello).await?;
            let mut offers = json!({
                "tools": {"listChanged": true}, "prompts": {"listChanged": true}, "logging": {},
                "resources": {"listChanged": true, "subscribe": true}, "completions": {},
            });
            if let Some(offers) = offers.as_object_mut().filter(|_| tasks) {
                let offered = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
                offers.insert("tasks".to_owned(), offered);
            }
            let answer = json!({"id": "$hello", "result": {
                "protocolVersion": "$revision", "capabilities": offers,
                "serverInfo": {"name": "script", "version": "1"},
            }});
            self.send(wire, &answer, None, true).await?;
            self.receive(wire, &json!({"method": "notifications/initialized"})).await?;
            if logs {
                let level = json!({"id": "$level", "method": "logging/setLevel", "params": {"level": "$_"}});
                self.receive(wire, &level).await?;
                self.send(wire, &json!({"id": "$level", "result": {}}), None, true).await?;
            }
        }
        match self.next_outcome(wire).await? {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("the client does not connect: {error}")),
        }
    }

    async fn next_outcome(&mut self, wire: &mut ScriptedServer) -> Result<ActionResult, String> {
        tokio::select! {
            outcome = self.app.next_outcome() => outcome,
            () = wire.drive() => Err("the server has stopped".to_owned()),
        }
    }

    async fn run_step(
        &mut self,
        wire: &mut ScriptedServer,
        mark: &Condition,
        step: &ClientStep,
    ) -> Result<(), String> {
        match step {
            ClientStep::ExpectWait(time) => self.expect_wait(*time),
            ClientStep::Action(action) => self.app.run_action(action).await,
            ClientStep::Receive(expected) => self.receive(wire, expected).await,
            ClientStep::ExpectNothing => self.expect_nothing(wire).await,
            ClientStep::ExpectEof => match self.next_action(wire).await? {
                ClientAction::Eof => {
                    self.ended = true;
                    Ok(())
                }
                heard => Err(format!("expected the end\n   heard {heard:?}")),
            },
            ClientStep::ExpectHttpMethod(expected) => match self.next_action(wire).await? {
                ClientAction::HttpMethod(method, headers) if method == *expected => {
                    self.ended |= method == "DELETE";
                    self.headers = headers;
                    Ok(())
                }
                heard => Err(format!("expected {expected}\n   heard {heard:?}")),
            },
            ClientStep::ExpectHeader(..) if !matches!(self.config.0, Transport::Http) => Ok(()),
            ClientStep::ExpectHeader(name, expected) => match self.headers.get(name).unwrap_or("(none)") {
                heard if heard == expected => Ok(()),
                heard => Err(format!("expected the header {name}: {expected}\n   heard {heard}")),
            },
            ClientStep::Send(status, message) => {
                self.send(wire, message, *status, self.raw || mark.names_revision).await
            }
            ClientStep::Reject(status) => {
                self.ids.clear();
                self.tokens.clear();
                wire.http_server()?.reject(*status)
            }
            ClientStep::Disconnect => {
                self.ids.clear();
                self.tokens.clear();
                wire.disconnect().await
            }
            ClientStep::SendNoise(line) => wire.send_noise(line).await,
            ClientStep::SendPriming(id, retry) => wire.http_server()?.send_priming_event(id, retry),
            ClientStep::ExpectOutcome(expected) => {
                let outcome = self.next_outcome(wire).await?;
                let fits = match (expected, &outcome) {
                    (Ok(expected), Ok(outcome)) => self.bindings.matches(expected, outcome),
                    (expected, outcome) => expected == outcome,
                };
                if fits { Ok(()) } else { Err(format!("expected {expected:?}\n   came {outcome:?}")) }
            }
            ClientStep::ExpectEvent(expected) => match self.app.next_event().await {
                told if told == *expected => Ok(()),
                told => Err(format!("expected the event {expected:?}\n   got {told:?}")),
            },
        }
    }

    /// Checks how long the last line was waited for.
    fn expect_wait(&self, time: Duration) -> Result<(), String> {
        match (self.config.0, self.waited) {
            (Transport::Memory, waited) if waited == time => Ok(()),
            (Transport::Memory, waited) => Err(format!("it came after {waited:?}, not after {time:?}")),
            _ => Err("`after:` needs a paused clock".to_owned()),
        }
    }

    /// The next action of the client. Up to 2025-11-25 a closed stream is ignored.
    async fn next_action(&mut self, wire: &mut ScriptedServer) -> Result<ClientAction, String> {
        loop {
            match wire.next().await? {
                ClientAction::StreamClosed(_) if !self.revision.is_stateless() => {}
                heard => return Ok(heard),
            }
        }
    }

    async fn receive(&mut self, wire: &mut ScriptedServer, expected: &Value) -> Result<(), String> {
        let message = match self.next_action(wire).await? {
            ClientAction::Message(message, headers) => {
                self.headers = headers;
                message
            }
            // 2026-07-28 over HTTP: closing its stream is how a request is cancelled.
            ClientAction::StreamClosed(id) => {
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
            }
            other => return Err(format!("expected {expected}\n   heard {other:?}")),
        };
        self.validate(&message)?;
        let (mut heard, mut expected) = (message.clone(), expected.clone());
        if let Value::Object(members) = &mut expected {
            members.entry("jsonrpc").or_insert(json!("2.0"));
        }
        strip_client_meta(&mut heard, &expected, self.raw);
        // The reason of a cancellation is only for logs.
        if heard.get("method") == Some(&json!("notifications/cancelled"))
            && let Some(params) = heard.get_mut("params").and_then(Value::as_object_mut)
        {
            params.remove("reason");
        }
        match self.bindings.matches(&expected, &heard) {
            true => Ok(()),
            false => {
                let expected = self.bindings.substitute(&expected).unwrap_or(expected);
                Err(format!("expected {expected}\n   heard {heard}"))
            }
        }
    }

    /// Checks the rules for every message of a client, whatever the transcript expects.
    fn validate(&mut self, message: &Value) -> Result<(), String> {
        if message.get("jsonrpc") != Some(&json!("2.0")) {
            return Err(format!("a message without `jsonrpc`: {message}"));
        }
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            return self.validate_response(message);
        };
        let claims =
            message.pointer("/params/_meta").filter(|meta| meta.get(META_PROTOCOL_VERSION).is_some());
        let named = match method {
            "initialize" => message.pointer("/params/protocolVersion"),
            _ => claims.and_then(|claims| claims.get(META_PROTOCOL_VERSION)),
        };
        let named: Option<Revision> = named.and_then(Value::as_str).and_then(|name| name.parse().ok());
        let revision = named.unwrap_or(self.revision);
        if let Some(id) = message.get("id") {
            if !(id.is_i64() || id.is_string()) || !self.ids.insert(id.to_string()) {
                return Err(format!("an invalid id, or one that is used twice: {message}"));
            }
            self.client_requests.insert(id.to_string(), method.to_owned());
            if let Some(token) = message.pointer("/params/_meta/progressToken")
                && !self.tokens.insert(token.to_string())
            {
                return Err(format!("a progress token that is used twice: {message}"));
            }
            match (revision.is_stateless(), claims) {
                (true, Some(claims))
                    if claims.get(META_CLIENT_CAPABILITIES).is_some()
                        && claims.get(META_CLIENT_INFO).is_some() => {}
                (false, None) => {}
                _ => return Err(format!("the protocol version in `_meta` is not {revision}: {message}")),
            }
        }
        match method {
            FENCE => Ok(()),
            // The official schema does not contain the extension.
            _ if revision.has_task_extension() && TASK_METHODS.contains(&method) => {
                spec_schema::validate_definition(revision, "JSONRPCRequest", message)
            }
            _ => spec_schema::validate_message(revision, message),
        }
    }

    fn validate_response(&mut self, message: &Value) -> Result<(), String> {
        let id = message.get("id").map(Value::to_string).unwrap_or_default();
        let method = self
            .server_requests
            .remove(&id)
            .ok_or_else(|| format!("a response without a request: {message}"))?;
        match message.get("result") {
            Some(result) => spec_schema::validate_client_result(self.revision, &method, result),
            None if message.get("error").is_some() => Ok(()),
            None => Err(format!("neither result nor error: {message}")),
        }
    }

    /// Sends a message; with `as_it_is` without the members that 2026-07-28 requires.
    async fn send(
        &mut self,
        wire: &mut ScriptedServer,
        message: &Value,
        status: Option<u16>,
        as_it_is: bool,
    ) -> Result<(), String> {
        let mut message = self.bindings.substitute(message)?;
        let all = match &mut message {
            Value::Array(all) => all.iter_mut().collect(),
            one => vec![one],
        };
        for one in all {
            if let Value::Object(members) = &mut *one {
                members.entry("jsonrpc").or_insert(json!("2.0"));
            }
            let id = one.get("id").map(Value::to_string).unwrap_or_default();
            match one.get("method").and_then(Value::as_str) {
                Some(method) => {
                    self.server_requests.insert(id, method.to_owned());
                }
                None => {
                    let method = self.client_requests.remove(&id);
                    if let Some(agreed) = one.pointer("/result/protocolVersion").and_then(Value::as_str) {
                        self.revision = agreed.parse().unwrap_or(self.revision);
                    }
                    if !as_it_is && self.revision.is_stateless() {
                        add_required_result_fields(one, method.as_deref());
                    }
                }
            }
        }
        wire.send(&message, status).await
    }

    /// Checks that the client sends nothing: the next message must answer, or be, a request sent now.
    async fn expect_nothing(&mut self, wire: &mut ScriptedServer) -> Result<(), String> {
        if !self.revision.is_stateless() {
            self.fences += 1;
            let id = format!("fence {}", self.fences);
            self.send(wire, &json!({"id": id, "method": "ping"}), None, true).await?;
            return self.receive(wire, &json!({"id": id, "result": {}})).await;
        }
        // The second is sent after everything before the first response was received.
        for _ in 0..2 {
            let client = self.app.client()?;
            let asking = tokio::spawn(async move { client.request_raw(FENCE, None).await.map(drop) });
            let id = match self.next_action(wire).await? {
                ClientAction::Message(asked, _) if asked.get("method") == Some(&json!(FENCE)) => {
                    asked.get("id").cloned()
                }
                heard => return Err(format!("expected nothing\n   heard {heard:?}")),
            };
            self.send(wire, &json!({"id": id, "result": {"resultType": "complete"}}), None, true).await?;
            let answered = asking.await.map_err(|error| error.to_string())?;
            answered.map_err(|error| format!("the fence fell: {error}"))?;
        }
        Ok(())
    }

    /// Closes the client and checks that no message is left.
    async fn finish(&mut self, wire: &mut ScriptedServer) -> Result<(), String> {
        let client = self.app.client();
        self.app.ensure_finished()?;
        let Ok(client) = client else { return Ok(()) };
        let in_session = match wire {
            ScriptedServer::Child(_) | ScriptedServer::Pipe(_) => !self.ended,
            ScriptedServer::Http(posts) => posts.has_session(),
        };
        let closing = tokio::spawn(async move { client.close().await });
        let mut left = in_session;
        while left {
            match wire.next().await? {
                ClientAction::Eof => left = false,
                ClientAction::HttpMethod(method, _) if method == "DELETE" => left = false,
                ClientAction::StreamClosed(_) => {}
                heard => return Err(format!("an unexpected message at the end: {heard:?}")),
            }
        }
        closing.await.map_err(|error| error.to_string())?;
        // What was sent before the end has arrived by now.
        if let ScriptedServer::Http(_) = wire {
            while let Ok(heard) = tokio::time::timeout(Duration::ZERO, wire.next()).await {
                let ClientAction::StreamClosed(_) = heard? else {
                    return Err("something came after the end".to_owned());
                };
            }
        }
        self.app.ensure_finished()
    }
}

/// The methods of the extension for tasks.
const TASK_METHODS: [&str; 3] = ["tasks/get", "tasks/update", "tasks/cancel"];

const FENCE: &str = "fence";
/// In the time of a paused clock, which goes on at once when a client stays silent.
const PAUSED_RUN_TIMEOUT: Duration = Duration::from_secs(100_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paused_transcripts_run_in_the_process() {
        let transcript = ClientTranscript::parse("on: 2025-11-25 2026-07-28\npaused\nafter: 40000").unwrap();
        let configs = transcript.run_configs();
        assert!(configs.iter().all(|((transport, _), _)| *transport == Transport::Memory), "{configs:?}");
        assert_eq!(configs.len(), 2);
        let [(_, _, ClientStep::ExpectWait(time))] = &transcript.steps[..] else { panic!("{transcript:?}") };
        assert_eq!(*time, Duration::from_secs(40));
        assert!(ClientTranscript::parse("on: all\nafter: long").is_err());
    }
}
