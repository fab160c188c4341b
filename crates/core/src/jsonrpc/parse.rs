//! From bytes to a message, in one pass and without an allocation.

use super::error::{ErrorObject, Fault, Origin, Wrong};
use super::scan::{MAX_DEPTH, NotJson, Scanner, string};
use super::{Batch, Id, Incoming, Message, Notification, Raw, Request, Response};

/// How large a message may be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one message; 4 MiB unless told otherwise.
    pub message_bytes: usize,
    /// Open objects and arrays, the envelope included; 128 unless told otherwise, which is also the most.
    pub depth: u32,
    /// Bytes of one id as written; 4 KiB unless told otherwise. Ids are kept while their request runs.
    pub id_bytes: usize,
    /// Messages in one batch; 1,024 unless told otherwise.
    pub batch_messages: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { message_bytes: 4 << 20, depth: MAX_DEPTH, id_bytes: 4 << 10, batch_messages: 1024 }
    }
}

impl Limits {
    /// The same limits with another size for a message.
    #[must_use]
    pub fn message_bytes(mut self, bytes: usize) -> Self {
        self.message_bytes = bytes;
        self
    }

    /// The same limits with another length for an id.
    #[must_use]
    pub fn id_bytes(mut self, bytes: usize) -> Self {
        self.id_bytes = bytes;
        self
    }

    /// The same limits with another length for a batch.
    #[must_use]
    pub fn batch_messages(mut self, messages: usize) -> Self {
        self.batch_messages = messages;
        self
    }

    /// The same limits with another depth.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }
}

/// Reads one body or line.
///
/// Fails with a [`Fault`] that knows the error to send back, if one is due. Never panics, and allocates only for
/// what is rare: escaped method names and ids, errors, batches.
///
/// ```
/// use tsugite_core::jsonrpc::{Incoming, Limits, Message, parse};
///
/// let line = br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
/// let Ok(Incoming::Single(Message::Request(ping))) = parse(line, &Limits::default()) else { panic!() };
/// assert_eq!(ping.method, "ping");
///
/// let fault = parse(b"{oops", &Limits::default()).unwrap_err();
/// assert_eq!(fault.wrong.code(), -32700);
/// ```
pub fn parse<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Incoming<'a>, Fault> {
    parse_watched(bytes, limits, &mut ())
}

/// Whoever wants to see the params of a message while they are walked over.
pub(crate) trait Watch<'a> {
    /// Takes the params. `outside` is how many containers are already open.
    fn params(&mut self, scanner: &mut Scanner<'a>, outside: u32) -> Result<&'a str, NotJson>;
}

impl<'a> Watch<'a> for () {
    fn params(&mut self, scanner: &mut Scanner<'a>, outside: u32) -> Result<&'a str, NotJson> {
        scanner.value(outside)
    }
}

/// The same while `watch` sees the params, unless the message is one of several.
pub(crate) fn parse_watched<'a>(
    bytes: &'a [u8],
    limits: &Limits,
    watch: &mut impl Watch<'a>,
) -> Result<Incoming<'a>, Fault> {
    if bytes.len() > limits.message_bytes {
        return Err(Fault::too_long());
    }
    let unreadable = |wrong| Fault::new(wrong, Origin::Unreadable);
    let text = std::str::from_utf8(bytes).map_err(|_| unreadable(Wrong::NotUtf8))?;
    let mut scanner = Scanner::new(text, limits.depth);
    scanner.skip_space();
    match scanner.peek() {
        Some(b'{') => {
            let envelope =
                Envelope::scan(&mut scanner, 0, watch).map_err(|NotJson| unreadable(Wrong::NotJson))?;
            scanner.end().map_err(|NotJson| unreadable(Wrong::NotJson))?;
            envelope.judge(limits).map(Incoming::Single)
        }
        Some(b'[') => batch(&mut scanner, limits).map(Incoming::Batch),
        _ => {
            let whole = scanner.value(0).and_then(|_| scanner.end());
            Err(unreadable(whole.map_or(Wrong::NotJson, |()| Wrong::NotAnObject)))
        }
    }
}

fn batch<'a>(scanner: &mut Scanner<'a>, limits: &Limits) -> Result<Batch<'a>, Fault> {
    let unreadable = |wrong| Fault::new(wrong, Origin::Unreadable);
    let syntax = |NotJson| unreadable(Wrong::NotJson);
    let mut messages = Vec::new();
    scanner.expect(b'[').map_err(syntax)?;
    if scanner.take(b']') {
        scanner.end().map_err(syntax)?;
        return Err(unreadable(Wrong::EmptyBatch));
    }
    loop {
        if messages.len() >= limits.batch_messages {
            return Err(unreadable(Wrong::BatchTooLong));
        }
        scanner.skip_space();
        messages.push(if scanner.peek() == Some(b'{') {
            Envelope::scan(scanner, 1, &mut ()).map_err(syntax)?.judge(limits)
        } else {
            scanner.value(1).map_err(syntax)?;
            Err(unreadable(if scanner.take_too_deep() { Wrong::TooDeep } else { Wrong::NotAnObject }))
        });
        if scanner.take(b',') {
            continue;
        }
        scanner.expect(b']').map_err(syntax)?;
        scanner.end().map_err(syntax)?;
        return Batch::new(messages);
    }
}

