//! Transcripts of a server: the lines a client sends and the lines it must receive, as a text file.
//!
//! ```text
//! # JRPC-018: what it shows, and the requirements it proves
//! on: 2025-06-18 2026-07-28        (or: all, handshake, stateless)
//! over: memory stdio               (only where it means something else elsewhere; default: http and sse too)
//! server: curious                  (a server of `fixture`; default: `basic`)
//! client: {"elicitation":{}}       (the capabilities the client declares; default: none)
//! bridge: same                     (across a bridge it holds only between equal revisions; `tasks`: to those that have
//!                                  tasks; `no`: not at all)
//! replicas: no                     (not with replicas: it uses items that a handler has added or removed in one of them)
//! raw                              (no handshake is made beforehand and nothing is added to a line)
//! > {"id":1,"method":"tools/call","params":{"name":"add"}}
//! < {"id":1,"result":{"content":[]}}
//! <[2026-07-28] {"id":1,"result":{"resultType":"complete"}}
//! <[handshake http] {"id":1,"result":{"content":[]}}
//! >[handshake] {"id":"$question","result":{"roots":[]}}
//! >* {"id":2,"method":"tasks/get","params":{"taskId":"$task"}}
//! < (nothing)
//! ```
//!
//! - A line marked for revisions or transports is sent or expected only there. `jsonrpc` may be left out.
//! - A line after `>*` is sent again until the response is the next line.
//! - A received message is compared whole. `"$name"` stands for any value the first time and for the same value from
//!   then on, also in lines that are sent; `"$_"` stands for any value, `"$revision"` for the revision of the run.
//!   Inside a string `$#` stands for digits and `$*` for any text.
//! - Unless the transcript is raw, a handshake comes first, or requests get the `_meta` keys of 2026-07-28. The members
//!   that every result carries there (`resultType: "complete"`, the server's name, cache hints) are compared only in
//!   lines marked with the name of a revision.
//! - `(nothing)` is proven by a fence: another request, whose response must be the next message. The end of a transcript
//!   is proven the same way.
//!
//! `streamable_http.rs` says how lines are sent and received over HTTP.

pub mod client;
mod http_sse;
mod matching;
mod server_channel;
mod streamable_http;

pub use server_channel::{ServerChannel, Transport};

use std::time::Duration;

use serde_json::{Value, json};
use tsugite_core::revision::{Revision, Revisions};

use matching::Bindings;

/// A parsed transcript.
#[derive(Debug)]
pub struct Transcript {
    /// The revisions and transports it runs with.
    condition: Condition,
    raw: bool,
    server: String,
    capabilities: Value,
    across_bridge: AcrossBridge,
    with_replicas: bool,
    steps: Vec<TranscriptStep>,
}

/// Whether a transcript also holds if a bridge stands between the client and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AcrossBridge {
    /// Between any two revisions.
    Always,
    /// If both sides speak the same revision: the upstream one lacks something otherwise.
    SameRevision,
    /// To upstream revisions that have tasks, in either form.
    TaskRevisions,
    /// Not at all: it shows something that the bridge decides itself.
    Never,
}

#[derive(Debug)]
enum TranscriptStep {
    Send(Condition, String),
    /// Sends the line until the response is the one of the next step.
    SendUntil(Condition, String),
    Receive(Condition, Value),
    ExpectNothing(Condition),
}

/// The revisions and transports that something applies to; none means all.
#[derive(Debug)]
struct Condition {
    revisions: Revisions,
    transports: Vec<Transport>,
    /// Whether it contains the name of a revision, not only of a group of them.
    names_revision: bool,
}

impl Condition {
    fn always() -> Self {
        Self { revisions: Revisions::NONE, transports: Vec::new(), names_revision: false }
    }

