//! Event logs.
//!
//! A log is a hash with its state and a stream with its events, one entry for each append. The id of an entry is the number
//! of its last event.

use redis::Value;
use tsugite_store::{Batch, LogRead};

use crate::reply::{self, Entry, Read, UnexpectedReply};
use crate::script::{Call, READ_LOG, Request};
use crate::settings::Settings;

pub(crate) fn read_request(settings: &Settings, log: &str, after: u64) -> Request {
    let [state, events] = settings.log_keys(log);
    Request::Script(Call::new(&READ_LOG).key(state).key(events).arg(after))
}

pub(crate) fn read(reply: Value, after: u64) -> Read<Option<LogRead>> {
    if reply == Value::Nil {
        return Ok(None);
    }
    let [owner, last, ended, events] = reply::tuple(reply)?;
    let last = reply::number(last)?;
    let batches = reply::entries(events)?.into_iter().map(batch).collect::<Read<Vec<_>>>()?;
    // Seen from the events that are there, so that it is also true if Redis has evicted them.
    let next = batches.first().map_or(u64::MAX, |batch| batch.first);
    let trimmed = after < last && next > after + 1;
    Ok(Some(LogRead {
        batches,
        last,
        ended: reply::text(ended)? == "1",
        owner: reply::text(owner)?,
        trimmed,
    }))
}

fn batch(Entry { id, fields }: Entry) -> Read<Batch> {
    let last = id.split('-').next().and_then(|last| last.parse().ok()).ok_or(UnexpectedReply)?;
    let [(_, first), (_, data)] = <[_; 2]>::try_from(fields).map_err(|_| UnexpectedReply)?;
    Ok(Batch { first: reply::number(first)?, last, data: reply::bytes(data)? })
}
