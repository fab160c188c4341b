//! What of a request must be known before it is read into its type: who says it, in which version, about what.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::jsonrpc::{
    Id, Incoming, JsonError, JsonSyntaxError, Message, MessageLimits, ParamsVisitor, ParseError, Raw,
    Request, Scanner, parse_with_visitor,
};
use crate::protocol::logging::Level;
use crate::protocol::meta::{CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROGRESS_TOKEN, PROTOCOL_VERSION};
use crate::protocol::{ClientCapabilities, Implementation, Method, prompts, resources, tasks, tools};
use crate::revision::{Revision, RpcError, Translate};

/// The members of `params` that decide how a request is handled, borrowed from it in one pass.
#[derive(Debug, Clone)]
pub struct RequestMeta<'a> {
    name: Option<Cow<'a, str>>,
    uri: Option<Cow<'a, str>>,
    task_id: Option<Cow<'a, str>>,
    offered_version: Option<Cow<'a, str>>,
    arguments: Option<Raw<'a>>,
    request_state: Option<Raw<'a>>,
    input_responses: Option<Raw<'a>>,
    cursor: Option<CursorMember<'a>>,
    has_meta: bool,
    meta: MetaMembers<'a>,
}

/// What a list is asked to go on from. Only lists have it, so only they judge it.
#[derive(Debug, Clone, Copy)]
enum CursorMember<'a> {
    Once(Raw<'a>),
    Duplicate,
}

/// How much a request says of its sender in `_meta`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientMetaPresence {
    /// There is no `_meta`.
    Absent,
    /// Not all there is to say.
    Partial,
    /// All that 2026-07-28 knows to say: its version, what it can do, who it is.
    Complete,
}

/// The version a request claims to speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimedVersion<'a> {
    /// None, as up to 2025-11-25.
    None,
    /// This one.
    Version(Cow<'a, str>),
    /// Something that is no string.
    Malformed,
}

impl ClaimedVersion<'_> {
    /// Whether a message claims a version of its own, as nothing in a batch may.
    pub fn is_present_in(message: &Message<'_>) -> bool {
        let params = match message {
            Message::Request(request) => request.params(),
            Message::Notification(notice) => notice.params(),
            Message::Response(_) => return false,
        };
        RequestMeta::from_params(params).is_ok_and(|peek| peek.claimed_version() != ClaimedVersion::None)
    }
}

/// What a request of 2026-07-28 says of its sender, checked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeclaredClient<'a> {
    /// What the client can do, for this request alone.
    pub capabilities: ClientCapabilities,
    /// From which level on it wants to hear logs; absent means none.
    pub log_level: Option<Level>,
    info: Option<ClientInfoMember<'a>>,
}

impl<'a> RequestMeta<'a> {
    /// Looks at `params`. Fails when a member that is looked at stands there twice or has a wrong type.
    pub fn from_params(params: Raw<'a>) -> Result<Self, JsonError> {
        let mut seen = ScannedMeta::default();
        seen.scan(&mut params.scanner(), 1)?;
        seen.validate()
    }

