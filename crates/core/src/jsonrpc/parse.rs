//! Parses bytes into a message, in one pass and without allocating.

use super::error::{ErrorObject, InvalidMessage, ParseError, ParseErrorKind};
use super::scan::{JsonSyntaxError, MAX_DEPTH, Scanner, decode_string};
use super::{Batch, Id, Incoming, Message, Notification, Raw, Request, Response};

/// Limits on the size of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageLimits {
    /// The size of one message in bytes; by default 4 MiB.
    pub max_message_bytes: usize,
    /// The number of open objects and arrays, the envelope included; 128 by default and at most.
    pub max_depth: u32,
    /// The size of one id in bytes, as written; by default 4 KiB. Ids are kept while their request runs.
    pub max_id_bytes: usize,
    /// The number of messages in one batch; by default 1,024.
    pub max_batch_messages: usize,
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self {
            max_message_bytes: 4 << 20,
            max_depth: MAX_DEPTH,
            max_id_bytes: 4 << 10,
            max_batch_messages: 1024,
        }
    }
}

impl MessageLimits {
    /// Sets the size of one message in bytes.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Sets the size of one id in bytes.
    #[must_use]
    pub fn max_id_bytes(mut self, bytes: usize) -> Self {
        self.max_id_bytes = bytes;
        self
    }

    /// Sets the number of messages in one batch.
    #[must_use]
    pub fn max_batch_messages(mut self, messages: usize) -> Self {
        self.max_batch_messages = messages;
        self
    }

    /// Sets the nesting depth.
    #[must_use]
    pub fn max_depth(mut self, depth: u32) -> Self {
        self.max_depth = depth;
        self
    }
}

impl MessageLimits {
    /// The nesting depth that applies.
    fn depth(&self) -> usize {
        self.max_depth.min(MAX_DEPTH) as usize
    }
}

impl JsonSyntaxError {
    /// The error of a message that is not JSON from here on.
    fn at(self, scanner: &Scanner<'_>) -> ParseError {
        ParseError::new(ParseErrorKind::NotJson, InvalidMessage::UnreadableId).offset(scanner.position())
    }
}

/// Parses one body or line.
///
/// Fails with a [`ParseError`] that has the error to send back, if one must be sent. Never panics, and allocates only
/// in rare cases: escaped method names and ids, errors, batches.
///
/// ```
/// use tsugite_core::jsonrpc::{Incoming, MessageLimits, Message, parse};
///
/// let line = br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
/// let Ok(Incoming::Single(Message::Request(ping))) = parse(line, &MessageLimits::default()) else { panic!() };
/// assert_eq!(ping.method, "ping");
///
/// let error = parse(b"{oops", &MessageLimits::default()).unwrap_err();
/// assert_eq!(error.kind.code(), -32700);
/// ```
pub fn parse<'a>(bytes: &'a [u8], limits: &MessageLimits) -> Result<Incoming<'a>, ParseError> {
    parse_with_visitor(bytes, limits, &mut ())
}

/// Sees the params of a message while they are scanned.
pub(crate) trait ParamsVisitor<'a> {
    /// Scans the params. `outside` is the number of containers already open.
    fn visit_params(&mut self, scanner: &mut Scanner<'a>, outside: u32) -> Result<&'a str, JsonSyntaxError>;
}

impl<'a> ParamsVisitor<'a> for () {
    fn visit_params(&mut self, scanner: &mut Scanner<'a>, outside: u32) -> Result<&'a str, JsonSyntaxError> {
        scanner.value(outside)
    }
}

/// Parses like [`parse`] while `watch` sees the params, except those of messages in a batch.
pub(crate) fn parse_with_visitor<'a>(
    bytes: &'a [u8],
    limits: &MessageLimits,
    watch: &mut impl ParamsVisitor<'a>,
) -> Result<Incoming<'a>, ParseError> {
    if bytes.len() > limits.max_message_bytes {
        return Err(ParseError::too_long(limits.max_message_bytes));
    }
    let unreadable = |kind| ParseError::new(kind, InvalidMessage::UnreadableId);
    let text = std::str::from_utf8(bytes)
        .map_err(|error| unreadable(ParseErrorKind::NotUtf8).offset(error.valid_up_to()))?;
    let mut scanner = Scanner::new(text, limits.max_depth);
    scanner.skip_space();
    match scanner.peek() {
        Some(b'{') => {
            let envelope = Envelope::scan(&mut scanner, 0, watch).map_err(|error| error.at(&scanner))?;
            scanner.end().map_err(|error| error.at(&scanner))?;
            envelope.into_message(limits).map(Incoming::Single)
        }
        Some(b'[') => parse_batch(&mut scanner, limits).map(Incoming::Batch),
        _ => {
            let whole = scanner.value(0).and_then(|_| scanner.end());
            Err(whole.map_or_else(|error| error.at(&scanner), |()| unreadable(ParseErrorKind::NotAnObject)))
        }
    }
}

fn parse_batch<'a>(scanner: &mut Scanner<'a>, limits: &MessageLimits) -> Result<Batch<'a>, ParseError> {
    let unreadable = |kind| ParseError::new(kind, InvalidMessage::UnreadableId);
    let mut messages = Vec::new();
    scanner.expect(b'[').map_err(|error| error.at(scanner))?;
    if scanner.take(b']') {
        scanner.end().map_err(|error| error.at(scanner))?;
        return Err(unreadable(ParseErrorKind::EmptyBatch));
    }
    loop {
        if messages.len() >= limits.max_batch_messages {
            return Err(unreadable(ParseErrorKind::BatchTooLong).limit(limits.max_batch_messages));
        }
        scanner.skip_space();
        messages.push(if scanner.peek() == Some(b'{') {
            let envelope = Envelope::scan(scanner, 1, &mut ()).map_err(|error| error.at(scanner))?;
            envelope.into_message(limits)
        } else {
            scanner.value(1).map_err(|error| error.at(scanner))?;
            Err(if scanner.take_too_deep() {
                unreadable(ParseErrorKind::TooDeep).limit(limits.depth())
            } else {
                unreadable(ParseErrorKind::NotAnObject)
            })
        });
        if scanner.take(b',') {
            continue;
        }
        scanner.expect(b']').map_err(|error| error.at(scanner))?;
        scanner.end().map_err(|error| error.at(scanner))?;
        return Batch::new(messages);
    }
}

