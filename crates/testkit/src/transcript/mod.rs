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
//! replicas: no                     (not with replicas: it uses items that a handler has added or removed in one of them,
//!                                  or a limit that each of them has)
//! caller: ann                      (who sends the lines, to a server called `private_…`; over memory and HTTP)
//! raw                              (no handshake is made beforehand and nothing is added to a line)
//! > {"id":1,"method":"tools/call","params":{"name":"add"}}
//! < {"id":1,"result":{"content":[]}}
//! <[2026-07-28] {"id":1,"result":{"resultType":"complete"}}
//! <[handshake http] {"id":1,"result":{"content":[]}}
//! >[handshake] {"id":"$question","result":{"roots":[]}}
//! >* {"id":2,"method":"tasks/get","params":{"taskId":"$task"}}
//! >@ben {"id":3,"method":"tasks/get","params":{"taskId":"$task"}}
//! <@ben {"id":3,"error":{"code":-32602,"message":"$_"}}
//! >@anonymous {"id":4,"method":"tools/list"}
//! <@anonymous[http] 401
//! <[http] Content-Type: application/json
//! different: $task $other
//! < (nothing)
//! ```
//!
//! - A line marked for revisions or transports is sent or expected only there. `jsonrpc` may be left out.
//! - A line after `>*` is sent again until the response is the next line.
//! - A line of another caller is sent and received on a connection of its own; over HTTP its name is its token. `anonymous`
//!   has none, and `401` or `403` is a response without a message.
//! - A received message is compared whole. `"$name"` stands for any value the first time and for the same value from
//!   then on, also in lines that are sent; `"$_"` stands for any value, `"$revision"` for the revision of the run.
//!   Inside a string `$#` stands for digits and `$*` for any text. `"$name"` may be the name of a member, too.
//!   `"$name:32+"` is a `"$name"` of at least 32 visible ASCII characters. A line `different:` compares received values.
//! - `< Name: value` is a header of the response with the last received message; only HTTP has them.
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
    /// Who sends the lines that do not name a caller.
    caller: Option<String>,
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

/// A line of the conversation.
#[derive(Debug)]
struct TranscriptStep {
    /// The caller that it names.
    caller: Option<String>,
    condition: Condition,
    kind: StepKind,
}

#[derive(Debug)]
enum StepKind {
    Send(String),
    /// Sends the line until the response is the one of the next step.
    SendUntil(String),
    Receive(Value),
    ExpectHeader(String, String),
    ExpectDifferent(String),
    ExpectNothing,
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
            caller: None,
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
        } else if let Some(name) = line.strip_prefix("caller:") {
            self.caller = Some(name.trim().to_owned());
        } else if let Some(names) = line.strip_prefix("different:") {
            self.steps.push(parse_step(names, |text| Ok(StepKind::ExpectDifferent(text.to_owned())))?);
        } else if let Some(sent) = line.strip_prefix(">*") {
            self.steps.push(parse_step(sent, |text| Ok(StepKind::SendUntil(text.to_owned())))?);
        } else if let Some(sent) = line.strip_prefix('>') {
            self.steps.push(parse_step(sent, |text| Ok(StepKind::Send(text.to_owned())))?);
        } else if let Some(received) = line.strip_prefix('<') {
            self.steps.push(parse_step(received, parse_received)?);
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

    /// The runs of it: each of its revisions over each transport that carries them, and that knows its callers.
    pub fn run_configs(&self) -> Vec<RunConfig> {
        let has_callers = self.caller.is_some() || self.steps.iter().any(|step| step.caller.is_some());
        let all = Transport::ALL
            .into_iter()
            .flat_map(|transport| Revision::ALL.map(|revision| (transport, revision)));
        all.filter(|config| {
            config.0.supports(config.1)
                && self.condition.matches(*config)
                && (config.0.knows_callers() || !has_callers)
        })
        .collect()
    }

    /// Runs it. An error names the step that failed.
    pub async fn run(&self, channel: ServerChannel, config: RunConfig) -> Result<(), String> {
        let mut bindings = Bindings::default();
        bindings.bind("$revision", json!(config.1.as_str()));
        let channels = vec![CallerChannel { caller: None, channel, is_used: false }];
        let mut run = Run { transcript: self, channels, config, bindings };
        let mut at = String::new();
        // A server that stays silent must fail the test, not hang it.
        match tokio::time::timeout(RUN_TIMEOUT, run.run_steps(&mut at)).await {
            Ok(result) => result.map_err(|error| format!("{at}: {error}"))?,
            Err(_) => return Err(format!("{at}: no message{}", run.unread())),
        }
        match tokio::time::timeout(RUN_TIMEOUT, run.finish()).await {
            Ok(result) => result.map_err(|error| format!("the end: {error}")),
            Err(_) => Err("the connection does not end".to_owned()),
        }
    }
}

