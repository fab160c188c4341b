//! The steps of a client transcript, one for each line.

use std::time::Duration;

use serde_json::Value;

/// A step of a transcript.
#[derive(Debug)]
pub(super) enum ClientStep {
    Action(String),
    Receive(Value),
    ExpectNothing,
    ExpectEof,
    ExpectHttpMethod(String),
    ExpectHeader(String, String),
    Send(Option<u16>, Value),
    Reject(u16),
    Disconnect,
    SendNoise(String),
    SendPriming(String, String),
    ExpectOutcome(Result<Value, String>),
    ExpectEvent(String),
    /// How long the step before it was waited for.
    ExpectWait(Duration),
}

impl ClientStep {
    /// Parses a line without the condition after its kind.
    pub(super) fn parse(kind: &str, text: &str) -> Result<Self, String> {
        let json =
            |text: &str| serde_json::from_str::<Value>(text).map_err(|error| format!("{text}: {error}"));
        let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
        Ok(match kind {
            "do" => ClientStep::Action(text.strip_prefix(':').ok_or("`do:` has a colon")?.trim().to_owned()),
            "=" => ClientStep::ExpectOutcome(Ok(json(text)?)),
            "!" => ClientStep::ExpectOutcome(Err(text.to_owned())),
            "*" => ClientStep::ExpectEvent(text.to_owned()),
            "after" => {
                let time = text.strip_prefix(':').and_then(|time| time.trim().parse().ok());
                ClientStep::ExpectWait(Duration::from_millis(
                    time.ok_or("`after:` is followed by milliseconds")?,
                ))
            }
            "<" => match text {
                "(nothing)" => ClientStep::ExpectNothing,
                "(end)" => ClientStep::ExpectEof,
                "GET" | "DELETE" => ClientStep::ExpectHttpMethod(text.to_owned()),
                _ if text.starts_with(['{', '[']) => ClientStep::Receive(json(text)?),
                _ => {
                    let (name, value) = text.split_once(": ").ok_or_else(|| format!("what is {text:?}"))?;
                    ClientStep::ExpectHeader(name.to_owned(), value.to_owned())
                }
            },
            _ => match first {
                "(break)" => ClientStep::Disconnect,
                "(noise)" => ClientStep::SendNoise(rest.to_owned()),
                "(prime" => {
                    let (id, retry) = rest.trim_end_matches(')').split_once(' ').ok_or("an id and a time")?;
                    ClientStep::SendPriming(id.to_owned(), retry.to_owned())
                }
                _ => match first.parse() {
                    Ok(status) if rest.is_empty() => ClientStep::Reject(status),
                    Ok(status) => ClientStep::Send(Some(status), json(rest)?),
                    Err(_) => ClientStep::Send(None, json(text)?),
                },
            },
        })
    }
}