    fn add(&mut self, names: &str) -> Result<(), String> {
        for name in names.split_whitespace() {
            if let Some(transport) = Transport::ALL.into_iter().find(|transport| transport.name() == name) {
                self.transports.push(transport);
                continue;
            }
            self.revisions = match name {
                "all" => Revisions::ALL,
                "handshake" => Revisions::ALL.handshake(),
                "stateless" => Revisions::ALL.stateless(),
                name => {
                    self.names_revision = true;
                    let revision =
                        name.parse().map_err(|_| format!("{name} is no revision and no transport"))?;
                    self.revisions.with(revision)
                }
            };
        }
        Ok(())
    }

    fn matches(&self, (transport, revision): RunConfig) -> bool {
        (self.revisions.is_empty() || self.revisions.contains(revision))
            && (self.transports.is_empty() || self.transports.contains(&transport))
    }
}

/// One run of a transcript: over which transport, in which revision.
pub type RunConfig = (Transport, Revision);

impl Transcript {
    /// Parses a transcript. An error names the line it is about.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut transcript = Transcript {
            condition: Condition::always(),
            raw: false,
            server: "basic".to_owned(),
            capabilities: json!({}),
            across_bridge: AcrossBridge::Always,
            with_replicas: true,
            steps: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            transcript.parse_line(line.trim()).map_err(|error| format!("line {}: {error}", number + 1))?;
        }
        if transcript.condition.revisions.is_empty() {
            return Err("the `on:` line is missing".to_owned());
        }
        Ok(transcript)
    }

    fn parse_line(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line == "raw" {
            self.raw = true;
        } else if let Some(names) = line.strip_prefix("on:").or_else(|| line.strip_prefix("over:")) {
            self.condition.add(names)?;
        } else if let Some(name) = line.strip_prefix("server:") {
            name.trim().clone_into(&mut self.server);
        } else if let Some(capabilities) = line.strip_prefix("client:") {
            self.capabilities = serde_json::from_str(capabilities).map_err(|error| error.to_string())?;
        } else if let Some(held) = line.strip_prefix("bridge:") {
            self.across_bridge = match held.trim() {
                "same" => AcrossBridge::SameRevision,
                "tasks" => AcrossBridge::TaskRevisions,
                "no" => AcrossBridge::Never,
                other => return Err(format!("`bridge:` is `same`, `tasks` or `no`, not {other:?}")),
            };
        } else if let Some(held) = line.strip_prefix("replicas:") {
            self.with_replicas = match held.trim() {
                "no" => false,
                other => return Err(format!("`replicas:` is `no`, not {other:?}")),
            };
        } else if let Some(sent) = line.strip_prefix(">*") {
            let (condition, message) = parse_condition(sent)?;
            self.steps.push(TranscriptStep::SendUntil(condition, message.to_owned()));
        } else if let Some(sent) = line.strip_prefix('>') {
            let (condition, message) = parse_condition(sent)?;
            self.steps.push(TranscriptStep::Send(condition, message.to_owned()));
        } else if let Some(received) = line.strip_prefix('<') {
            self.steps.push(parse_receive_step(received)?);
        } else {
            return Err(format!("unknown kind of line: {line:?}"));
        }
        Ok(())
    }

    /// The name of the fixture server it talks to.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Whether it holds if each message may reach another replica of the server.
    pub fn holds_with_replicas(&self) -> bool {
        self.with_replicas
    }

    /// Whether it holds across a bridge from the revision of a run to `upstream`.
    pub fn holds_across_bridge(&self, config: RunConfig, upstream: Revision) -> bool {
        match self.across_bridge {
            AcrossBridge::Always => true,
            AcrossBridge::SameRevision => config.1 == upstream,
            AcrossBridge::TaskRevisions => upstream.has_core_tasks() || upstream.has_task_extension(),
            AcrossBridge::Never => false,
        }
    }

    /// The runs of it: each of its revisions over each transport that carries them.
    pub fn run_configs(&self) -> Vec<RunConfig> {
        let all = Transport::ALL
            .into_iter()
            .flat_map(|transport| Revision::ALL.map(|revision| (transport, revision)));
        all.filter(|config| config.0.supports(config.1) && self.condition.matches(*config)).collect()
    }

    /// Runs it. An error names the step that failed.
    pub async fn run(&self, channel: ServerChannel, config: RunConfig) -> Result<(), String> {
        let mut bindings = Bindings::default();
        bindings.bind("$revision", json!(config.1.as_str()));
        let mut run = Run { transcript: self, channel, config, bindings };
        let mut at = String::new();
        // A server that stays silent must fail the test, not hang it.
        match tokio::time::timeout(RUN_TIMEOUT, run.run_steps(&mut at)).await {
            Ok(result) => result.map_err(|error| format!("{at}: {error}"))?,
            Err(_) => return Err(format!("{at}: no message{}", run.channel.unread())),
        }
        match tokio::time::timeout(RUN_TIMEOUT, run.channel.finish()).await {
            Ok(result) => result.map_err(|error| format!("the end: {error}")),
            Err(_) => Err("the connection does not end".to_owned()),
        }
    }
}

