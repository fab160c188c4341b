//! Writes messages into a buffer.
//!
//! Each function appends one complete message, or fails and leaves the buffer unchanged.

use serde::Serialize;

use super::{
    ErrorObject, Id, Incoming, JsonError, Message, Notification, Raw, RawJson, Request, Response,
    json_serializer,
};

/// Writes a value. A trait object, so that the code around it is generated once and not for each type.
type WriteValue<'a> = &'a mut dyn FnMut(&mut Vec<u8>) -> Result<(), JsonError>;

/// Appends a request. `params` must serialize as an object.
pub fn request<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    method: &str,
    params: Option<&P>,
) -> Result<(), JsonError> {
    match params {
        Some(params) => {
            write_call(out, Some(id), method, Some(&mut |out| Ok(json_serializer::write_value(out, params)?)))
        }
        None => write_call(out, Some(id), method, None),
    }
}

/// Appends a request whose params begin with `members`, JSON members as text (key, colon, value).
pub fn request_with_members<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    method: &str,
    members: &[&str],
    params: &P,
) -> Result<(), JsonError> {
    request_with_writer(out, id, method, members, &mut |out| Ok(json_serializer::write_value(out, params)?))
}

/// Appends a request whose params are JSON already, with `members` inserted at the front. Fails if they are not an
/// object.
pub fn raw_request(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    method: &str,
    members: &[&str],
    params: Raw<'_>,
) -> Result<(), JsonError> {
    request_with_writer(out, id, method, members, &mut |out| {
        out.extend_from_slice(params.text().as_bytes());
        Ok(())
    })
}

fn request_with_writer(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    method: &str,
    members: &[&str],
    params: WriteValue<'_>,
) -> Result<(), JsonError> {
    write_or_truncate(out, &mut |out| {
        begin_message(out, id);
        out.extend_from_slice(b",\"method\":");
        json_serializer::write_string(out, method);
        out.extend_from_slice(b",\"params\":");
        write_object_with_members(out, members, params)?;
        out.push(b'}');
        Ok(())
    })
}

/// Appends a notification. `params` must serialize as an object.
pub fn notification<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    method: &str,
    params: Option<&P>,
) -> Result<(), JsonError> {
    match params {
        Some(params) => {
            write_call(out, None, method, Some(&mut |out| Ok(json_serializer::write_value(out, params)?)))
        }
        None => write_call(out, None, method, None),
    }
}

/// Appends a result, which must serialize as an object.
pub fn result<R: Serialize + ?Sized>(out: &mut Vec<u8>, id: &Id<'_>, result: &R) -> Result<(), JsonError> {
    result_with_members(out, id, &[], result)
}

/// Appends a result whose object begins with `members`, JSON members as text (key, colon, value).
///
/// Adds the members that every result of a revision carries without building the result again.
pub fn result_with_members<R: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    members: &[&str],
    result: &R,
) -> Result<(), JsonError> {
    result_with_writer(out, id, members, &mut |out| Ok(json_serializer::write_value(out, result)?))
}

fn result_with_writer(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    members: &[&str],
    result: WriteValue<'_>,
) -> Result<(), JsonError> {
    write_or_truncate(out, &mut |out| {
        begin_message(out, id);
        out.extend_from_slice(b",\"result\":");
        write_object_with_members(out, members, result)?;
        out.push(b'}');
        Ok(())
    })
}

/// Appends a result that is JSON text already, such as a cached one.
pub fn raw_result(out: &mut Vec<u8>, id: &Id<'_>, result: &RawJson) {
    begin_message(out, id);
    out.extend_from_slice(b",\"result\":");
    out.extend_from_slice(result.text().as_bytes());
    out.push(b'}');
}

/// Appends an error. An unknown id is written as `null` or left out, as the peer's revision requires.
pub fn error(out: &mut Vec<u8>, id: Option<&Id<'_>>, null_if_unknown: bool, error: &ErrorObject) {
    match id {
        Some(id) => begin_message(out, id),
        None if null_if_unknown => out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":null"),
        None => out.extend_from_slice(b"{\"jsonrpc\":\"2.0\""),
    }
    out.extend_from_slice(b",\"error\":");
    // An integer, a string and JSON text cannot fail to serialize.
    drop(json_serializer::write_value(out, error));
    out.push(b'}');
}

impl Incoming<'_> {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), JsonError> {
        match self {
            Incoming::Single(message) => message.write(out),
            Incoming::Batch(batch) => write_or_truncate(out, &mut |out| {
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
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), JsonError> {
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
                    Some(id) => begin_message(out, id),
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

fn write_or_truncate(out: &mut Vec<u8>, write: WriteValue<'_>) -> Result<(), JsonError> {
    let start = out.len();
    let written = write(out);
    if written.is_err() {
        out.truncate(start);
    }
    written
}

fn begin_message(out: &mut Vec<u8>, id: &Id<'_>) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    id.write(out);
}

/// Appends a request, or a notification if there is no id.
fn write_call(
    out: &mut Vec<u8>,
    id: Option<&Id<'_>>,
    method: &str,
    mut params: Option<WriteValue<'_>>,
) -> Result<(), JsonError> {
    write_or_truncate(out, &mut |out| {
        match id {
            Some(id) => begin_message(out, id),
            None => out.extend_from_slice(b"{\"jsonrpc\":\"2.0\""),
        }
        out.extend_from_slice(b",\"method\":");
        json_serializer::write_string(out, method);
        if let Some(params) = &mut params {
            out.extend_from_slice(b",\"params\":");
            write_object_with_members(out, &[], params)?;
        }
        out.push(b'}');
        Ok(())
    })
}

/// Appends the object that `write` writes, with `members` inserted at its front.
fn write_object_with_members(
    out: &mut Vec<u8>,
    members: &[&str],
    write: WriteValue<'_>,
) -> Result<(), JsonError> {
    let front = out.len();
    for member in members {
        out.push(if out.len() == front { b'{' } else { b',' });
        out.extend_from_slice(member.as_bytes());
    }
    let start = out.len();
    write(out)?;
    // Forwarded JSON may have whitespace between its braces.
    let empty = out.get(start + 1..).is_some_and(|rest| rest.trim_ascii() == b"}");
    match out.get_mut(start) {
        Some(brace) if *brace == b'{' => {
            // `{members` and `{value}` become `{members,value}` by replacing the inner brace with a comma.
            if start > front && !empty {
                *brace = b',';
            }
        }
        _ => return Err(JsonError::new("params and results must be JSON objects")),
    }
    if start > front && empty {
        out.truncate(start);
        out.push(b'}');
    }
    Ok(())
}