/// The members of one object that mean something to JSON-RPC, as text, before they are judged together.
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
    fn scan(scanner: &mut Scanner<'a>, outside: u32, watch: &mut impl Watch<'a>) -> Result<Self, NotJson> {
        let mut envelope = Envelope::default();
        scanner.object(|scanner, key| {
            let value = match key {
                "params" => watch.params(scanner, outside + 1)?,
                _ => scanner.value(outside + 1)?,
            };
            envelope.too_deep |= scanner.take_too_deep();
            envelope.put(key, value);
            Ok::<_, NotJson>(())
        })?;
        Ok(envelope)
    }

    fn put(&mut self, key: &str, value: &'a str) {
        let slot = match key {
            "jsonrpc" => &mut self.jsonrpc,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "params" => &mut self.params,
            "result" => &mut self.result,
            "error" => &mut self.error,
            // Unknown members are tolerated, as often as they come.
            _ => return,
        };
        if slot.replace(value).is_some() {
            self.duplicate = true;
            self.duplicate_id |= key == "id";
        }
    }

    fn judge(self, limits: &Limits) -> Result<Message<'a>, Fault> {
        let id = self.read_id(limits);
        let fault = |wrong| Err(Fault::new(wrong, self.origin(&id)));
        if self.too_deep {
            return fault(Wrong::TooDeep);
        }
        if self.duplicate {
            return fault(Wrong::DuplicateMember);
        }
        if self.jsonrpc != Some("\"2.0\"") && self.jsonrpc.and_then(string).as_deref() != Some("2.0") {
            return fault(Wrong::NotVersion2);
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                let Some(method) = string(method) else {
                    // A string that means nothing is no JSON, as in an id or a key.
                    return fault(if method.starts_with('"') { Wrong::NotJson } else { Wrong::BadMethod });
                };
                if let Some(Err(wrong)) = id {
                    return fault(wrong);
                }
                if self.params.is_some_and(|params| !params.starts_with('{')) {
                    return fault(Wrong::ParamsNotAnObject);
                }
                let params = self.params.map(Raw::checked);
                Ok(match id.and_then(Result::ok) {
                    Some(id) => Message::Request(Request { id, method, params }),
                    None => Message::Notification(Notification { method, params }),
                })
            }
            (None, Some(result), None) => match id {
                Some(Ok(id)) => {
                    Ok(Message::Response(Response { id: Some(id), outcome: Ok(Raw::checked(result)) }))
                }
                Some(Err(wrong)) => fault(wrong),
                None => fault(Wrong::BadId),
            },
            (None, None, Some(error)) => {
                // Plain JSON-RPC peers write `null` where the id could not be read, newer ones leave it out.
                let null = self.id == Some("null");
                let id = match id {
                    Some(Err(wrong)) if !null => return fault(wrong),
                    id => id.and_then(Result::ok),
                };
                match Raw::checked(error).read_object::<ErrorObject>() {
                    Ok(error) => Ok(Message::Response(Response { id, outcome: Err(error) })),
                    Err(_) => Err(Fault::new(Wrong::BadError, Origin::Response(id.map(Id::into_owned)))),
                }
            }
            _ => fault(Wrong::NotAMessage),
        }
    }

    fn read_id(&self, limits: &Limits) -> Option<Result<Id<'a>, Wrong>> {
        let text = self.id?;
        Some(if self.duplicate_id {
            Err(Wrong::DuplicateMember)
        } else if text.len() > limits.id_bytes {
            Err(Wrong::IdTooLong)
        } else if text.starts_with('"') {
            string(text).map(Id::from_text).ok_or(Wrong::NotJson)
        } else {
            Id::from_number_text(text).ok_or(Wrong::BadId)
        })
    }

    /// What the object was meant to be: whatever has a method asks, whatever has only a result or an error answers.
    fn origin(&self, id: &Option<Result<Id<'a>, Wrong>>) -> Origin {
        let readable = || id.as_ref().and_then(|id| id.as_ref().ok()).map(|id| id.clone().into_owned());
        if self.method.is_none() && (self.result.is_some() || self.error.is_some()) {
            return Origin::Response(readable());
        }
        match readable() {
            Some(id) => Origin::Request(id),
            // What names no method in words cannot be told from a request whose id was lost.
            None if self.id.is_none() && self.method.and_then(string).is_some() => Origin::Notification,
            None => Origin::Unreadable,
        }
    }
}