/// A transcript while it runs.
struct Run<'a> {
    transcript: &'a Transcript,
    /// The connection of each caller. The first is that of a caller without a name, from which others are opened.
    channels: Vec<CallerChannel>,
    config: RunConfig,
    bindings: Bindings,
}

/// The connection of a caller.
struct CallerChannel {
    caller: Option<String>,
    channel: ServerChannel,
    /// Whether the caller has sent something.
    is_used: bool,
}

impl Run<'_> {
    async fn run_steps(&mut self, at: &mut String) -> Result<(), String> {
        at.push_str("the handshake");
        self.channel(None).await?;
        let mut steps = self.transcript.steps.iter().enumerate().peekable();
        while let Some((number, step)) = steps.next() {
            *at = format!("step {}", number + 1);
            if !step.condition.matches(self.config) {
                continue;
            }
            let StepKind::SendUntil(text) = &step.kind else {
                self.run_step(step).await?;
                continue;
            };
            match steps.next().map(|(_, next)| next) {
                Some(TranscriptStep { kind: StepKind::Receive(expected), condition, .. })
                    if condition.matches(self.config) =>
                {
                    self.send_until(step, text, expected, condition.names_revision).await?;
                }
                _ => return Err("no response follows `>*`".to_owned()),
            }
        }
        "after the last step".clone_into(at);
        self.expect_nothing().await
    }

    async fn run_step(&mut self, step: &TranscriptStep) -> Result<(), String> {
        let caller = step.caller.as_deref();
        match &step.kind {
            StepKind::Send(text) | StepKind::SendUntil(text) => {
                let line = self.line_to_send(text)?;
                self.channel(caller).await?.send(&line).await
            }
            StepKind::Receive(expected) => self.expect(caller, expected, step.condition.names_revision).await,
            StepKind::ExpectHeader(name, value) => self.channel(caller).await?.expect_header(name, value),
            StepKind::ExpectDifferent(names) => self.bindings.expect_different(names.split_whitespace()),
            StepKind::ExpectNothing => self.expect_nothing().await,
        }
    }

    /// The connection of a caller, or of the one that sends the lines without a name. Opens it if that is its first line.
    async fn channel(&mut self, caller: Option<&str>) -> Result<&mut ServerChannel, String> {
        let caller = caller.or(self.transcript.caller.as_deref()).filter(|name| *name != ANONYMOUS);
        let known = self.channels.iter().position(|known| known.caller.as_deref() == caller);
        let at = known.unwrap_or(self.channels.len());
        if let (None, Some(name), Some(first)) = (known, caller, self.channels.first()) {
            let channel = first.channel.open_as(name).await?;
            self.channels.push(CallerChannel { caller: Some(name.to_owned()), channel, is_used: false });
        }
        let opened = self.channels.get_mut(at).ok_or("there is no connection")?;
        if !std::mem::replace(&mut opened.is_used, true)
            && !self.transcript.raw
            && !self.config.1.is_stateless()
        {
            handshake(&mut opened.channel, self.config.1, &self.transcript.capabilities).await?;
        }
        Ok(&mut opened.channel)
    }

    /// The messages that came and were not expected, for an error.
    fn unread(&self) -> String {
        self.channels.iter().map(|opened| opened.channel.unread()).collect()
    }

    /// Closes the connections in good order: the first, which may have the server, at last.
    async fn finish(self) -> Result<(), String> {
        for opened in self.channels.into_iter().rev() {
            opened.channel.finish().await?;
        }
        Ok(())
    }

    /// Sends a request again until the response is the expected one.
    async fn send_until(
        &mut self,
        step: &TranscriptStep,
        text: &str,
        expected: &Value,
        names_revision: bool,
    ) -> Result<(), String> {
        let caller = step.caller.as_deref();
        loop {
            let line = self.line_to_send(text)?;
            self.channel(caller).await?.send(&line).await?;
            let before = self.bindings.clone();
            if self.expect(caller, expected, names_revision).await.is_ok() {
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

    async fn expect(
        &mut self,
        caller: Option<&str>,
        expected: &Value,
        names_revision: bool,
    ) -> Result<(), String> {
        let mut expected = self.bindings.substitute_known(expected);
        if let Value::Object(members) = &mut expected {
            members.entry("jsonrpc").or_insert(json!("2.0"));
        }
        let mut received = self.channel(caller).await?.receive(&expected).await?;
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
        let fence = with_required_fields(&fence, self.config.1, &json!({}))?;
        for CallerChannel { channel, .. } in self.channels.iter_mut().filter(|opened| opened.is_used) {
            channel.send(&fence).await?;
            let received = channel.receive(&json!({"id": "fence"})).await?;
            match received.get("id") == Some(&json!("fence")) || received.is_number() {
                true => channel.expect_silence().await?,
                false => return Err(format!("expected nothing\n   received {received}")),
            }
        }
        Ok(())
    }
}

async fn handshake(
    channel: &mut ServerChannel,
    revision: Revision,
    capabilities: &Value,
) -> Result<(), String> {
    let version = revision.as_str();
    let offer = json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": capabilities,
        "clientInfo": {"name": "transcript", "version": "1"},
    }});
    channel.send(&offer.to_string()).await?;
    let response = channel.receive(&json!({"id": "open"})).await?;
    if response.pointer("/result/protocolVersion") != Some(&json!(version)) {
        return Err(format!("the handshake failed: {response}"));
    }
    channel.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await
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

