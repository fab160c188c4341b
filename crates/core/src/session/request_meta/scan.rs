//! Collects the members of [`RequestMeta`] while the message is parsed.

use super::{CursorMember, RequestMeta, StringMember, non_null};
use crate::jsonrpc::{
    Incoming, JsonError, JsonSyntaxError, MessageLimits, ParamsVisitor, ParseError, Raw, Scanner,
    parse_with_visitor,
};
use crate::protocol::meta::{CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROGRESS_TOKEN, PROTOCOL_VERSION};

#[derive(Debug, Clone, Copy)]
pub(super) enum MetaScanError {
    Duplicate(&'static str),
    /// A key with an invalid escape.
    BadKey,
    MetaDuplicate(&'static str),
    MetaBadKey,
    MetaNotAnObject,
}

/// Parses one body or line as [`jsonrpc::parse`](crate::jsonrpc::parse) does and collects the members of its params in
/// the same pass. Only the params of a single message are collected, not those of a batch.
pub fn parse_with_meta<'a>(
    bytes: &'a [u8],
    limits: &MessageLimits,
    meta: &mut RequestMeta<'a>,
) -> Result<Incoming<'a>, ParseError> {
    parse_with_visitor(bytes, limits, meta)
}

impl<'a> RequestMeta<'a> {
    /// Scans params. `open` is the number of containers that are open inside them.
    pub(super) fn scan(&mut self, scanner: &mut Scanner<'a>, open: u32) -> Result<&'a str, JsonSyntaxError> {
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
                Some("name") => return set_string(&mut self.name, "name", scanner, open, &mut self.error),
                Some("uri") => return set_string(&mut self.uri, "uri", scanner, open, &mut self.error),
                Some("taskId") => {
                    return set_string(&mut self.task_id, "taskId", scanner, open, &mut self.error);
                }
                Some("protocolVersion") => {
                    let place = &mut self.offered_version;
                    return set_string(place, "protocolVersion", scanner, open, &mut self.error);
                }
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

fn set_string<'a>(
    place: &mut StringMember<'a>,
    name: &'static str,
    scanner: &mut Scanner<'a>,
    open: u32,
    error: &mut Option<MetaScanError>,
) -> Result<(), JsonSyntaxError> {
    let value = Raw::from_validated(scanner.value(open)?).string();
    let value = value.map_or(StringMember::NotAString, StringMember::Text);
    if !matches!(std::mem::replace(place, value), StringMember::Absent) {
        error.get_or_insert(MetaScanError::Duplicate(name));
    }
    Ok(())
}

impl<'a> ParamsVisitor<'a> for RequestMeta<'a> {
    fn visit_params(&mut self, scanner: &mut Scanner<'a>, outside: u32) -> Result<&'a str, JsonSyntaxError> {
        // Params, `_meta` and `clientInfo` are opened here, so the depth limit must allow all three. Duplicate params
        // are rejected with the message.
        if self.scanned || !next_is_object(scanner) || !scanner.allows_depth(outside + 3) {
            return scanner.value(outside);
        }
        self.scanned = true;
        self.scan(scanner, outside + 1)
    }
}

impl From<MetaScanError> for JsonError {
    fn from(error: MetaScanError) -> Self {
        let duplicate = |key| format!("duplicate field `{key}`");
        match error {
            MetaScanError::Duplicate(key) => JsonError::new(duplicate(key)),
            MetaScanError::BadKey => JsonSyntaxError.into(),
            MetaScanError::MetaDuplicate(key) => JsonError::new(format!("`_meta`: {}", duplicate(key))),
            MetaScanError::MetaBadKey => {
                JsonError::new(format!("`_meta`: {}", JsonError::from(JsonSyntaxError)))
            }
            MetaScanError::MetaNotAnObject => JsonError::new("`_meta`: expected an object"),
        }
    }
}

/// The members of `_meta` that are needed early.
#[derive(Debug, Clone, Default)]
pub(super) struct MetaMembers<'a> {
    version: Option<Raw<'a>>,
    capabilities: Option<Raw<'a>>,
    info: Option<ClientInfoMember<'a>>,
    log_level: Option<Raw<'a>>,
    progress_token: Option<Raw<'a>>,
}

impl<'a> MetaMembers<'a> {
    /// Scans `_meta`. `outside` is the number of containers open around it.
    fn scan(
        &mut self,
        scanner: &mut Scanner<'a>,
        outside: u32,
        error: &mut Option<MetaScanError>,
    ) -> Result<(), JsonSyntaxError> {
        if !next_is_object(scanner) {
            if !Raw::from_validated(scanner.value(outside)?).is_null() {
                error.get_or_insert(MetaScanError::MetaNotAnObject);
            }
            return Ok(());
        }
        let open = outside + 1;
        scanner.members(|scanner, key| {
            let (place, name) = match key {
                Some(CLIENT_INFO) => {
                    if self.info.replace(ClientInfoMember::scan(scanner, open, error)?).is_some() {
                        error.get_or_insert(MetaScanError::MetaDuplicate(CLIENT_INFO));
                    }
                    return Ok(());
                }
                Some(PROTOCOL_VERSION) => (&mut self.version, PROTOCOL_VERSION),
                Some(CLIENT_CAPABILITIES) => (&mut self.capabilities, CLIENT_CAPABILITIES),
                Some(LOG_LEVEL) => (&mut self.log_level, LOG_LEVEL),
                Some(PROGRESS_TOKEN) => (&mut self.progress_token, PROGRESS_TOKEN),
                _ => {
                    if key.is_none() {
                        error.get_or_insert(MetaScanError::MetaBadKey);
                    }
                    scanner.value(open)?;
                    return Ok(());
                }
            };
            if place.replace(Raw::from_validated(scanner.value(open)?)).is_some() {
                error.get_or_insert(MetaScanError::MetaDuplicate(name));
            }
            Ok::<_, JsonSyntaxError>(())
        })?;
        Ok(())
    }

