//! What of a request must be known before it is read into its type: who says it, in which version, about what.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::jsonrpc::{BadShape, Id, Message, Raw};
use crate::protocol::logging::Level;
use crate::protocol::meta::{CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION};
use crate::protocol::{ClientCapabilities, Implementation, Method, prompts, resources, tasks, tools};
use crate::revision::{Refusal, Revision, Translate};

/// The members of `params` that decide how a request is handled, borrowed from it in one pass.
#[derive(Debug, Clone)]
pub struct Peek<'a> {
    members: Members<'a>,
    meta: MetaMembers<'a>,
}

/// The version a request claims to speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim<'a> {
    /// None, as up to 2025-11-25.
    None,
    /// This one.
    Version(Cow<'a, str>),
    /// Something that is no string.
    Malformed,
}

impl Claim<'_> {
    /// Whether a message claims a version of its own, as nothing in a batch may.
    pub fn is_made_in(message: &Message<'_>) -> bool {
        let params = match message {
            Message::Request(request) => request.params(),
            Message::Notification(notice) => notice.params(),
            Message::Response(_) => return false,
        };
        Peek::at(params).is_ok_and(|peek| peek.claim() != Claim::None)
    }
}

/// What a request of 2026-07-28 says of its sender, checked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sender<'a> {
    /// What the client can do, for this request alone.
    pub capabilities: ClientCapabilities,
    /// From which level on it wants to hear logs; absent means none.
    pub log_level: Option<Level>,
    info: Option<&'a RawValue>,
}

impl<'a> Peek<'a> {
    /// Looks at `params`. Fails when a member that is looked at stands there twice or has a wrong type.
    pub fn at(params: Raw<'a>) -> Result<Self, BadShape> {
        let members: Members<'a> = params.read()?;
        let meta = match members.meta {
            Some(meta) => serde_json::from_str(meta.get())
                .map_err(|error| BadShape::new(format!("`_meta`: {}", BadShape::from(error))))?,
            None => MetaMembers::default(),
        };
        Ok(Self { members, meta })
    }

    /// The version the request claims to speak.
    pub fn claim(&self) -> Claim<'a> {
        match self.meta.version.map(RawValue::get) {
            None => Claim::None,
            Some(text) => match serde_json::from_str(text) {
                Ok(Text(version)) => Claim::Version(version),
                Err(_) => Claim::Malformed,
            },
        }
    }

    /// What the request says of its sender, as 2026-07-28 demands it. Fails naming the key that is missing or wrong.
    pub fn sender(&self) -> Result<Sender<'a>, Refusal> {
        if self.claim() == Claim::Malformed {
            return Err(wrong(PROTOCOL_VERSION));
        }
        if self.meta.version.is_none() {
            return Err(lacking(PROTOCOL_VERSION));
        }
        let capabilities = match self.meta.capabilities.map(RawValue::get) {
            None => return Err(lacking(CLIENT_CAPABILITIES)),
            Some("{}") => ClientCapabilities::new(),
            Some(text) => {
                let mut capabilities: ClientCapabilities =
                    serde_json::from_str(text).map_err(|_| wrong(CLIENT_CAPABILITIES))?;
                capabilities.inward(Revision::NEWEST);
                capabilities
            }
        };
        let log_level = match self.meta.log_level {
            None => None,
            Some(level) => Some(serde_json::from_str(level.get()).map_err(|_| wrong(LOG_LEVEL))?),
        };
        if let Some(info) = self.meta.info {
            serde_json::from_str::<NameAndVersion<'_>>(info.get()).map_err(|_| wrong(CLIENT_INFO))?;
        }
        Ok(Sender { capabilities, log_level, info: self.meta.info })
    }

    /// The token under which progress is wanted. `None` too when it is neither a string nor an integer.
    pub fn progress_token(&self) -> Option<Id<'static>> {
        serde_json::from_str(self.meta.progress_token?.get()).ok()
    }

    /// What `Mcp-Name` must say for this method: the name of the tool or prompt, the resource, the task.
    ///
    /// `Some(None)` when the method has one but the params do not.
    pub fn name(&self, method: &str) -> Option<Option<&str>> {
        let member = match method {
            tools::Call::NAME | prompts::Get::NAME => &self.members.name,
            resources::Read::NAME => &self.members.uri,
            tasks::Get::NAME | tasks::Update::NAME | tasks::Cancel::NAME => &self.members.task_id,
            _ => return None,
        };
        Some(member.as_ref().and_then(|Loose(text)| text.as_deref()))
    }

    /// The arguments of a call as they came; `None` if there are none.
    pub fn arguments(&self) -> Option<Raw<'a>> {
        self.members.arguments.map(Raw::from)
    }

    /// The version an `initialize` offers.
    pub fn offered_version(&self) -> Option<&str> {
        self.members.protocol_version.as_ref().and_then(|Loose(text)| text.as_deref())
    }
}

