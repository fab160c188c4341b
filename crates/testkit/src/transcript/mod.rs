//! Transcripts: what is said and what must be heard, as lines of a text file.
//!
//! ```text
//! # what it shows
//! on: 2025-06-18 2026-07-28        (or: all, handshake, stateless)
//! over: memory stdio               (where it means something only there; otherwise it is heard over http and sse too)
//! raw                              (no handshake is made beforehand, nothing is added)
//! > {"id":1,"method":"tools/call","params":{"name":"add"}}
//! < {"id":1,"result":{"content":[]}}
//! <[2026-07-28] {"id":1,"result":{"resultType":"complete"}}
//! <[handshake http] {"id":1,"result":{"content":[]}}
//! < (nothing)
//! ```
//!
//! A line marked for revisions or transports is heard only there. `jsonrpc` may be left out. Unless the transcript is raw,
//! a handshake is made first, or requests get the `_meta` keys of 2026-07-28; what every result carries there
//! (`resultType: "complete"`, the server's name, cache hints) is compared only in lines marked with the name of a revision.
//! `(expect_nothing)` is proven by a fence: another request whose answer must be the next message. So is the end. How lines are
//! said and heard over HTTP is told in `streamable_http.rs`.

pub mod client;
mod http_sse;
mod server_channel;
mod streamable_http;

pub use server_channel::{ServerChannel, Transport};

use std::time::Duration;

use serde_json::{Value, json};
use tsugite_core::revision::{Revision, Revisions};

/// A transcript that was read.
#[derive(Debug)]
pub struct Transcript {
    /// Where it is heard.
    condition: Condition,
    raw: bool,
    steps: Vec<TranscriptStep>,
}

#[derive(Debug)]
enum TranscriptStep {
    Send(String),
    Receive(Condition, Value),
    ExpectNothing(Condition),
}

/// For which revisions and transports something is; none means all.
#[derive(Debug)]
struct Condition {
    revisions: Revisions,
    transports: Vec<Transport>,
    /// Whether a revision was named by its own name.
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

/// Where a transcript is heard.
pub type RunConfig = (Transport, Revision);

impl Transcript {
    /// Reads a transcript. Fails naming the line that is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut transcript = Transcript { condition: Condition::always(), raw: false, steps: Vec::new() };
        for (number, line) in text.lines().enumerate() {
            transcript.parse_line(line.trim()).map_err(|error| format!("line {}: {error}", number + 1))?;
        }
        if transcript.condition.revisions.is_empty() {
            return Err("no `on:` line says for which revisions it is".to_owned());
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
        } else if let Some(sent) = line.strip_prefix('>') {
            self.steps.push(TranscriptStep::Send(sent.trim().to_owned()));
        } else if let Some(heard) = line.strip_prefix('<') {
            self.steps.push(parse_receive_step(heard)?);
        } else {
            return Err(format!("what is {line:?}"));
        }
        Ok(())
    }

    /// Where it is heard: each revision it is for, over each transport that carries it.
    pub fn run_configs(&self) -> Vec<RunConfig> {
        let all = Transport::ALL
            .into_iter()
            .flat_map(|transport| Revision::ALL.map(|revision| (transport, revision)));
        all.filter(|place| place.0.supports(place.1) && self.condition.matches(*place)).collect()
    }

    /// Runs it. Fails saying which step went otherwise.
    pub async fn run(&self, mut wire: ServerChannel, place: RunConfig) -> Result<(), String> {
        let mut at = String::new();
        // A server that stays silent must fail the test, not hang it.
        match tokio::time::timeout(RUN_TIMEOUT, self.run_steps(&mut wire, place, &mut at)).await {
            Ok(result) => result.map_err(|error| format!("{at}: {error}"))?,
            Err(_) => return Err(format!("{at}: silence{}", wire.unread())),
        }
        match tokio::time::timeout(RUN_TIMEOUT, wire.finish()).await {
            Ok(result) => result.map_err(|error| format!("the end: {error}")),
            Err(_) => Err("it does not come to an end".to_owned()),
        }
    }