/// A transcript while it runs.
struct Run<'a> {
    transcript: &'a Transcript,
    channel: ServerChannel,
    config: RunConfig,
    bindings: Bindings,
}

impl Run<'_> {
    async fn run_steps(&mut self, at: &mut String) -> Result<(), String> {
        at.push_str("the handshake");
        if !self.transcript.raw && !self.config.1.is_stateless() {
            self.handshake().await?;
        }
        let mut steps = self.transcript.steps.iter().enumerate().peekable();
        while let Some((number, step)) = steps.next() {
            *at = format!("step {}", number + 1);
            let next = steps.peek().map(|(_, next)| *next);
            match (step, next) {
                (TranscriptStep::SendUntil(condition, text), Some(TranscriptStep::Receive(of, expected)))
                    if condition.matches(self.config) && of.matches(self.config) =>
                {
                    self.send_until(text, expected, of.names_revision).await?;
                    steps.next();
                }
                (TranscriptStep::SendUntil(condition, _), _) if condition.matches(self.config) => {
                    return Err("no response follows `>*`".to_owned());
                }
                (step, _) => self.run_step(step).await?,
            }
        }
        "after the last step".clone_into(at);
        self.expect_nothing().await
    }

    async fn run_step(&mut self, step: &TranscriptStep) -> Result<(), String> {
        match step {
            TranscriptStep::Send(condition, _)
            | TranscriptStep::SendUntil(condition, _)
            | TranscriptStep::Receive(condition, _)
            | TranscriptStep::ExpectNothing(condition)
                if !condition.matches(self.config) =>
            {
                Ok(())
            }
            TranscriptStep::Send(_, text) | TranscriptStep::SendUntil(_, text) => {
                let line = self.line_to_send(text)?;
                self.channel.send(&line).await
            }
            TranscriptStep::Receive(condition, expected) => {
                self.expect(expected, condition.names_revision).await
            }
            TranscriptStep::ExpectNothing(_) => self.expect_nothing().await,
        }
    }

    /// Sends a request again until the response is the expected one.
    async fn send_until(&mut self, text: &str, expected: &Value, names_revision: bool) -> Result<(), String> {
        loop {
            let line = self.line_to_send(text)?;
            self.channel.send(&line).await?;
            let before = self.bindings.clone();
            if self.expect(expected, names_revision).await.is_ok() {
                return Ok(());
            }
            self.bindings = before;
            tokio::task::yield_now().await;
        }
    }

    /// The line with its placeholders replaced and, unless the transcript is raw, the required members added.
    fn line_to_send(&self, text: &str) -> Result<String, String> {
        // A line without placeholders is sent as it is written: it need not be JSON.
        let text = match text.contains("\"$") {
            true => {
                let message: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
                self.bindings.substitute(&message)?.to_string()
            }
            false => text.to_owned(),
        };
        match self.transcript.raw {
            true => Ok(text),
            false => with_required_fields(&text, self.config.1, &self.transcript.capabilities),
        }
    }

    async fn expect(&mut self, expected: &Value, names_revision: bool) -> Result<(), String> {
        let mut expected = self.bindings.substitute_known(expected);
        if let Value::Object(members) = &mut expected {
            members.entry("jsonrpc").or_insert(json!("2.0"));
        }
        let mut received = self.channel.receive(&expected).await?;
        if !names_revision && !self.transcript.raw {
            strip_common_fields(&mut received);
        }
        match self.bindings.matches(&expected, &received) {
            true => Ok(()),
            false => Err(format!("expected {expected}\n   received {received}")),
        }
    }

    /// Checks that no message is waiting: the response to a request sent now must come next.
    async fn expect_nothing(&mut self) -> Result<(), String> {
        let method = if self.config.1.is_stateless() { "server/discover" } else { "ping" };
        let fence = json!({"id": "fence", "method": method}).to_string();
        self.channel.send(&with_required_fields(&fence, self.config.1, &json!({}))?).await?;
        let received = self.channel.receive(&json!({"id": "fence"})).await?;
        match received.get("id") == Some(&json!("fence")) {
            true => self.channel.expect_silence().await,
            false => Err(format!("expected nothing\n   received {received}")),
        }
    }

    async fn handshake(&mut self) -> Result<(), String> {
        let version = self.config.1.as_str();
        let offer = json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": self.transcript.capabilities,
            "clientInfo": {"name": "transcript", "version": "1"},
        }});
        self.channel.send(&offer.to_string()).await?;
        let response = self.channel.receive(&json!({"id": "open"})).await?;
        if response.pointer("/result/protocolVersion") != Some(&json!(version)) {
            return Err(format!("the handshake failed: {response}"));
        }
        self.channel.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await
    }
}

