//! Transcripts: what is said and what must be heard, as lines of a text file.
//!
//! ```text
//! # what it shows
//! on: 2025-06-18 2026-07-28        (or: all, handshake, stateless)
//! raw                              (no handshake is made beforehand, nothing is added)
//! > {"id":1,"method":"tools/call","params":{"name":"add"}}
//! < {"id":1,"result":{"content":[]}}
//! <[2026-07-28] {"id":1,"result":{"resultType":"complete"}}
//! < (nothing)
//! ```
//!
//! `jsonrpc` may be left out. Unless the transcript is raw, a handshake is made first, or requests get the `_meta`
//! keys of 2026-07-28; what every result carries there (`resultType: "complete"`, the server's name, cache hints) is
//! compared only in lines marked for that revision. `(nothing)` is proven by a fence: another request whose answer must
//! be the next message.

mod wire;

pub use wire::Wire;

use serde_json::{Value, json};
use tsugite_core::revision::{Revision, Revisions};

/// A transcript that was read.
#[derive(Debug)]
pub struct Transcript {
    revisions: Revisions,
    raw: bool,
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Send(String),
    Hear(Option<Revision>, Value),
    Nothing,
}

impl Transcript {
    /// Reads a transcript. Fails naming the line that is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut transcript = Transcript { revisions: Revisions::NONE, raw: false, steps: Vec::new() };
        for (number, line) in text.lines().enumerate() {
            transcript.line(line.trim()).map_err(|error| format!("line {}: {error}", number + 1))?;
        }
        if transcript.revisions.is_empty() {
            return Err("no `on:` line says for which revisions it is".to_owned());
        }
        Ok(transcript)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line == "raw" {
            self.raw = true;
        } else if let Some(revisions) = line.strip_prefix("on:") {
            for name in revisions.split_whitespace() {
                self.revisions = match name {
                    "all" => Revisions::ALL,
                    "handshake" => Revisions::ALL.handshake(),
                    "stateless" => Revisions::ALL.stateless(),
                    name => {
                        self.revisions.with(name.parse().map_err(|_| format!("unknown revision {name}"))?)
                    }
                };
            }
        } else if let Some(sent) = line.strip_prefix('>') {
            self.steps.push(Step::Send(sent.trim().to_owned()));
        } else if let Some(heard) = line.strip_prefix('<') {
            self.steps.push(heard_step(heard)?);
        } else {
            return Err(format!("what is {line:?}"));
        }
        Ok(())
    }

    /// The revisions it is for.
    pub fn revisions(&self) -> Revisions {
        self.revisions
    }

    /// Runs it. Fails saying which step went otherwise.
    pub async fn run(&self, wire: &mut Wire, revision: Revision) -> Result<(), String> {
        if !self.raw && !revision.is_stateless() {
            open(wire, revision).await?;
        }
        for (number, step) in self.steps.iter().enumerate() {
            let at = |error| format!("step {} on {revision}: {error}", number + 1);
            self.step(wire, revision, step).await.map_err(at)?;
        }
        Ok(())
    }

    async fn step(&self, wire: &mut Wire, revision: Revision, step: &Step) -> Result<(), String> {
        match step {
            Step::Send(text) if self.raw => wire.send(text).await,
            Step::Send(text) => wire.send(&dressed(text, revision)?).await,
            Step::Hear(Some(only), _) if *only != revision => Ok(()),
            Step::Hear(only, expected) => {
                let mut heard = wire.next().await?;
                if only.is_none() && !self.raw {
                    undress(&mut heard);
                }
                let mut expected = expected.clone();
                if let Value::Object(members) = &mut expected {
                    members.entry("jsonrpc").or_insert(json!("2.0"));
                }
                if heard == expected { Ok(()) } else { Err(format!("expected {expected}\n   heard {heard}")) }
            }
            Step::Nothing => {
                let fence = if revision.is_stateless() { "server/discover" } else { "ping" };
                wire.send(&dressed(&json!({"id": "fence", "method": fence}).to_string(), revision)?).await?;
                let heard = wire.next().await?;
                match heard.get("id") == Some(&json!("fence")) {
                    true => Ok(()),
                    false => Err(format!("expected nothing\n   heard {heard}")),
                }
            }
        }
    }
}

fn heard_step(text: &str) -> Result<Step, String> {
    let (only, text) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, rest)) => (Some(name.parse().map_err(|_| format!("unknown revision {name}"))?), rest),
        None => (None, text),
    };
    match text.trim() {
        "(nothing)" => Ok(Step::Nothing),
        text => {
            serde_json::from_str(text).map(|value| Step::Hear(only, value)).map_err(|error| error.to_string())
        }
    }
}

/// A message with what every message of the revision carries.
fn dressed(text: &str, revision: Revision) -> Result<String, String> {
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
fn undress(message: &mut Value) {
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

async fn open(wire: &mut Wire, revision: Revision) -> Result<(), String> {
    let offer = json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": {
        "protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": {"name": "transcript", "version": "1"},
    }});
    wire.send(&offer.to_string()).await?;
    let answer = wire.next().await?;
    if answer.pointer("/result/protocolVersion") != Some(&json!(revision.as_str())) {
        return Err(format!("the handshake went otherwise: {answer}"));
    }
    wire.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await
}
