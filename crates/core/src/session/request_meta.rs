//! What of a request must be known before it is read into its type: who says it, in which version, about what.

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::*;
    use crate::jsonrpc::RawJson;
    use crate::protocol::pagination::PaginatedParams;

    #[test]
    fn each_missing_or_malformed_key_is_named() {
        // VER-004 the two required keys, VER-006 the one that may be absent.
        let sender = |json: &str| {
            let params = RawJson::parse(json).unwrap();
            RequestMeta::from_params(Raw::from(&params))
                .unwrap()
                .declared_client()
                .map(|_| ())
                .map_err(|refusal| refusal.to_string())
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

    /// The same members by way of serde, which knows nothing of how we walk.
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Option<&'a RawValue>,
        name: Option<Value>,
        #[serde(rename = "protocolVersion")]
        protocol_version: Option<Value>,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }

    #[test]
    fn a_cursor_is_seen_as_the_params_of_a_list_are_read() {
        for text in [
            "{}",
            "{\"cursor\":null}",
            "{\"cursor\":\"\"}",
            "{\"cursor\":\"a\\u0062\"}",
            "{\"c\\u0075rsor\":\"a\"}",
            "{\"cursor\":\"\\ud800\"}",
            "{\"cursor\":7}",
            "{\"cursor\":{}}",
            "{\"cursor\":\"a\",\"cursor\":\"a\"}",
        ] {
            let params = RawJson::parse(text).unwrap();
            let seen = RequestMeta::from_params(Raw::from(&params))
                .unwrap()
                .cursor()
                .ok()
                .map(|it| it.map(Cow::into_owned));
            let read = Raw::from(&params).read::<PaginatedParams>().ok().map(|params| params.cursor);
            assert_eq!(seen, read, "{text}");
            assert_same_while_parsing(text, 128);
        }
    }

    #[derive(Default, Deserialize)]
    struct ParamsMeta {
        #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
        version: Option<Value>,
        #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
        capabilities: Option<Value>,
        #[serde(rename = "io.modelcontextprotocol/clientInfo")]
        info: Option<Box<RawValue>>,
        #[serde(rename = "io.modelcontextprotocol/logLevel")]
        level: Option<Value>,
        #[serde(rename = "progressToken")]
        token: Option<Box<RawValue>>,
    }

    #[derive(Deserialize)]
    struct NameAndVersion {
        #[serde(rename = "name")]
        _name: String,
        #[serde(rename = "version")]
        _version: String,
    }

    /// What is seen on the way is what is seen afterwards, and the message is the same.
    fn assert_same_while_parsing(params: &str, depth: u32) {
        let line = format!(r#"{{"jsonrpc":"2.0","params": {params},"id":1,"method":"tools/call"}}"#);
        let limits = MessageLimits::default().max_depth(depth);
        let mut seen = ScannedMeta::default();
        let ours = parse_with_meta(line.as_bytes(), &limits, &mut seen);
        let theirs = crate::jsonrpc::parse(line.as_bytes(), &limits);
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{line}");
        if let Ok(Incoming::Single(Message::Request(request))) = &ours {
            let (on_the_way, afterwards) =
                (seen.request_meta(request), RequestMeta::from_params(request.params()));
            assert_eq!(format!("{on_the_way:?}"), format!("{afterwards:?}"), "{line}");
        }
    }

    fn assert_matches_serde(text: &str) {
        for depth in [1, 2, 3, 4, 5, 6, 128] {
            assert_same_while_parsing(text, depth);
        }
        let params = RawJson::parse(text).unwrap();
        let ours = RequestMeta::from_params(Raw::from(&params));
        let theirs = serde_json::from_str::<Params<'_>>(text).ok().and_then(|params| {
            let meta = match params.meta {
                None => ParamsMeta::default(),
                Some(meta) if meta.get().starts_with('{') => serde_json::from_str(meta.get()).ok()?,
                Some(_) => return None,
            };
            Some((params, meta))
        });
        let (Ok(ours), Some((params, meta))) = (&ours, &theirs) else {
            assert!(ours.is_err() && theirs.is_none(), "{text}");
            return;
        };
        let word = |value: &Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_owned);
        assert_eq!(ours.mcp_name("tools/call").unwrap().map(str::to_owned), word(&params.name), "{text}");
        assert_eq!(ours.offered_version().map(str::to_owned), word(&params.protocol_version), "{text}");
        assert_eq!(ours.arguments().map(Raw::text), params.arguments.map(RawValue::get), "{text}");
        let token = meta.token.as_ref().and_then(|token| serde_json::from_str(token.get()).ok());
        assert_eq!(ours.progress_token(), token, "{text}");
        let claim = match &meta.version {
            None => ClaimedVersion::None,
            Some(Value::String(version)) => ClaimedVersion::Version(version.into()),
            Some(_) => ClaimedVersion::Malformed,
        };
        assert_eq!(ours.claimed_version(), claim, "{text}");
        let info = meta.info.as_ref().map(|info| info.get());
        let sound = matches!(claim, ClaimedVersion::Version(_))
            && meta.capabilities.as_ref().is_some_and(Value::is_object)
            && meta.level.as_ref().is_none_or(|level| level == "info")
            && info.is_none_or(|info| {
                info.starts_with('{') && serde_json::from_str::<NameAndVersion>(info).is_ok()
            });
        match ours.declared_client() {
            Ok(sender) => {
                assert!(sound, "{text}");
                assert_eq!(sender.info(), info.and_then(|info| serde_json::from_str(info).ok()), "{text}");
            }
            Err(_) => assert!(!sound, "{text}"),
        }
    }

    /// An object of such members, with some of them twice and some in other words.
    fn object(keys: &'static [&'static str], values: BoxedStrategy<String>) -> BoxedStrategy<String> {
        let space = || prop::sample::select(vec!["", "", "", " ", "\n\t"]);
        let member =
            (prop::sample::select(keys), values, space(), space()).prop_map(|(key, value, before, after)| {
                format!("{before}\"{key}\"{after}:{before}{value}{after}")
            });
        prop::collection::vec(member, 0..5).prop_map(|members| format!("{{{}}}", members.join(","))).boxed()
    }

    fn params() -> BoxedStrategy<String> {
        let values = [
            "null",
            "{}",
            "[]",
            "7",
            "-1.5e3",
            "true",
            "\"\"",
            "\"echo\"",
            "\"a\\\"b\\u00e9\"",
            "\"2026-07-28\"",
            "\"info\"",
            "\"\\\\\"",
            "{\"a\":{\"}\":\"{\\\"\"},\"b\":[1,[]]}",
            "[\"x\",{\"name\":1}]",
            "{ }",
        ];
        let value = prop::sample::select(values.to_vec()).prop_map(str::to_owned).boxed();
        let info = object(&["name", "version", "v\\u0065rsion", "title"], value.clone());
        let meta = object(
            &[
                PROTOCOL_VERSION,
                CLIENT_CAPABILITIES,
                CLIENT_INFO,
                CLIENT_INFO,
                LOG_LEVEL,
                PROGRESS_TOKEN,
                "io.modelcontextprotocol\\/protocolVersion",
                "com.example/x",
            ],
            prop_oneof![3 => value.clone(), 1 => info].boxed(),
        );
        object(
            &["_meta", "_meta", "\\u005fmeta", "name", "n\\u0061me", "protocolVersion", "arguments", "x"],
            prop_oneof![value, meta].boxed(),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn what_is_seen_is_what_serde_reads(params in params()) {
            assert_matches_serde(&params);
        }
    }

    #[test]
    fn what_is_no_json_is_refused_as_if_nobody_looked() {
        let bad = [
            "{\"name\":}",
            "{\"name\" 1}",
            "{\"_meta\":{\"x\":1,}}",
            "{\"_meta\":{\"io.modelcontextprotocol/clientInfo\":{\"name\":tru}}}",
            "{\"\\ud800\":1}",
            "{\"_meta\":{\"\\ud800\":1}}",
            "{\"_meta\":{\"io.modelcontextprotocol/clientInfo\":{\"\\ud800\":1}}}",
            "{\"name\":1,\"name\":2}",
            "{\"_meta\":7}",
            "7",
            "{},\"params\":{\"name\":\"x\"}",
            "{",
            "{\"arguments\":[[[[[[[[]]]]]]]],\"name\":\"x\"}",
        ];
        for params in bad {
            for depth in [1, 2, 3, 4, 5, 6, 7, 128] {
                assert_same_while_parsing(params, depth);
            }
        }
    }

    #[test]
    fn a_sender_is_seen_as_serde_reads_it_whatever_it_says() {
        let capabilities = ["{}", "{ }", "[]", "{\"sampling\":{}}"];
        let infos = [
            "null",
            "{}",
            "7",
            "[\"c\",\"1\"]",
            "{\"name\":\"c\"}",
            "{\"name\":\"c\",\"version\":1}",
            "{\"name\":\"c\",\"version\":\"1\"}",
            "{\"version\":\"\\u0031\",\"name\":\"c\",\"title\":\"C\"}",
            "{\"name\":\"c\",\"version\":\"1\",\"name\":\"c\"}",
            "{\"name\":\"c\",\"version\":\"1\",\"title\":7}",
        ];
        for (capabilities, info) in capabilities.iter().flat_map(|it| infos.map(|info| (it, info))) {
            assert_matches_serde(&format!(
                r#"{{"_meta":{{"{PROTOCOL_VERSION}":"v","{CLIENT_CAPABILITIES}":{capabilities},"{CLIENT_INFO}":{info}}}}}"#
            ));
        }
    }
}
