//! A commit as one call of a script.

use bytes::{Bytes, BytesMut};
use redis::Value;
use tsugite_store::{
    Append, Committed, Conflict, MAX_KEY_BYTES, MAX_VALUE_BYTES, Precondition, Recipient, StoreError, Write,
};

use crate::messages::{BROADCAST_TTL, MAX_BROADCASTS, MAX_INBOX};
use crate::reply::{self, Read};
use crate::script::{COMMIT, Call, Request};
use crate::settings::{Settings, milliseconds};

/// Encodes writes, or fails if one is too large.
pub(crate) fn request(
    settings: &Settings,
    writes: &[Write<'_>],
    version: u64,
) -> Result<Request, StoreError> {
    if writes.iter().filter(|write| matches!(write, Write::Append(_))).count() > 1 {
        return Err("a commit has more than one append".into());
    }
    let mut call = Call::new(&COMMIT);
    for write in writes {
        check_sizes(write)?;
        encode(settings, &mut call, write, version)?;
    }
    Ok(Request::Script(call))
}

pub(crate) fn read(reply: Value, version: u64) -> Read<Result<Committed, Conflict>> {
    let [write, rest] = reply::tuple(reply)?;
    match usize::try_from(reply::integer(write)?) {
        Ok(write) => Ok(Err(Conflict { write, current: reply::field(rest)? })),
        Err(_) => {
            let last_event = u64::try_from(reply::integer(rest)?).unwrap_or(0);
            Ok(Ok(Committed { version, last_event }))
        }
    }
}

fn encode(settings: &Settings, call: &mut Call, write: &Write<'_>, version: u64) -> Result<(), StoreError> {
    match write {
        Write::Set { key, field, value, precondition, ttl } => {
            let mut versioned = BytesMut::with_capacity(8 + value.len());
            versioned.extend_from_slice(&version.to_be_bytes());
            versioned.extend_from_slice(value);
            call.push_key(settings.record_key(key));
            call.push(Bytes::from_static(b"S"));
            call.push(Bytes::copy_from_slice(field.as_bytes()));
            call.push(encode_precondition(*precondition));
            call.push(milliseconds(*ttl).to_string());
            call.push(versioned.freeze());
        }
        Write::Remove { key, field, precondition } => {
            call.push_key(settings.record_key(key));
            call.push(Bytes::from_static(b"R"));
            call.push(Bytes::copy_from_slice(field.as_bytes()));
            call.push(encode_precondition(*precondition));
        }
        Write::Touch { key, ttl } => {
            call.push_key(settings.record_key(key));
            call.push(Bytes::from_static(b"T"));
            call.push(milliseconds(*ttl).to_string());
        }
        Write::Delete { key } => {
            call.push_key(settings.record_key(key));
            call.push(Bytes::from_static(b"D"));
        }
        Write::Append(append) => encode_append(settings, call, append)?,
        Write::DeleteLog { log } => {
            settings.log_keys(log).into_iter().for_each(|key| call.push_key(key));
            call.push(Bytes::from_static(b"L"));
        }
        Write::Send { to, message, ttl } => {
            let (key, ttl, max) = match to {
                Recipient::Replica(replica) => (settings.inbox_key(replica), *ttl, MAX_INBOX),
                Recipient::All => (settings.broadcast_key(), (*ttl).max(BROADCAST_TTL), MAX_BROADCASTS),
            };
            call.push_key(key);
            call.push(Bytes::from_static(b"M"));
            call.push(milliseconds(ttl).to_string());
            call.push(max.to_string());
            call.push(message.clone());
        }
    }
    Ok(())
}

fn encode_append(settings: &Settings, call: &mut Call, append: &Append<'_>) -> Result<(), StoreError> {
    if append.first == Some(0) {
        return Err("an event has the number 0; the first one is 1".into());
    }
    let last = append.first.unwrap_or(0).checked_add(append.count);
    if last.is_none_or(|last| last > MAX_EVENT) {
        return Err("an event has a number above 2^52".into());
    }
    settings.log_keys(append.log).into_iter().for_each(|key| call.push_key(key));
    call.push(Bytes::from_static(b"A"));
    call.push(Bytes::copy_from_slice(append.owner.as_bytes()));
    call.push(append.replaces.map_or_else(String::new, |replaced| format!("={replaced}")));
    call.push(append.first.map_or_else(String::new, |first| first.to_string()));
    call.push(append.count.to_string());
    call.push(Bytes::from_static(if append.ends { b"1" } else { b"0" }));
    call.push(append.limits.max_events.to_string());
    call.push(append.limits.max_bytes.to_string());
    call.push(milliseconds(append.limits.ttl).to_string());
    call.push(append.data.clone());
    Ok(())
}

fn encode_precondition(precondition: Precondition) -> Bytes {
    match precondition {
        Precondition::None => Bytes::from_static(b"N"),
        Precondition::RecordExists => Bytes::from_static(b"R"),
        Precondition::FieldAbsent => Bytes::from_static(b"A"),
        Precondition::FieldAbsentInRecord => Bytes::from_static(b"B"),
        Precondition::FieldVersion(version) => [b"V".as_slice(), &version.to_be_bytes()].concat().into(),
    }
}

fn check_sizes(write: &Write<'_>) -> Result<(), StoreError> {
    let (key, field, value) = match write {
        Write::Set { key, field, value, .. } => (*key, *field, value.len()),
        Write::Remove { key, field, .. } => (*key, *field, 0),
        Write::Touch { key, .. } | Write::Delete { key } | Write::DeleteLog { log: key } => (*key, "", 0),
        Write::Append(append) => (append.log, append.owner, append.data.len()),
        Write::Send { to: Recipient::Replica(replica), message, .. } => (*replica, "", message.len()),
        Write::Send { to: Recipient::All, message, .. } => ("", "", message.len()),
    };
    if key.len() > MAX_KEY_BYTES || field.len() > MAX_KEY_BYTES {
        return Err(format!("a key is longer than {MAX_KEY_BYTES} bytes").into());
    }
    if value > MAX_VALUE_BYTES {
        return Err(format!("a value is larger than {MAX_VALUE_BYTES} bytes").into());
    }
    Ok(())
}

/// Numbers up to here are exact in Lua, also after an append.
const MAX_EVENT: u64 = 1 << 52;
