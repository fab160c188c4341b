//! Transcripts of our client: what an application does, what the client must say, and what a scripted server says to it.
//!
//! As in transcripts of our server, `>` is said to our side and `<` is heard from it.
//!
//! ```text
//! # what it shows
//! on: 2025-06-18 2026-07-28        (or: all, handshake, stateless)
//! over: stdio                      (where it means something only there; otherwise it is played over http and sse too)
//! raw                              (the client is not connected beforehand, nothing is added and nothing left out)
//! client: forms {"name":"Kiku"}    (a setting of the client)
//! do: call ask {"x":1}
//! < {"id":"$a","method":"tools/call","params":{"name":"ask","arguments":{"x":1}}}
//! <[http 2026-07-28] Mcp-Name: ask
//! > {"id":"$a","result":{"content":[{"type":"text","text":"done"}]}}
//! = "done"
//! < (nothing)
//! ```
//!
//! A line that is marked for revisions or transports is there only for them; `do[handshake]: …` too. `jsonrpc` may be
//! left out. `"$a"` is whatever stands there the first time, and the same from then on; `"$_"` is anything, `"$revision"`
//! the revision. Unless the transcript is raw, a client is connected first that speaks this one revision, what every
//! request may carry (a token for progress, and on 2026-07-28 what a client says of itself) is compared only if the line
//! speaks of it, and results of 2026-07-28 get what they cannot be without, but for those in lines marked with the name
//! of the revision.
//!
//! - `client:` `forms CONTENT|decline|cancel`, `pages open|decline|cancel`, `samples TEXT|no`, `roots URI…`,
//!   `logs LEVEL`, `changes`, `speaks all|REVISION…`, `probe MILLISECONDS`, `rounds N`.
//! - `do:` begins `connect`, `list tools|prompts|resources|templates`, `call MCP_NAME ARGUMENTS`,
//!   `hurry MILLISECONDS MCP_NAME ARGUMENTS` (a call that waits no longer), `check MCP_NAME ARGUMENTS` (one whose result is checked
//!   against the schema of the tool), `read URI`, `prompt MCP_NAME ARGUMENTS`, `complete PARAMS`, `level LEVEL`, `ping`,
//!   `subscribe URI`, `unsubscribe URI`, `tell-roots`, `ask MCP_METHOD PARAMS`, `listen tools|prompts|resources|URI…`, `close`;
//!   and does `unlisten` and `drop` (the call begun last) at once.
//! - `= VALUE` and `! FAILURE` are what came of what was begun first. `* …` is what the application is told: `progress`,
//!   `log`, `change`, `form`, `page`, `sample`.
//! - `< (nothing)` is proven by a fence: another request, whose message must be the next. `< (end)` is the end of a
//!   child's stdin, `< DELETE` that of a session, `< GET` a stream that is taken up again, `< Name: value` a header of
//!   what was heard last, over HTTP; `(none)` for one that is not there. On 2026-07-28 a cancellation over HTTP is the
//!   close of the stream.
//! - `> 400 {…}` gives the status that goes with a message over HTTP, `> 404` is a status and nothing else.
//!   `> (break)` ends the child, or every stream over HTTP; `> (noise) …` is a line that is no message, `> (prime 7 20)`
//!   an event with an id and a time to come back after, and no message.
//!
//! Over HTTP everything is played twice, with answers as JSON and as events. Each message of the client is judged by the
//! official schema of the revision, and its headers by `http.rs`. In the end the client is closed, nothing may be left
//! that was not heard, and a session must have been ended.

mod app;
mod http;
mod matching;
mod wire;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::{Value, json};
use tsugite_core::revision::Revision;

use super::{Mark, PATIENCE, Place, Transport};
use crate::official;
use app::{App, Outcome};
use matching::{CAPABILITIES, INFO, Names, VERSION, dress, undress};
use wire::{Headers, Heard, Wire};

/// A transcript of a client.
#[derive(Debug)]
pub struct ClientTranscript {
    played: Mark,
    raw: bool,
    settings: Vec<String>,
    /// With the number of the line each stands on.
    steps: Vec<(usize, Mark, Step)>,
}