    /// The version the request claims to speak.
    pub fn claimed_version(&self) -> ClaimedVersion<'a> {
        match self.meta.version {
            None => ClaimedVersion::None,
            Some(version) => version.string().map_or(ClaimedVersion::Malformed, ClaimedVersion::Version),
        }
    }

    /// What the request says of its sender, as 2026-07-28 demands it. Fails naming the key that is missing or wrong.
    pub fn declared_client(&self) -> Result<DeclaredClient<'a>, RpcError> {
        let (capabilities, log_level) = self.parse_client_meta()?;
        let capabilities = capabilities.map_or_else(ClientCapabilities::new, |capabilities| *capabilities);
        Ok(DeclaredClient { capabilities, log_level, info: self.meta.info })
    }

    /// Fails as [`declared_client`](Self::sender) does and builds less.
    pub(super) fn check_client_meta(&self) -> Result<(), RpcError> {
        self.parse_client_meta().map(drop)
    }

    /// What the sender can do, if that is anything, and what it wants to hear. In a box: they are large, and rare.
    fn parse_client_meta(&self) -> Result<(Option<Box<ClientCapabilities>>, Option<Level>), RpcError> {
        match self.claimed_version() {
            ClaimedVersion::None => return Err(missing_key(PROTOCOL_VERSION)),
            ClaimedVersion::Malformed => return Err(malformed_key(PROTOCOL_VERSION)),
            ClaimedVersion::Version(_) => {}
        }
        let capabilities = match self.meta.capabilities.map(Raw::text) {
            None => return Err(missing_key(CLIENT_CAPABILITIES)),
            Some("{}") => None,
            Some(text) => {
                let mut capabilities: Box<ClientCapabilities> =
                    serde_json::from_str(text).map_err(|_| malformed_key(CLIENT_CAPABILITIES))?;
                capabilities.upgrade(Revision::NEWEST);
                Some(capabilities)
            }
        };
        let log_level = match self.meta.log_level {
            None => None,
            Some(level) => Some(level.read().map_err(|_| malformed_key(LOG_LEVEL))?),
        };
        match self.meta.info {
            Some(ClientInfoMember { is_valid: false, .. }) => Err(malformed_key(CLIENT_INFO)),
            _ => Ok((capabilities, log_level)),
        }
    }

    /// How much it says of its sender. Nothing of that is checked.
    pub fn client_meta_presence(&self) -> ClientMetaPresence {
        let meta = &self.meta;
        match (meta.version, meta.capabilities, meta.info) {
            _ if !self.has_meta => ClientMetaPresence::Absent,
            (Some(_), Some(_), Some(_)) => ClientMetaPresence::Complete,
            _ => ClientMetaPresence::Partial,
        }
    }

    /// The token under which progress is wanted. `None` too when it is neither a string nor an integer.
    pub fn progress_token(&self) -> Option<Id<'static>> {
        self.meta.progress_token?.read().ok()
    }

    /// What `Mcp-Name` must say for this method: the name of the tool or prompt, the resource, the task.
    ///
    /// `Some(None)` when the method has one but the params do not.
    pub fn mcp_name(&self, method: &str) -> Option<Option<&str>> {
        let member = match method {
            tools::Call::NAME | prompts::Get::NAME => &self.name,
            resources::Read::NAME => &self.uri,
            tasks::Get::NAME | tasks::Update::NAME | tasks::Cancel::NAME => &self.task_id,
            _ => return None,
        };
        Some(member.as_deref())
    }

    /// The arguments of a call as they came; `None` if there are none.
    pub fn arguments(&self) -> Option<Raw<'a>> {
        self.arguments
    }

    /// What an earlier attempt wanted back; judged when it is opened.
    pub fn request_state(&self) -> Option<Raw<'a>> {
        self.request_state
    }

    /// Where a page of a list begins; `None` for the first. Fails when it stands there twice or is no string.
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

    /// The answers to what an earlier attempt asked for.
    pub fn input_responses(&self) -> Option<Raw<'a>> {
        self.input_responses
    }

    /// The version an `initialize` offers.
    pub fn offered_version(&self) -> Option<&str> {
        self.offered_version.as_deref()
    }
}

impl DeclaredClient<'_> {
    /// Who the client is, if it says so.
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
}

fn malformed_key(key: &str) -> RpcError {
    RpcError::InvalidParams(format!("Invalid params: `_meta` key `{key}` is malformed").into())
}

/// What was seen of the params of a message while it was parsed.
#[derive(Debug, Default)]
pub struct ScannedMeta<'a> {
    /// Whether there was anything to see.
    scanned: bool,
    name: Option<Raw<'a>>,
    uri: Option<Raw<'a>>,
    task_id: Option<Raw<'a>>,
    offered_version: Option<Raw<'a>>,
    arguments: Option<Raw<'a>>,
    request_state: Option<Raw<'a>>,
    input_responses: Option<Raw<'a>>,
    cursor: Option<CursorMember<'a>>,
    has_meta: bool,
    meta: MetaMembers<'a>,
    /// The first thing that is wrong. The walk goes on: whether it is JSON matters more.
    error: Option<MetaScanError>,
}

#[derive(Debug, Clone, Copy)]
enum MetaScanError {
    Duplicate(&'static str),
    /// A key whose escapes mean nothing.
    BadKey,
    MetaDuplicate(&'static str),
    MetaBadKey,
    MetaNotAnObject,
}

/// Reads one body or line as [`jsonrpc::parse_with_meta`](crate::jsonrpc::parse) does, and looks at the params on the way.
pub fn parse_with_meta<'a>(
    bytes: &'a [u8],
    limits: &MessageLimits,
    seen: &mut ScannedMeta<'a>,
) -> Result<Incoming<'a>, ParseError> {
    parse_with_visitor(bytes, limits, seen)
}