    pub(super) fn version(&self) -> Option<Raw<'a>> {
        non_null(self.version)
    }

    pub(super) fn capabilities(&self) -> Option<Raw<'a>> {
        non_null(self.capabilities)
    }

    pub(super) fn info(&self) -> Option<ClientInfoMember<'a>> {
        self.info.filter(|info| !info.raw.is_null())
    }

    pub(super) fn log_level(&self) -> Option<Raw<'a>> {
        non_null(self.log_level)
    }

    pub(super) fn progress_token(&self) -> Option<Raw<'a>> {
        self.progress_token
    }
}

/// `clientInfo`. Whether it is valid matters only to a request of the stateless era.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientInfoMember<'a> {
    pub(super) raw: Raw<'a>,
    pub(super) name: Option<Raw<'a>>,
    pub(super) version: Option<Raw<'a>>,
    /// Whether there are members besides `name` and `version`.
    pub(super) has_other_members: bool,
    pub(super) is_valid: bool,
}

impl<'a> ClientInfoMember<'a> {
    fn scan(
        scanner: &mut Scanner<'a>,
        outside: u32,
        error: &mut Option<MetaScanError>,
    ) -> Result<Self, JsonSyntaxError> {
        let [mut name, mut version] = [None; 2];
        let (mut has_other_members, mut is_valid) = (false, true);
        let open = outside + 1;
        let text = match next_is_object(scanner) {
            false => {
                is_valid = false;
                scanner.value(outside)?
            }
            true => scanner.members(|scanner, key| {
                let place = match key {
                    Some("name") => &mut name,
                    Some("version") => &mut version,
                    _ => {
                        if key.is_none() {
                            error.get_or_insert(MetaScanError::MetaBadKey);
                        }
                        has_other_members = true;
                        scanner.value(open)?;
                        return Ok(());
                    }
                };
                let value = Raw::from_validated(scanner.value(open)?);
                is_valid &= place.replace(value).is_none() && value.string().is_some();
                Ok::<_, JsonSyntaxError>(())
            })?,
        };
        is_valid &= name.is_some() && version.is_some();
        Ok(Self { raw: Raw::from_validated(text), name, version, has_other_members, is_valid })
    }
}

fn next_is_object(scanner: &mut Scanner<'_>) -> bool {
    scanner.skip_space();
    scanner.peek() == Some(b'{')
}