#[derive(Debug)]
enum Step {
    Do(String),
    Hear(Value),
    Nothing,
    End,
    Method(String),
    Header(String, String),
    Say(Option<u16>, Value),
    Refuse(u16),
    Break,
    Noise(String),
    Prime(String, String),
    Outcome(Result<Value, String>),
    Told(String),
}

impl ClientTranscript {
    /// Reads a transcript. Fails naming the line that is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut transcript =
            Self { played: Mark::none(), raw: false, settings: Vec::new(), steps: Vec::new() };
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            transcript.line(number, line.trim()).map_err(|error| format!("line {number}: {error}"))?;
        }
        if transcript.played.revisions.is_empty() {
            return Err("no `on:` line says for which revisions it is".to_owned());
        }
        Ok(transcript)
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line == "raw" {
            self.raw = true;
        } else if let Some(names) = line.strip_prefix("on:").or_else(|| line.strip_prefix("over:")) {
            self.played.add(names)?;
        } else if let Some(setting) = line.strip_prefix("client:") {
            self.settings.push(setting.trim().to_owned());
        } else {
            let kind = ["do", "<", ">", "=", "!", "*"].into_iter().find(|kind| line.starts_with(kind));
            let kind = kind.ok_or_else(|| format!("what is {line:?}"))?;
            let mut mark = Mark::none();
            let rest = line.strip_prefix(kind).unwrap_or_default();
            let rest = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                Some((names, rest)) => {
                    mark.add(names)?;
                    rest
                }
                None => rest,
            };
            self.steps.push((number, mark, step(kind, rest.trim())?));
        }
        Ok(())
    }

    /// Where it is played: each revision it is for, over each transport that carries it; `true` for answers as events.
    pub fn places(&self) -> Vec<(Place, bool)> {
        let transports = [
            (Transport::Stdio, false),
            (Transport::Http, false),
            (Transport::Http, true),
            (Transport::Sse, false),
        ];
        let all = transports
            .into_iter()
            .flat_map(|(transport, events)| Revision::ALL.map(|revision| ((transport, revision), events)));
        all.filter(|(place, _)| place.0.carries(place.1) && self.played.has(*place)).collect()
    }

    /// Plays it; `program` is the server for stdio. Fails saying which line went otherwise.
    pub async fn play(&self, place: Place, events: bool, program: &str) -> Result<(), String> {
        let mut play = Play::new(place, self.raw);
        let (mut wire, connecting) = Wire::new(place.0, events, program).await?;
        let mut connecting = Some(connecting);
        let mut at = "the handshake".to_owned();
        let steps = async {
            if !self.raw {
                play.app.connect(connecting.take().ok_or("connected already")?, place.1, &self.settings)?;
                let logs = self.settings.iter().any(|setting| setting.starts_with("logs"));
                play.open(&mut wire, logs).await?;
            }
            for (number, mark, step) in &self.steps {
                at = format!("line {number}");
                match step {
                    _ if !mark.has(place) => {}
                    Step::Do(action) if action == "connect" => {
                        let connecting = connecting.take().ok_or("connected already")?;
                        play.app.connect(connecting, place.1, &self.settings)?;
                    }
                    step => play.step(&mut wire, mark, step).await?,
                }
            }
            "the end".clone_into(&mut at);
            play.end(&mut wire).await
        };
        // A client that stays silent must fail the test, not hang it.
        match tokio::time::timeout(PATIENCE, steps).await {
            Ok(result) => result.map_err(|error| format!("{at}: {error}")),
            Err(_) => Err(format!("{at}: silence")),
        }
    }
}