impl Sender<'_> {
    /// Who the client is, if it says so.
    pub fn info(&self) -> Option<Implementation> {
        serde_json::from_str(self.info?.get()).ok()
    }
}

fn lacking(key: &str) -> Refusal {
    Refusal::InvalidParams(format!("Invalid params: `_meta` lacks `{key}`").into())
}

fn wrong(key: &str) -> Refusal {
    Refusal::InvalidParams(format!("Invalid params: `_meta` key `{key}` is malformed").into())
}

#[derive(Debug, Clone, Deserialize)]
struct Members<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<Loose<'a>>,
    #[serde(borrow)]
    uri: Option<Loose<'a>>,
    #[serde(borrow, rename = "taskId")]
    task_id: Option<Loose<'a>>,
    #[serde(borrow, rename = "protocolVersion")]
    protocol_version: Option<Loose<'a>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct MetaMembers<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientInfo")]
    info: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/logLevel")]
    log_level: Option<&'a RawValue>,
    #[serde(borrow, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct NameAndVersion<'a> {
    #[serde(borrow, rename = "name")]
    _name: Text<'a>,
    #[serde(borrow, rename = "version")]
    _version: Text<'a>,
}

/// A string, borrowed unless it holds an escape.
#[derive(Debug, Clone, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A string if it is one: what it should have been is judged when the params are read.
#[derive(Debug, Clone)]
struct Loose<'a>(Option<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?;
        Ok(Loose(serde_json::from_str::<Text<'de>>(raw.get()).ok().map(|Text(text)| text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::RawJson;

    #[test]
    fn the_keys_looked_at_are_the_keys_of_the_protocol() {
        let text = format!(
            r#"{{"{PROTOCOL_VERSION}":"v","{CLIENT_CAPABILITIES}":{{}},"{CLIENT_INFO}":{{}},"{LOG_LEVEL}":"x"}}"#
        );
        let meta: MetaMembers<'_> = serde_json::from_str(&text).unwrap();
        assert!(meta.version.is_some() && meta.capabilities.is_some());
        assert!(meta.info.is_some() && meta.log_level.is_some());
    }

    #[test]
    fn each_missing_or_malformed_key_is_named() {
        // VER-004 the two required keys, VER-006 the one that may be absent.
        let sender = |json: &str| {
            let params = RawJson::parse(json).unwrap();
            Peek::at(Raw::from(&params)).unwrap().sender().map(|_| ()).map_err(|refusal| refusal.to_string())
        };
        assert!(sender("{}").unwrap_err().contains("protocolVersion"));
        let version = format!(r#""{PROTOCOL_VERSION}":"2026-07-28""#);
        assert!(sender(&format!(r#"{{"_meta":{{{version}}}}}"#)).unwrap_err().contains("clientCapabilities"));
        let both = format!(r#"{version},"{CLIENT_CAPABILITIES}":{{}}"#);
        assert_eq!(sender(&format!(r#"{{"_meta":{{{both}}}}}"#)), Ok(()));
        for (key, value) in [(LOG_LEVEL, "\"loud\""), (CLIENT_INFO, "{\"name\":\"c\"}"), (CLIENT_INFO, "7")] {
            let error = sender(&format!(r#"{{"_meta":{{{both},"{key}":{value}}}}}"#)).unwrap_err();
            assert!(error.contains(key), "{error}");
        }
        let numbered = format!(r#"{{"_meta":{{"{PROTOCOL_VERSION}":3,"{CLIENT_CAPABILITIES}":{{}}}}}}"#);
        assert!(sender(&numbered).unwrap_err().contains("protocolVersion"));
        let listed = format!(r#"{{"_meta":{{{version},"{CLIENT_CAPABILITIES}":[]}}}}"#);
        assert!(sender(&listed).unwrap_err().contains("clientCapabilities"));
    }
}
