//! Records and rate limits.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tsugite_store::{Field, SpendLimit};

use crate::client::Client;
use crate::error::Error;
use crate::reply::{self, Read};
use crate::script::{Call, LIST, Request, SPEND, TAKE};
use crate::settings::Settings;

/// The field that every record has, so that reading any fields tells whether the record exists. Names are UTF-8, and
/// this is not.
const EXISTS: &[u8] = b"\xff";

pub(crate) fn read_request(settings: &Settings, key: &str, fields: &[&str]) -> Request {
    let mut command = redis::cmd("HMGET");
    command.arg(settings.record_key(key)).arg(EXISTS).arg(fields);
    Request::Command(command)
}

pub(crate) fn read_fields(reply: Value) -> Read<Option<Vec<Option<Field>>>> {
    let mut values = reply::array(reply)?.into_iter();
    match values.next() {
        None | Some(Value::Nil) => Ok(None),
        Some(_) => values.map(reply::field).collect::<Read<_>>().map(Some),
    }
}

/// Lists the fields of a record in the order of their bytes. Redis has no such order: a small record is read as a whole,
/// of a large one first the names and then the page.
pub(crate) async fn list(
    client: &Client,
    key: &str,
    after: &str,
    max: usize,
) -> Result<Vec<(String, Field)>, Error> {
    let key = client.settings.record_key(key);
    let call = Call::new(&LIST).key(key.clone()).arg(max).arg(SMALL_RECORD);
    let mut names = match client.send(&Request::Script(call), read_list).await? {
        Listed::Fields(mut fields) => {
            fields.retain(|(name, _)| name.as_str() > after);
            fields.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            fields.truncate(max);
            return Ok(fields);
        }
        Listed::Names(names) => names,
    };
    names.retain(|name| name.as_str() > after);
    names.sort_unstable();
    let mut names = names.into_iter();
    let mut page = Vec::new();
    // More than once if fields were removed in between.
    while page.len() < max {
        let part: Vec<String> = names.by_ref().take(max - page.len()).collect();
        if part.is_empty() {
            break;
        }
        let mut command = redis::cmd("HMGET");
        command.arg(&key).arg(&part);
        let read = |reply| reply::array(reply)?.into_iter().map(reply::field).collect::<Read<Vec<_>>>();
        let fields = client.send(&Request::Command(command), read).await?;
        page.extend(part.into_iter().zip(fields).filter_map(|(name, field)| Some((name, field?))));
    }
    Ok(page)
}

enum Listed {
    Fields(Vec<(String, Field)>),
    Names(Vec<String>),
}

fn read_list(reply: Value) -> Read<Listed> {
    let [has_values, contents] = reply::tuple(reply)?;
    if reply::integer(has_values)? == 1 {
        return named_fields(contents).map(Listed::Fields);
    }
    let names = reply::array(contents)?.into_iter().filter(|name| !is_marker(name));
    names.map(reply::text).collect::<Read<_>>().map(Listed::Names)
}

pub(crate) fn take_request(settings: &Settings, key: &str) -> Request {
    Request::Script(Call::new(&TAKE).key(settings.record_key(key)))
}

pub(crate) fn read_taken(reply: Value) -> Read<Option<Vec<(String, Bytes)>>> {
    let fields = named_fields(reply)?;
    let fields: Vec<_> = fields.into_iter().map(|(name, field)| (name, field.value)).collect();
    Ok(Some(fields).filter(|fields| !fields.is_empty()))
}

fn named_fields(reply: Value) -> Read<Vec<(String, Field)>> {
    let pairs = reply::pairs(reply)?.into_iter().filter(|(name, _)| !is_marker(name));
    let field = |(name, value)| Ok((reply::text(name)?, reply::field(value)?.ok_or(reply::UnexpectedReply)?));
    pairs.map(field).collect()
}

fn is_marker(name: &Value) -> bool {
    matches!(name, Value::BulkString(name) if name == EXISTS)
}

pub(crate) fn spend_request(settings: &Settings, key: &str, cost: u32, limit: SpendLimit) -> Request {
    let microseconds = |amount: u32| {
        let microseconds = f64::from(amount) / limit.per_second * 1e6;
        // A limit that never fills counts as one that fills in ten years.
        if microseconds >= 0.0 { microseconds.min(LONGEST) } else { LONGEST }
    };
    let call = Call::new(&SPEND).key(settings.limit_key(key));
    Request::Script(call.arg(microseconds(cost)).arg(microseconds(limit.burst)))
}

pub(crate) fn read_spent(reply: Value) -> Read<Result<(), Duration>> {
    match u64::try_from(reply::integer(reply)?).unwrap_or(0) {
        0 => Ok(Ok(())),
        microseconds => Ok(Err(Duration::from_micros(microseconds))),
    }
}

/// The most fields of a record that is read as a whole to list a page of it.
const SMALL_RECORD: usize = 100;

/// Ten years in microseconds. The script adds it to the time of day twice, which a double must hold exactly.
const LONGEST: f64 = 3_650.0 * 24.0 * 60.0 * 60.0 * 1e6;