fn step(kind: &str, text: &str) -> Result<Step, String> {
    let json = |text: &str| serde_json::from_str::<Value>(text).map_err(|error| format!("{text}: {error}"));
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    Ok(match kind {
        "do" => Step::Do(text.strip_prefix(':').ok_or("`do:` has a colon")?.trim().to_owned()),
        "=" => Step::Outcome(Ok(json(text)?)),
        "!" => Step::Outcome(Err(text.to_owned())),
        "*" => Step::Told(text.to_owned()),
        "<" => match text {
            "(nothing)" => Step::Nothing,
            "(end)" => Step::End,
            "GET" | "DELETE" => Step::Method(text.to_owned()),
            _ if text.starts_with(['{', '[']) => Step::Hear(json(text)?),
            _ => {
                let (name, value) = text.split_once(": ").ok_or_else(|| format!("what is {text:?}"))?;
                Step::Header(name.to_owned(), value.to_owned())
            }
        },
        _ => match first {
            "(break)" => Step::Break,
            "(noise)" => Step::Noise(rest.to_owned()),
            "(prime" => {
                let (id, retry) = rest.trim_end_matches(')').split_once(' ').ok_or("an id and a time")?;
                Step::Prime(id.to_owned(), retry.to_owned())
            }
            _ => match first.parse() {
                Ok(status) if rest.is_empty() => Step::Refuse(status),
                Ok(status) => Step::Say(Some(status), json(rest)?),
                Err(_) => Step::Say(None, json(text)?),
            },
        },
    })
}

/// A transcript that is being played.
struct Play {
    app: App,
    place: Place,
    raw: bool,
    names: Names,
    /// The requests of the client, by id.
    asked: HashMap<String, String>,
    /// Those of the server.
    asks: HashMap<String, String>,
    ids: HashSet<String>,
    tokens: HashSet<String>,
    headers: Headers,
    /// The revision that was agreed on.
    revision: Revision,
    ended: bool,
    fences: usize,
}

impl Play {
    fn new(place: Place, raw: bool) -> Self {
        let mut names = Names::default();
        names.set("$revision", json!(place.1.as_str()));
        Self {
            app: App::new(),
            place,
            raw,
            names,
            asked: HashMap::new(),
            asks: HashMap::new(),
            ids: HashSet::new(),
            tokens: HashSet::new(),
            headers: Headers::default(),
            revision: place.1,
            ended: false,
            fences: 0,
        }
    }