    async fn run_steps(
        &self,
        wire: &mut ServerChannel,
        place: RunConfig,
        at: &mut String,
    ) -> Result<(), String> {
        at.push_str("the handshake");
        if !self.raw && !place.1.is_stateless() {
            handshake(wire, place.1).await?;
        }
        for (number, step) in self.steps.iter().enumerate() {
            *at = format!("step {}", number + 1);
            self.run_step(wire, place, step).await?;
        }
        "the last step".clone_into(at);
        expect_nothing(wire, place.1).await
    }

    async fn run_step(
        &self,
        wire: &mut ServerChannel,
        place: RunConfig,
        step: &TranscriptStep,
    ) -> Result<(), String> {
        match step {
            TranscriptStep::Send(text) if self.raw => wire.send(text).await,
            TranscriptStep::Send(text) => wire.send(&with_required_fields(text, place.1)?).await,
            TranscriptStep::Receive(mark, _) | TranscriptStep::ExpectNothing(mark)
                if !mark.matches(place) =>
            {
                Ok(())
            }
            TranscriptStep::Receive(mark, expected) => {
                let mut expected = expected.clone();
                if let Value::Object(members) = &mut expected {
                    members.entry("jsonrpc").or_insert(json!("2.0"));
                }
                let mut heard = wire.receive(&expected).await?;
                if !mark.names_revision && !self.raw {
                    strip_common_fields(&mut heard);
                }
                if heard == expected { Ok(()) } else { Err(format!("expected {expected}\n   heard {heard}")) }
            }
            TranscriptStep::ExpectNothing(_) => expect_nothing(wire, place.1).await,
        }
    }
}

fn parse_receive_step(text: &str) -> Result<TranscriptStep, String> {
    let mut mark = Condition::always();
    let text = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((names, rest)) => {
            mark.add(names)?;
            rest
        }
        None => text,
    };
    match text.trim() {
        "(nothing)" => Ok(TranscriptStep::ExpectNothing(mark)),
        text => serde_json::from_str(text)
            .map(|value| TranscriptStep::Receive(mark, value))
            .map_err(|error| error.to_string()),
    }
}

/// That nothing is said: what is asked now is answered next.
async fn expect_nothing(wire: &mut ServerChannel, revision: Revision) -> Result<(), String> {
    let fence = if revision.is_stateless() { "server/discover" } else { "ping" };
    wire.send(&with_required_fields(&json!({"id": "fence", "method": fence}).to_string(), revision)?).await?;
    let heard = wire.receive(&json!({"id": "fence"})).await?;
    match heard.get("id") == Some(&json!("fence")) {
        true => wire.expect_silence().await,
        false => Err(format!("expected nothing\n   heard {heard}")),
    }
}

/// A message with what every message of the revision carries.
fn with_required_fields(text: &str, revision: Revision) -> Result<String, String> {
    let mut message: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Value::Object(members) = &mut message else { return Ok(text.to_owned()) };
    members.entry("jsonrpc").or_insert(json!("2.0"));
    if revision.is_stateless() && members.contains_key("id") {
        let params = members.entry("params").or_insert(json!({}));
        if let Some(Value::Object(meta)) =
            params.as_object_mut().map(|it| it.entry("_meta").or_insert(json!({})))
        {
            let version = "io.modelcontextprotocol/protocolVersion";
            meta.entry(version).or_insert(json!(revision.as_str()));
            meta.entry("io.modelcontextprotocol/clientCapabilities").or_insert(json!({}));
        }
    }
    Ok(message.to_string())
}

/// Takes away what every result of 2026-07-28 carries.
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

async fn handshake(wire: &mut ServerChannel, revision: Revision) -> Result<(), String> {
    let offer = json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": {
        "protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": {"name": "transcript", "version": "1"},
    }});
    wire.send(&offer.to_string()).await?;
    let answer = wire.receive(&json!({"id": "open"})).await?;
    if answer.pointer("/result/protocolVersion") != Some(&json!(revision.as_str())) {
        return Err(format!("the handshake went otherwise: {answer}"));
    }
    wire.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await
}

const RUN_TIMEOUT: Duration = Duration::from_secs(20);
