//! The members of a request's `params` that are needed before the params are deserialized: revision, client, name.
//!
//! They are collected while the message is parsed ([`parse_with_meta`]), in the same pass and borrowed from it.
//! [`RequestMeta::checked`] then reports duplicate or malformed members.

mod scan;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use self::scan::parse_with_meta;
use self::scan::{ClientInfoMember, MetaMembers, MetaScanError};
use crate::jsonrpc::{Id, JsonError, Message, Raw, Request};
use crate::protocol::logging::Level;
use crate::protocol::meta::{CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION};
use crate::protocol::{ClientCapabilities, Implementation, Method, prompts, resources, tasks, tools};
use crate::revision::{BARE_DISCOVER, Revision, RpcError, Translate};

/// The members of `params` that decide how a request is handled, borrowed from the message.
///
/// [`checked`](Self::checked) and [`from_params`](Self::from_params) return one without scan errors.
#[derive(Debug, Clone, Default)]
pub struct RequestMeta<'a> {
    /// Whether params were scanned: the message had params that are an object.
    scanned: bool,
    name: StringMember<'a>,
    uri: StringMember<'a>,
    task_id: StringMember<'a>,
    offered_version: StringMember<'a>,
    arguments: Option<Raw<'a>>,
    request_state: Option<Raw<'a>>,
    input_responses: Option<Raw<'a>>,
    cursor: Option<CursorMember<'a>>,
    has_meta: bool,
    meta: MetaMembers<'a>,
    /// The first error. Scanning continues, because a syntax error after it takes precedence.
    error: Option<MetaScanError>,
}

/// A member that should be a string. Another type is reported when the params are deserialized.
#[derive(Debug, Clone, Default)]
enum StringMember<'a> {
    #[default]
    Absent,
    NotAString,
    Text(Cow<'a, str>),
}

impl StringMember<'_> {
    fn as_deref(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Absent | Self::NotAString => None,
        }
    }
}

/// The `cursor` of a list request. Other methods may use the name for something else, so it is checked on access.
#[derive(Debug, Clone, Copy)]
enum CursorMember<'a> {
    Once(Raw<'a>),
    Duplicate,
}

/// How complete the client's description of itself in `_meta` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientMetaPresence {
    /// There is no `_meta`.
    Absent,
    /// Some keys are missing.
    Partial,
    /// All keys of 2026-07-28: version, capabilities and client info.
    Complete,
}

/// The protocol version a request claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimedVersion<'a> {
    /// No version, as up to 2025-11-25.
    None,
    /// A version, known or not.
    Version(Cow<'a, str>),
    /// A value that is not a string.
    Malformed,
}

impl ClaimedVersion<'_> {
    /// Whether a message claims a version, which is not allowed in a batch.
    pub fn is_present_in(message: &Message<'_>) -> bool {
        let params = match message {
            Message::Request(request) => request.params(),
            Message::Notification(notice) => notice.params(),
            Message::Response(_) => return false,
        };
        RequestMeta::from_params(params).is_ok_and(|meta| meta.claimed_version() != ClaimedVersion::None)
    }
}

/// The client's description of itself in a request of 2026-07-28, validated.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeclaredClient<'a> {
    /// The client's capabilities, for this request only.
    pub capabilities: ClientCapabilities,
    /// The minimum level of log notifications; absent means no logs.
    pub log_level: Option<Level>,
    info: Option<ClientInfoMember<'a>>,
}

impl<'a> RequestMeta<'a> {
    /// Scans `params`. Fails if one of the members is duplicated or `_meta` is not an object.
    pub fn from_params(params: Raw<'a>) -> Result<Self, JsonError> {
        let mut meta = Self { scanned: true, ..Self::default() };
        meta.scan(&mut params.scanner(), 1)?;
        meta.into_result()
    }

    /// The members of the request that was parsed with [`parse_with_meta`]. Fails as [`from_params`](Self::from_params)
    /// does.
    pub fn checked(&self, request: &Request<'a>) -> Result<Self, JsonError> {
        match self.scanned {
            true => self.clone().into_result(),
            false => Self::from_params(request.params()),
        }
    }

    fn into_result(self) -> Result<Self, JsonError> {
        match self.error {
            None => Ok(self),
            Some(error) => Err(error.into()),
        }
    }

