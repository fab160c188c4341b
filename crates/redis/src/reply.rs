//! Reads replies.

use bytes::Bytes;
use redis::Value;
use tsugite_store::Field;

/// A reply of an unexpected form.
#[derive(Debug)]
pub(crate) struct UnexpectedReply;

pub(crate) type Read<T> = Result<T, UnexpectedReply>;

pub(crate) fn array(value: Value) -> Read<Vec<Value>> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(UnexpectedReply),
    }
}

/// An array of a known length.
pub(crate) fn tuple<const N: usize>(value: Value) -> Read<[Value; N]> {
    array(value)?.try_into().map_err(|_| UnexpectedReply)
}

pub(crate) fn bytes(value: Value) -> Read<Bytes> {
    match value {
        Value::BulkString(bytes) => Ok(Bytes::from(bytes)),
        Value::SimpleString(text) => Ok(Bytes::from(text)),
        _ => Err(UnexpectedReply),
    }
}

pub(crate) fn text(value: Value) -> Read<String> {
    String::from_utf8(bytes(value)?.into()).map_err(|_| UnexpectedReply)
}

pub(crate) fn integer(value: Value) -> Read<i64> {
    match value {
        Value::Int(number) => Ok(number),
        _ => Err(UnexpectedReply),
    }
}

/// A number that is written as text.
pub(crate) fn number(value: Value) -> Read<u64> {
    text(value)?.parse().map_err(|_| UnexpectedReply)
}

/// A stored value: 8 bytes of version, then the value. `Nil` is no value.
pub(crate) fn field(value: Value) -> Read<Option<Field>> {
    if value == Value::Nil {
        return Ok(None);
    }
    let mut value = bytes(value)?;
    if value.len() < VERSION_BYTES {
        return Err(UnexpectedReply);
    }
    let version = value.split_to(VERSION_BYTES);
    let version = <[u8; VERSION_BYTES]>::try_from(&*version).map_err(|_| UnexpectedReply)?;
    Ok(Some(Field { value, version: u64::from_be_bytes(version) }))
}

/// Names and values in turn.
pub(crate) fn pairs(value: Value) -> Read<Vec<(Value, Value)>> {
    let mut values = array(value)?.into_iter();
    let mut pairs = Vec::with_capacity(values.len() / 2);
    while let Some(name) = values.next() {
        pairs.push((name, values.next().ok_or(UnexpectedReply)?));
    }
    Ok(pairs)
}

/// An entry of a stream.
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) fields: Vec<(Value, Value)>,
}

pub(crate) fn entries(value: Value) -> Read<Vec<Entry>> {
    let entry = |entry| {
        let [id, fields] = tuple(entry)?;
        Ok(Entry { id: text(id)?, fields: pairs(fields)? })
    };
    array(value)?.into_iter().map(entry).collect()
}

const VERSION_BYTES: usize = 8;