impl<'a> ScannedMeta<'a> {
    /// What there is to see in the request that was parsed, as [`RequestMeta::from_params`] sees it.
    pub fn request_meta(&self, request: &Request<'a>) -> Result<RequestMeta<'a>, JsonError> {
        match self.scanned {
            true => self.validate(),
            false => RequestMeta::from_params(request.params()),
        }
    }

    fn validate(&self) -> Result<RequestMeta<'a>, JsonError> {
        if let Some(wrong) = self.error {
            return Err(wrong.into());
        }
        // What is no string is judged when the params are read.
        let text = |member: Option<Raw<'a>>| member.and_then(Raw::string);
        Ok(RequestMeta {
            name: text(self.name),
            uri: text(self.uri),
            task_id: text(self.task_id),
            offered_version: text(self.offered_version),
            arguments: non_null(self.arguments),
            request_state: non_null(self.request_state),
            input_responses: non_null(self.input_responses),
            cursor: self.cursor,
            has_meta: self.has_meta,
            meta: self.meta.without_nulls(),
        })
    }

    /// Goes through params, in which so many containers are open.
    fn scan(&mut self, scanner: &mut Scanner<'a>, open: u32) -> Result<&'a str, JsonSyntaxError> {
        scanner.members(|scanner, key| {
            let (place, name) = match key {
                Some("_meta") => {
                    if std::mem::replace(&mut self.has_meta, true) {
                        self.error.get_or_insert(MetaScanError::Duplicate("_meta"));
                    }
                    return self.meta.scan(scanner, open, &mut self.error);
                }
                Some("cursor") => {
                    let cursor = CursorMember::Once(Raw::from_validated(scanner.value(open)?));
                    self.cursor = Some(if self.cursor.is_some() { CursorMember::Duplicate } else { cursor });
                    return Ok(());
                }
                Some("name") => (&mut self.name, "name"),
                Some("uri") => (&mut self.uri, "uri"),
                Some("taskId") => (&mut self.task_id, "taskId"),
                Some("protocolVersion") => (&mut self.offered_version, "protocolVersion"),
                Some("arguments") => (&mut self.arguments, "arguments"),
                Some("requestState") => (&mut self.request_state, "requestState"),
                Some("inputResponses") => (&mut self.input_responses, "inputResponses"),
                _ => {
                    if key.is_none() {
                        self.error.get_or_insert(MetaScanError::BadKey);
                    }
                    scanner.value(open)?;
                    return Ok(());
                }
            };
            if place.replace(Raw::from_validated(scanner.value(open)?)).is_some() {
                self.error.get_or_insert(MetaScanError::Duplicate(name));
            }
            Ok(())
        })
    }
}

impl<'a> ParamsVisitor<'a> for ScannedMeta<'a> {
    fn visit_params(&mut self, scanner: &mut Scanner<'a>, outside: u32) -> Result<&'a str, JsonSyntaxError> {
        // The params, `_meta` and what a client says of itself are opened here, so there must be room for them. Params
        // that stand there twice are refused with their message.
        if self.scanned || !next_is_object(scanner) || !scanner.allows_depth(outside + 3) {
            return scanner.value(outside);
        }
        self.scanned = true;
        self.scan(scanner, outside + 1)
    }
}

impl From<MetaScanError> for JsonError {
    fn from(wrong: MetaScanError) -> Self {
        let twice = |key| format!("duplicate field `{key}`");
        match wrong {
            MetaScanError::Duplicate(key) => JsonError::new(twice(key)),
            MetaScanError::BadKey => JsonSyntaxError.into(),
            MetaScanError::MetaDuplicate(key) => JsonError::new(format!("`_meta`: {}", twice(key))),
            MetaScanError::MetaBadKey => {
                JsonError::new(format!("`_meta`: {}", JsonError::from(JsonSyntaxError)))
            }
            MetaScanError::MetaNotAnObject => JsonError::new("`_meta`: expected an object"),
        }
    }
}

#[derive(Debug, Clone, Default)]
struct MetaMembers<'a> {
    version: Option<Raw<'a>>,
    capabilities: Option<Raw<'a>>,
    info: Option<ClientInfoMember<'a>>,
    log_level: Option<Raw<'a>>,
    progress_token: Option<Raw<'a>>,
}