/// The members of the envelope, as text, before they are checked together.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a str>,
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
    duplicate: bool,
    duplicate_id: bool,
    too_deep: bool,
}

impl<'a> Envelope<'a> {
    fn scan(
        scanner: &mut Scanner<'a>,
        outside: u32,
        watch: &mut impl ParamsVisitor<'a>,
    ) -> Result<Self, JsonSyntaxError> {
        let mut envelope = Envelope::default();
        scanner.object(|scanner, key| {
            let value = match key {
                "params" => watch.visit_params(scanner, outside + 1)?,
                _ => scanner.value(outside + 1)?,
            };
            envelope.too_deep |= scanner.take_too_deep();
            envelope.set(key, value);
            Ok::<_, JsonSyntaxError>(())
        })?;
        Ok(envelope)
    }

    fn set(&mut self, key: &str, value: &'a str) {
        let slot = match key {
            "jsonrpc" => &mut self.jsonrpc,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "params" => &mut self.params,
            "result" => &mut self.result,
            "error" => &mut self.error,
            // Unknown members are ignored, duplicates too.
            _ => return,
        };
        if slot.replace(value).is_some() {
            self.duplicate = true;
            self.duplicate_id |= key == "id";
        }
    }

    fn into_message(self, limits: &MessageLimits) -> Result<Message<'a>, ParseError> {
        let id = self.parse_id(limits);
        let fail = |kind| {
            let error = ParseError::new(kind, self.classify(&id));
            Err(match kind {
                ParseErrorKind::TooDeep => error.limit(limits.depth()),
                ParseErrorKind::IdTooLong => error.limit(limits.max_id_bytes),
                _ => error,
            })
        };
        if self.too_deep {
            return fail(ParseErrorKind::TooDeep);
        }
        if self.duplicate {
            return fail(ParseErrorKind::DuplicateMember);
        }
        if self.jsonrpc != Some("\"2.0\"") && self.jsonrpc.and_then(decode_string).as_deref() != Some("2.0") {
            return fail(ParseErrorKind::NotJsonRpc2);
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                let Some(method) = decode_string(method) else {
                    // A string with an invalid escape is a syntax error, as in an id or a key.
                    return fail(if method.starts_with('"') {
                        ParseErrorKind::NotJson
                    } else {
                        ParseErrorKind::BadMethod
                    });
                };
                if let Some(Err(kind)) = id {
                    return fail(kind);
                }
                if self.params.is_some_and(|params| !params.starts_with('{')) {
                    return fail(ParseErrorKind::ParamsNotAnObject);
                }
                let params = self.params.map(Raw::from_validated);
                Ok(match id.and_then(Result::ok) {
                    Some(id) => Message::Request(Request { id, method, params }),
                    None => Message::Notification(Notification { method, params }),
                })
            }
            (None, Some(result), None) => match id {
                Some(Ok(id)) => {
                    Ok(Message::Response(Response { id: Some(id), outcome: Ok(Raw::from_validated(result)) }))
                }
                Some(Err(kind)) => fail(kind),
                None => fail(ParseErrorKind::BadId),
            },
            (None, None, Some(error)) => {
                // Some peers write `null` if the id could not be read, newer ones leave it out.
                let null = self.id == Some("null");
                let id = match id {
                    Some(Err(kind)) if !null => return fail(kind),
                    id => id.and_then(Result::ok),
                };
                match Raw::from_validated(error).read_object::<ErrorObject>() {
                    Ok(error) => Ok(Message::Response(Response { id, outcome: Err(error) })),
                    Err(_) => Err(ParseError::new(
                        ParseErrorKind::BadError,
                        InvalidMessage::Response(id.map(Id::into_owned)),
                    )),
                }
            }
            _ => fail(ParseErrorKind::NotAMessage),
        }
    }

    fn parse_id(&self, limits: &MessageLimits) -> Option<Result<Id<'a>, ParseErrorKind>> {
        let text = self.id?;
        Some(if self.duplicate_id {
            Err(ParseErrorKind::DuplicateMember)
        } else if text.len() > limits.max_id_bytes {
            Err(ParseErrorKind::IdTooLong)
        } else if text.starts_with('"') {
            decode_string(text).map(Id::from_text).ok_or(ParseErrorKind::NotJson)
        } else {
            Id::from_number_text(text).ok_or(ParseErrorKind::BadId)
        })
    }

    /// The kind of an invalid message: one with a method is a request or notification, one with only a result or an
    /// error is a response.
    fn classify(&self, id: &Option<Result<Id<'a>, ParseErrorKind>>) -> InvalidMessage {
        let readable = || id.as_ref().and_then(|id| id.as_ref().ok()).map(|id| id.clone().into_owned());
        if self.method.is_none() && (self.result.is_some() || self.error.is_some()) {
            return InvalidMessage::Response(readable());
        }
        match readable() {
            Some(id) => InvalidMessage::Request(id),
            // Without a readable method it cannot be told from a request whose id was lost.
            None if self.id.is_none() && self.method.and_then(decode_string).is_some() => {
                InvalidMessage::Notification
            }
            None => InvalidMessage::UnreadableId,
        }
    }
}