/// Whether HTTP requests after the handshake have the version in a header.
fn has_version_header(revision: Revision) -> bool {
    revision >= Revision::V2025_06_18
}

/// Splits `[names] rest` into the condition and the rest; without brackets the condition always holds.
fn parse_condition(text: &str) -> Result<(Condition, &str), String> {
    let mut condition = Condition::always();
    let rest = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((names, rest)) => {
            condition.add(names)?;
            rest
        }
        None => text,
    };
    Ok((condition, rest.trim()))
}

fn parse_receive_step(text: &str) -> Result<TranscriptStep, String> {
    let (condition, text) = parse_condition(text)?;
    match text {
        "(nothing)" => Ok(TranscriptStep::ExpectNothing(condition)),
        text => serde_json::from_str(text)
            .map(|value| TranscriptStep::Receive(condition, value))
            .map_err(|error| error.to_string()),
    }
}

/// Adds the members that every message of the revision carries.
fn with_required_fields(text: &str, revision: Revision, capabilities: &Value) -> Result<String, String> {
    let mut message: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Value::Object(members) = &mut message else { return Ok(text.to_owned()) };
    members.entry("jsonrpc").or_insert(json!("2.0"));
    if revision.is_stateless() && members.contains_key("id") && members.contains_key("method") {
        let params = members.entry("params").or_insert(json!({}));
        if let Some(Value::Object(meta)) =
            params.as_object_mut().map(|it| it.entry("_meta").or_insert(json!({})))
        {
            let version = "io.modelcontextprotocol/protocolVersion";
            meta.entry(version).or_insert(json!(revision.as_str()));
            meta.entry("io.modelcontextprotocol/clientCapabilities").or_insert(capabilities.clone());
        }
    }
    Ok(message.to_string())
}

/// Removes the members that every result of 2026-07-28 carries.
fn strip_common_fields(message: &mut Value) {
    let Some(Value::Object(result)) = message.get_mut("result") else { return };
    if result.get("resultType") == Some(&json!("complete")) {
        result.remove("resultType");
    }
    for hint in ["ttlMs", "cacheScope"] {
        result.remove(hint);
    }
    if let Some(Value::Object(meta)) = result.get_mut("_meta") {
        meta.remove("io.modelcontextprotocol/serverInfo");
        if meta.is_empty() {
            result.remove("_meta");
        }
    }
}

const RUN_TIMEOUT: Duration = Duration::from_secs(20);