impl<'a> MetaMembers<'a> {
    /// Goes through `_meta`, around which so many containers are open.
    fn scan(
        &mut self,
        scanner: &mut Scanner<'a>,
        outside: u32,
        wrong: &mut Option<MetaScanError>,
    ) -> Result<(), JsonSyntaxError> {
        if !next_is_object(scanner) {
            if !Raw::from_validated(scanner.value(outside)?).is_null() {
                wrong.get_or_insert(MetaScanError::MetaNotAnObject);
            }
            return Ok(());
        }
        let open = outside + 1;
        scanner.members(|scanner, key| {
            let (place, name) = match key {
                Some(CLIENT_INFO) => {
                    if self.info.replace(ClientInfoMember::scan(scanner, open, wrong)?).is_some() {
                        wrong.get_or_insert(MetaScanError::MetaDuplicate(CLIENT_INFO));
                    }
                    return Ok(());
                }
                Some(PROTOCOL_VERSION) => (&mut self.version, PROTOCOL_VERSION),
                Some(CLIENT_CAPABILITIES) => (&mut self.capabilities, CLIENT_CAPABILITIES),
                Some(LOG_LEVEL) => (&mut self.log_level, LOG_LEVEL),
                Some(PROGRESS_TOKEN) => (&mut self.progress_token, PROGRESS_TOKEN),
                _ => {
                    if key.is_none() {
                        wrong.get_or_insert(MetaScanError::MetaBadKey);
                    }
                    scanner.value(open)?;
                    return Ok(());
                }
            };
            if place.replace(Raw::from_validated(scanner.value(open)?)).is_some() {
                wrong.get_or_insert(MetaScanError::MetaDuplicate(name));
            }
            Ok::<_, JsonSyntaxError>(())
        })?;
        Ok(())
    }

    /// Without what is written as `null`.
    fn without_nulls(&self) -> Self {
        Self {
            version: non_null(self.version),
            capabilities: non_null(self.capabilities),
            info: self.info.filter(|info| !info.raw.is_null()),
            log_level: non_null(self.log_level),
            progress_token: self.progress_token,
        }
    }
}

/// What a client says of itself. Whether it says it well matters only to a request of the stateless era.
#[derive(Debug, Clone, Copy)]
struct ClientInfoMember<'a> {
    raw: Raw<'a>,
    name: Option<Raw<'a>>,
    version: Option<Raw<'a>>,
    /// There is more to read than the two.
    has_other_members: bool,
    is_valid: bool,
}

impl<'a> ClientInfoMember<'a> {
    fn scan(
        scanner: &mut Scanner<'a>,
        outside: u32,
        wrong: &mut Option<MetaScanError>,
    ) -> Result<Self, JsonSyntaxError> {
        let [mut name, mut version] = [None; 2];
        let (mut others, mut sound) = (false, true);
        let open = outside + 1;
        let whole = match next_is_object(scanner) {
            false => {
                sound = false;
                scanner.value(outside)?
            }
            true => scanner.members(|scanner, key| {
                let place = match key {
                    Some("name") => &mut name,
                    Some("version") => &mut version,
                    _ => {
                        if key.is_none() {
                            wrong.get_or_insert(MetaScanError::MetaBadKey);
                        }
                        others = true;
                        scanner.value(open)?;
                        return Ok(());
                    }
                };
                let value = Raw::from_validated(scanner.value(open)?);
                sound &= place.replace(value).is_none() && value.string().is_some();
                Ok::<_, JsonSyntaxError>(())
            })?,
        };
        sound &= name.is_some() && version.is_some();
        Ok(Self {
            raw: Raw::from_validated(whole),
            name,
            version,
            has_other_members: others,
            is_valid: sound,
        })
    }
}

fn next_is_object(scanner: &mut Scanner<'_>) -> bool {
    scanner.skip_space();
    scanner.peek() == Some(b'{')
}

/// An optional member may be written as `null`.
fn non_null(member: Option<Raw<'_>>) -> Option<Raw<'_>> {
    member.filter(|value| !value.is_null())
}