    /// The handshake, where there is one.
    async fn open(&mut self, wire: &mut Wire, logs: bool) -> Result<(), String> {
        if !self.place.1.is_stateless() {
            let hello = json!({"id": "$hello", "method": "initialize", "params": {
                "protocolVersion": "$revision", "capabilities": "$_", "clientInfo": {"name": "transcript", "version": "1"},
            }});
            self.hear(wire, &hello).await?;
            let offers = json!({
                "tools": {"listChanged": true}, "prompts": {"listChanged": true}, "logging": {},
                "resources": {"listChanged": true, "subscribe": true}, "completions": {},
            });
            let answer = json!({"id": "$hello", "result": {
                "protocolVersion": "$revision", "capabilities": offers,
                "serverInfo": {"name": "script", "version": "1"},
            }});
            self.say(wire, &answer, None, true).await?;
            self.hear(wire, &json!({"method": "notifications/initialized"})).await?;
            if logs {
                let level = json!({"id": "$level", "method": "logging/setLevel", "params": {"level": "$_"}});
                self.hear(wire, &level).await?;
                self.say(wire, &json!({"id": "$level", "result": {}}), None, true).await?;
            }
        }
        match self.outcome(wire).await? {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("the client does not connect: {error}")),
        }
    }

    async fn outcome(&mut self, wire: &mut Wire) -> Result<Outcome, String> {
        tokio::select! {
            outcome = self.app.outcome() => outcome,
            () = wire.listen() => Err("nobody listens".to_owned()),
        }
    }

    async fn step(&mut self, wire: &mut Wire, mark: &Mark, step: &Step) -> Result<(), String> {
        match step {
            Step::Do(action) => self.app.act(action).await,
            Step::Hear(expected) => self.hear(wire, expected).await,
            Step::Nothing => self.nothing(wire).await,
            Step::End => match self.next(wire).await? {
                Heard::End => {
                    self.ended = true;
                    Ok(())
                }
                heard => Err(format!("expected the end\n   heard {heard:?}")),
            },
            Step::Method(expected) => match self.next(wire).await? {
                Heard::Method(method, headers) if method == *expected => {
                    self.ended |= method == "DELETE";
                    self.headers = headers;
                    Ok(())
                }
                heard => Err(format!("expected {expected}\n   heard {heard:?}")),
            },
            Step::Header(..) if !matches!(self.place.0, Transport::Http) => Ok(()),
            Step::Header(name, expected) => match self.headers.get(name).unwrap_or("(none)") {
                heard if heard == expected => Ok(()),
                heard => Err(format!("expected the header {name}: {expected}\n   heard {heard}")),
            },
            Step::Say(status, message) => self.say(wire, message, *status, self.raw || mark.by_name).await,
            Step::Refuse(status) => {
                self.ids.clear();
                self.tokens.clear();
                wire.posts()?.refuse(*status)
            }
            Step::Break => {
                self.ids.clear();
                self.tokens.clear();
                wire.break_off().await
            }
            Step::Noise(line) => wire.noise(line).await,
            Step::Prime(id, retry) => wire.posts()?.prime(id, retry),
            Step::Outcome(expected) => {
                let outcome = self.outcome(wire).await?;
                let fits = match (expected, &outcome) {
                    (Ok(expected), Ok(outcome)) => self.names.fits(expected, outcome),
                    (expected, outcome) => expected == outcome,
                };
                if fits { Ok(()) } else { Err(format!("expected {expected:?}\n   came {outcome:?}")) }
            }
            Step::Told(expected) => match self.app.told().await {
                told if told == *expected => Ok(()),
                told => Err(format!("expected to be told {expected:?}\n   was told {told:?}")),
            },
        }
    }

    /// What the client does next. Up to 2025-11-25 a stream that is closed means nothing.
    async fn next(&mut self, wire: &mut Wire) -> Result<Heard, String> {
        loop {
            match wire.next().await? {
                Heard::Closed(_) if !self.revision.is_stateless() => {}
                heard => return Ok(heard),
            }
        }
    }

    async fn hear(&mut self, wire: &mut Wire, expected: &Value) -> Result<(), String> {
        let message = match self.next(wire).await? {
            Heard::Message(message, headers) => {
                self.headers = headers;
                message
            }
            // 2026-07-28 over HTTP: closing its stream is how a request is cancelled.
            Heard::Closed(id) => {
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
            }
            other => return Err(format!("expected {expected}\n   heard {other:?}")),
        };
        self.judge(&message)?;
        let (mut heard, mut expected) = (message.clone(), expected.clone());
        if let Value::Object(members) = &mut expected {
            members.entry("jsonrpc").or_insert(json!("2.0"));
        }
        undress(&mut heard, &expected, self.raw);
        // Why something is cancelled is for a log.
        if heard.get("method") == Some(&json!("notifications/cancelled"))
            && let Some(params) = heard.get_mut("params").and_then(Value::as_object_mut)
        {
            params.remove("reason");
        }
        match self.names.fits(&expected, &heard) {
            true => Ok(()),
            false => {
                let expected = self.names.filled(&expected).unwrap_or(expected);
                Err(format!("expected {expected}\n   heard {heard}"))
            }
        }
    }

    /// What is true of every message of a client, whatever the transcript says.
    fn judge(&mut self, message: &Value) -> Result<(), String> {
        if message.get("jsonrpc") != Some(&json!("2.0")) {
            return Err(format!("a message without its version: {message}"));
        }
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            return self.judge_answer(message);
        };
        let claims = message.pointer("/params/_meta").filter(|meta| meta.get(VERSION).is_some());
        let named = match method {
            "initialize" => message.pointer("/params/protocolVersion"),
            _ => claims.and_then(|claims| claims.get(VERSION)),
        };
        let named: Option<Revision> = named.and_then(Value::as_str).and_then(|name| name.parse().ok());
        let revision = named.unwrap_or(self.revision);
        if let Some(id) = message.get("id") {
            if !(id.is_i64() || id.is_string()) || !self.ids.insert(id.to_string()) {
                return Err(format!("an id that is used twice, or is none: {message}"));
            }
            self.asked.insert(id.to_string(), method.to_owned());
            if let Some(token) = message.pointer("/params/_meta/progressToken")
                && !self.tokens.insert(token.to_string())
            {
                return Err(format!("a token for progress that is used twice: {message}"));
            }
            match (revision.is_stateless(), claims) {
                (true, Some(claims)) if claims.get(CAPABILITIES).is_some() && claims.get(INFO).is_some() => {}
                (false, None) => {}
                _ => return Err(format!("what the client says of itself is no {revision}: {message}")),
            }
        }
        if method == FENCE { Ok(()) } else { official::judge(revision, message) }
    }

    fn judge_answer(&mut self, message: &Value) -> Result<(), String> {
        let id = message.get("id").map(Value::to_string).unwrap_or_default();
        let method = self.asks.remove(&id).ok_or_else(|| format!("nobody asked for {message}"))?;
        match message.get("result") {
            Some(result) => official::judge_answer(self.revision, &method, result),
            None if message.get("error").is_some() => Ok(()),
            None => Err(format!("neither result nor error: {message}")),
        }
    }

    /// Says something; `as_it_is` without what 2026-07-28 adds.
    async fn say(
        &mut self,
        wire: &mut Wire,
        message: &Value,
        status: Option<u16>,
        as_it_is: bool,
    ) -> Result<(), String> {
        let mut message = self.names.filled(message)?;
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
                    self.asks.insert(id, method.to_owned());
                }
                None => {
                    let method = self.asked.remove(&id);
                    if let Some(agreed) = one.pointer("/result/protocolVersion").and_then(Value::as_str) {
                        self.revision = agreed.parse().unwrap_or(self.revision);
                    }
                    if !as_it_is && self.revision.is_stateless() {
                        dress(one, method.as_deref());
                    }
                }
            }
        }
        wire.say(&message, status).await
    }

    /// That the client says nothing: what it is asked now is answered next, or what it is made to ask is heard next.
    async fn nothing(&mut self, wire: &mut Wire) -> Result<(), String> {
        if !self.revision.is_stateless() {
            self.fences += 1;
            let id = format!("fence {}", self.fences);
            self.say(wire, &json!({"id": id, "method": "ping"}), None, true).await?;
            return self.hear(wire, &json!({"id": id, "result": {}})).await;
        }
        // The second leaves after all that was said before the first was answered has been heard.
        for _ in 0..2 {
            let client = self.app.client()?;
            let asking = tokio::spawn(async move { client.request_raw(FENCE, None).await.map(drop) });
            let id = match self.next(wire).await? {
                Heard::Message(asked, _) if asked.get("method") == Some(&json!(FENCE)) => {
                    asked.get("id").cloned()
                }
                heard => return Err(format!("expected nothing\n   heard {heard:?}")),
            };
            self.say(wire, &json!({"id": id, "result": {"resultType": "complete"}}), None, true).await?;
            let answered = asking.await.map_err(|error| error.to_string())?;
            answered.map_err(|error| format!("the fence fell: {error}"))?;
        }
        Ok(())
    }

    /// The client is closed, and nothing is left.
    async fn end(&mut self, wire: &mut Wire) -> Result<(), String> {
        let client = self.app.client();
        self.app.has_ended()?;
        let Ok(client) = client else { return Ok(()) };
        let in_session = match wire {
            Wire::Pipe(_) => !self.ended,
            Wire::Http(posts) => posts.has_session(),
        };
        let closing = tokio::spawn(async move { client.close().await });
        let mut left = in_session;
        while left {
            match wire.next().await? {
                Heard::End => left = false,
                Heard::Method(method, _) if method == "DELETE" => left = false,
                Heard::Closed(_) => {}
                heard => return Err(format!("in the end nobody had heard {heard:?}")),
            }
        }
        closing.await.map_err(|error| error.to_string())?;
        // What was sent before the end has arrived by now.
        if let Wire::Http(_) = wire {
            while let Ok(heard) = tokio::time::timeout(Duration::ZERO, wire.next()).await {
                let Heard::Closed(_) = heard? else { return Err("something came after the end".to_owned()) };
            }
        }
        self.app.has_ended()
    }
}

const FENCE: &str = "fence";
