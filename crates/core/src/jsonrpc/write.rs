//! Messages straight into a buffer.
//!
//! Each function appends one whole message, or fails and leaves the buffer as it was.

use serde::Serialize;

use super::{
    BadShape, ErrorObject, Id, Incoming, Message, Notification, Raw, RawJson, Request, Response, emit,
};

/// Writes a value. What stands around it is the same for all and so built once.
type Value<'a> = &'a mut dyn FnMut(&mut Vec<u8>) -> Result<(), BadShape>;

/// Appends a request. `params` must come out as an object.
pub fn request<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    method: &str,
    params: Option<&P>,
) -> Result<(), BadShape> {
    match params {
        Some(params) => call(out, Some(id), method, Some(&mut |out| Ok(emit::value(out, params)?))),
        None => call(out, Some(id), method, None),
    }
}

/// Appends a request whose params begin with `members`, each a JSON member as text: a key, a colon, a value.
pub fn request_with<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    method: &str,
    members: &[&str],
    params: &P,
) -> Result<(), BadShape> {
    request_around(out, id, method, members, &mut |out| Ok(emit::value(out, params)?))
}

/// Appends a request whose params are written already, with `members` at their front. Fails when they are no object.
pub fn raw_request(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    method: &str,
    members: &[&str],
    params: Raw<'_>,
) -> Result<(), BadShape> {
    request_around(out, id, method, members, &mut |out| {
        out.extend_from_slice(params.text().as_bytes());
        Ok(())
    })
}

fn request_around(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    method: &str,
    members: &[&str],
    params: Value<'_>,
) -> Result<(), BadShape> {
    whole(out, &mut |out| {
        open_with_id(out, id);
        out.extend_from_slice(b",\"method\":");
        emit::string(out, method);
        out.extend_from_slice(b",\"params\":");
        join_object(out, members, params)?;
        out.push(b'}');
        Ok(())
    })
}

/// Appends a notification. `params` must come out as an object.
pub fn notification<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    method: &str,
    params: Option<&P>,
) -> Result<(), BadShape> {
    match params {
        Some(params) => call(out, None, method, Some(&mut |out| Ok(emit::value(out, params)?))),
        None => call(out, None, method, None),
    }
}

/// Appends a result. It must come out as an object.
pub fn result<R: Serialize + ?Sized>(out: &mut Vec<u8>, id: &Id<'_>, result: &R) -> Result<(), BadShape> {
    result_with(out, id, &[], result)
}

/// Appends a result whose object begins with `members`, each a JSON member as text: a key, a colon, a value.
///
/// This is how members that every result of a revision carries are added without building the result again.
pub fn result_with<R: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    members: &[&str],
    result: &R,
) -> Result<(), BadShape> {
    result_around(out, id, members, &mut |out| Ok(emit::value(out, result)?))
}

fn result_around(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    members: &[&str],
    result: Value<'_>,
) -> Result<(), BadShape> {
    whole(out, &mut |out| {
        open_with_id(out, id);
        out.extend_from_slice(b",\"result\":");
        join_object(out, members, result)?;
        out.push(b'}');
        Ok(())
    })
}

/// Appends a result that is already JSON text, such as one that was written before and kept.
pub fn raw_result(out: &mut Vec<u8>, id: &Id<'_>, result: &RawJson) {
    open_with_id(out, id);
    out.extend_from_slice(b",\"result\":");
    out.extend_from_slice(result.text().as_bytes());
    out.push(b'}');
}

/// Appends an error. Without an id it is `null` or absent, as the peer's revision wants it.
pub fn error(out: &mut Vec<u8>, id: Option<&Id<'_>>, null_if_unknown: bool, error: &ErrorObject) {
    match id {
        Some(id) => open_with_id(out, id),
        None if null_if_unknown => out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":null"),
        None => out.extend_from_slice(b"{\"jsonrpc\":\"2.0\""),
    }
    out.extend_from_slice(b",\"error\":");
    // An integer, a string and JSON text: this cannot fail.
    drop(emit::value(out, error));
    out.push(b'}');
}

impl Incoming<'_> {
    /// Appends it as it would have been written here.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), BadShape> {
        match self {
            Incoming::Single(message) => message.write(out),
            Incoming::Batch(batch) => whole(out, &mut |out| {
                for (index, message) in batch.messages().iter().enumerate() {
                    out.push(if index == 0 { b'[' } else { b',' });
                    match message {
                        Ok(message) => message.write(out)?,
                        Err(_) => out.extend_from_slice(b"null"),
                    }
                }
                out.push(b']');
                Ok(())
            }),
        }
    }
}

impl Message<'_> {
    /// Appends it as it would have been written here.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), BadShape> {
        match self {
            Message::Request(Request { id, method, params }) => request(out, id, method, params.as_ref()),
            Message::Notification(Notification { method, params }) => {
                notification(out, method, params.as_ref())
            }
            Message::Response(Response { id, outcome: Err(object) }) => {
                error(out, id.as_ref(), true, object);
                Ok(())
            }
            Message::Response(Response { id, outcome: Ok(raw) }) => {
                match id {
                    Some(id) => open_with_id(out, id),
                    None => out.extend_from_slice(b"{\"jsonrpc\":\"2.0\""),
                }
                out.extend_from_slice(b",\"result\":");
                out.extend_from_slice(raw.text().as_bytes());
                out.push(b'}');
                Ok(())
            }
        }
    }
}

fn whole(out: &mut Vec<u8>, write: Value<'_>) -> Result<(), BadShape> {
    let start = out.len();
    let written = write(out);
    if written.is_err() {
        out.truncate(start);
    }
    written
}

fn open_with_id(out: &mut Vec<u8>, id: &Id<'_>) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    id.write(out);
}

/// A request, or without an id a notification.
fn call(
    out: &mut Vec<u8>,
    id: Option<&Id<'_>>,
    method: &str,
    mut params: Option<Value<'_>>,
) -> Result<(), BadShape> {
    whole(out, &mut |out| {
        match id {
            Some(id) => open_with_id(out, id),
            None => out.extend_from_slice(b"{\"jsonrpc\":\"2.0\""),
        }
        out.extend_from_slice(b",\"method\":");
        emit::string(out, method);
        if let Some(params) = &mut params {
            out.extend_from_slice(b",\"params\":");
            join_object(out, &[], params)?;
        }
        out.push(b'}');
        Ok(())
    })
}

/// Appends what `write` writes, which must be an object, with `members` at its front.
fn join_object(out: &mut Vec<u8>, members: &[&str], write: Value<'_>) -> Result<(), BadShape> {
    let front = out.len();
    for member in members {
        out.push(if out.len() == front { b'{' } else { b',' });
        out.extend_from_slice(member.as_bytes());
    }
    let start = out.len();
    write(out)?;
    // Raw JSON passed on may have space between its braces.
    let empty = out.get(start + 1..).is_some_and(|rest| rest.trim_ascii() == b"}");
    match out.get_mut(start) {
        Some(brace) if *brace == b'{' => {
            // `{members` and `{value}` become `{members,value}` by turning the inner brace into a comma.
            if start > front && !empty {
                *brace = b',';
            }
        }
        _ => return Err(BadShape::new("params and results must be JSON objects")),
    }
    if start > front && empty {
        out.truncate(start);
        out.push(b'}');
    }
    Ok(())
}