/// Parses a step: the caller that it names, its condition, and what it says.
fn parse_step(
    text: &str,
    kind: impl FnOnce(&str) -> Result<StepKind, String>,
) -> Result<TranscriptStep, String> {
    let (caller, text) = match text.strip_prefix('@') {
        Some(named) => {
            let end = named.find(|next: char| !next.is_ascii_alphanumeric()).unwrap_or(named.len());
            let (name, rest) = named.split_at(end);
            (Some(name.to_owned()), rest)
        }
        None => (None, text),
    };
    let (condition, text) = parse_condition(text)?;
    Ok(TranscriptStep { caller, condition, kind: kind(text)? })
}

fn parse_received(text: &str) -> Result<StepKind, String> {
    match text {
        "(nothing)" => Ok(StepKind::ExpectNothing),
        text => match text.split_once(": ").filter(|_| !text.starts_with(['{', '['])) {
            Some((name, value)) => Ok(StepKind::ExpectHeader(name.to_owned(), value.to_owned())),
            None => serde_json::from_str(text).map(StepKind::Receive).map_err(|error| error.to_string()),
        },
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

/// The caller without a name.
const ANONYMOUS: &str = "anonymous";
const RUN_TIMEOUT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_their_callers() {
        let text = "on: all\n>@ben[http] {}\n<@ben {}\n> {}";
        let transcript = Transcript::parse(text).unwrap();
        let callers: Vec<_> = transcript.steps.iter().map(|step| step.caller.as_deref()).collect();
        assert_eq!(callers, [Some("ben"), Some("ben"), None]);
        assert_eq!(transcript.steps[0].condition.transports, [Transport::Http]);
        let configs = transcript.run_configs();
        assert!(configs.iter().all(|config| matches!(config.0, Transport::Memory | Transport::Http)));
        assert_eq!(configs.len(), 2 * Revision::ALL.len());
    }
}