    /// The protocol version the request claims.
    pub fn claimed_version(&self) -> ClaimedVersion<'a> {
        match self.meta.version() {
            None => ClaimedVersion::None,
            Some(version) => version.string().map_or(ClaimedVersion::Malformed, ClaimedVersion::Version),
        }
    }

    /// The client's description of itself, as 2026-07-28 requires it. Fails naming the key that is missing or
    /// malformed.
    pub fn declared_client(&self) -> Result<DeclaredClient<'a>, RpcError> {
        let (capabilities, log_level) = self.parse_client_meta()?;
        let capabilities = capabilities.map_or_else(ClientCapabilities::new, |capabilities| *capabilities);
        Ok(DeclaredClient { capabilities, log_level, info: self.meta.info() })
    }

    /// Whether the request is `mcp/discover`, in this spelling, and claims no version.
    pub(super) fn is_bare_discover(&self, request: &Request<'_>) -> bool {
        request.method == BARE_DISCOVER && matches!(self.claimed_version(), ClaimedVersion::None)
    }

    /// Validates like [`declared_client`](Self::declared_client), without building the result.
    pub(super) fn check_client_meta(&self) -> Result<(), RpcError> {
        self.parse_client_meta().map(drop)
    }

    /// The capabilities, unless they are empty, and the log level. Boxed, because capabilities are large and rarely
    /// set.
    fn parse_client_meta(&self) -> Result<(Option<Box<ClientCapabilities>>, Option<Level>), RpcError> {
        match self.claimed_version() {
            ClaimedVersion::None => return Err(missing_key(PROTOCOL_VERSION)),
            ClaimedVersion::Malformed => return Err(malformed_key(PROTOCOL_VERSION)),
            ClaimedVersion::Version(_) => {}
        }
        let capabilities = match self.meta.capabilities().map(Raw::text) {
            None => return Err(missing_key(CLIENT_CAPABILITIES)),
            Some("{}") => None,
            Some(text) => {
                let mut capabilities: Box<ClientCapabilities> =
                    serde_json::from_str(text).map_err(|_| malformed_key(CLIENT_CAPABILITIES))?;
                capabilities.upgrade(Revision::NEWEST);
                Some(capabilities)
            }
        };
        let log_level = match self.meta.log_level() {
            None => None,
            Some(level) => Some(level.read().map_err(|_| malformed_key(LOG_LEVEL))?),
        };
        match self.meta.info() {
            Some(ClientInfoMember { is_valid: false, .. }) => Err(malformed_key(CLIENT_INFO)),
            _ => Ok((capabilities, log_level)),
        }
    }

    /// How complete the client's description of itself is. Nothing is validated.
    pub fn client_meta_presence(&self) -> ClientMetaPresence {
        let meta = &self.meta;
        match (meta.version(), meta.capabilities(), meta.info()) {
            _ if !self.has_meta => ClientMetaPresence::Absent,
            (Some(_), Some(_), Some(_)) => ClientMetaPresence::Complete,
            _ => ClientMetaPresence::Partial,
        }
    }

    /// The progress token; `None` also if it is neither a string nor an integer.
    pub fn progress_token(&self) -> Option<Id<'static>> {
        self.meta.progress_token()?.read().ok()
    }

    /// The value of `Mcp-Name` for this method: the name of the tool or prompt, the URI, the task id.
    ///
    /// `None` if the method has no `Mcp-Name`, `Some(None)` if the params lack it.
    pub fn mcp_name(&self, method: &str) -> Option<Option<&str>> {
        let member = match method {
            tools::Call::NAME | prompts::Get::NAME => &self.name,
            resources::Read::NAME => &self.uri,
            tasks::Get::NAME | tasks::Update::NAME | tasks::Cancel::NAME => &self.task_id,
            _ => return None,
        };
        Some(member.as_deref())
    }

    /// The raw arguments of a call; `None` if absent.
    pub fn arguments(&self) -> Option<Raw<'a>> {
        non_null(self.arguments)
    }

    /// The `requestState` of an earlier attempt, not verified.
    pub fn request_state(&self) -> Option<Raw<'a>> {
        non_null(self.request_state)
    }

    /// The cursor of a list request; `None` for the first page. Fails if it is duplicated or not a string.
    pub fn cursor(&self) -> Result<Option<Cow<'a, str>>, JsonError> {
        match self.cursor {
            None => Ok(None),
            Some(CursorMember::Duplicate) => Err(MetaScanError::Duplicate("cursor").into()),
            Some(CursorMember::Once(cursor)) if cursor.is_null() => Ok(None),
            Some(CursorMember::Once(cursor)) => match cursor.string() {
                Some(cursor) => Ok(Some(cursor)),
                None => Err(JsonError::new("`cursor`: expected a string")),
            },
        }
    }

    /// The responses to the input requests of an earlier attempt.
    pub fn input_responses(&self) -> Option<Raw<'a>> {
        non_null(self.input_responses)
    }

    /// The version offered by `initialize`.
    pub fn offered_version(&self) -> Option<&str> {
        self.offered_version.as_deref()
    }
}

impl DeclaredClient<'_> {
    /// The client's name and version, if given.
    pub fn info(&self) -> Option<Implementation> {
        let info = self.info?;
        match (info.has_other_members, info.name, info.version) {
            (false, Some(name), Some(version)) => {
                Some(Implementation::new(name.string()?, version.string()?))
            }
            _ => info.raw.read().ok(),
        }
    }
}

fn missing_key(key: &str) -> RpcError {
    RpcError::InvalidParams(format!("Invalid params: `_meta` lacks `{key}`").into())
        .with("path", format!("_meta.{key}"))
}

fn malformed_key(key: &str) -> RpcError {
    RpcError::InvalidParams(format!("Invalid params: `_meta` key `{key}` is malformed").into())
        .with("path", format!("_meta.{key}"))
}

/// `None` for a member that is absent or written as `null`.
fn non_null(member: Option<Raw<'_>>) -> Option<Raw<'_>> {
    member.filter(|value| !value.is_null())
}
