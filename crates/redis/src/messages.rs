//! Messages between replicas, and their leases.
//!
//! Messages to one replica are a stream, messages to all are another one. Both number their messages without a gap: the id
//! of a message is the time at which its stream was created and its number in it. A reader sees from the ids whether it has
//! missed a message.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tokio::time::timeout;
use tsugite_store::{Position, Received};

use crate::client::Client;
use crate::connection::{Connection, Driver, drive};
use crate::error::Error;
use crate::reply::{self, Entry, Read, UnexpectedReply};
use crate::script::{CHECK, Call, RENEW, Request, START};
use crate::settings::{Settings, milliseconds};

/// The id of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct MessageId {
    /// The time at which the stream was created, in milliseconds; 0 before the first message.
    stream: u64,
    number: u64,
}

impl MessageId {
    fn next(self) -> Self {
        Self { number: self.number + 1, ..self }
    }

    /// Whether `next` is the next message after this one.
    fn precedes(self, next: Self) -> bool {
        let is_first = self == Self::default() && next.number == 1;
        is_first || next == self.next()
    }
}

impl FromStr for MessageId {
    type Err = UnexpectedReply;

    fn from_str(text: &str) -> Read<Self> {
        let (stream, number) = text.split_once('-').ok_or(UnexpectedReply)?;
        let parse = |text: &str| text.parse::<u64>().ok().filter(|number| *number < u64::MAX);
        let id = parse(stream).zip(parse(number)).ok_or(UnexpectedReply)?;
        Ok(Self { stream: id.0, number: id.1 })
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.number)
    }
}

/// A position: the last message to the replica, and the last message to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ids {
    own: MessageId,
    broadcast: MessageId,
}

impl Ids {
    /// `None` for the default position, and for one of another store.
    fn from_position(position: &Position) -> Option<Self> {
        let (own, broadcast) = position.0.split_once(' ')?;
        Some(Self { own: own.parse().ok()?, broadcast: broadcast.parse().ok()? })
    }

    fn position(self) -> Position {
        Position(format!("{} {}", self.own, self.broadcast))
    }
}

/// The connection that waits for messages, while no call uses it.
#[derive(Default)]
pub(crate) struct IdleReceiver(Mutex<Option<Receiver>>);

/// A connection that waits for messages. It closes if the call that uses it is dropped.
struct Receiver {
    connection: Connection,
    driver: Driver,
    /// The replica and the position up to which it is known that no message is missing.
    checked: Option<(String, Ids)>,
}

impl IdleReceiver {
    fn take(&self) -> Option<Receiver> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    fn put(&self, receiver: Receiver) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(receiver);
    }
}

pub(crate) async fn receive(
    client: &Client,
    idle: &IdleReceiver,
    replica: &str,
    position: &Position,
) -> Result<Received, Error> {
    let Some(ids) = Ids::from_position(position) else {
        // A position that this store has not made says nothing about what was received.
        let missed = !position.0.is_empty();
        return start(client, replica, MessageId::default(), missed).await;
    };
    client.require_connection().await?;
    let mut receiver = match idle.take() {
        Some(receiver) => receiver,
        None => Receiver::open(&client.settings).await?,
    };
    let place = (replica.to_owned(), ids);
    if receiver.checked.as_ref() != Some(&place) {
        let check = check_request(&client.settings, replica);
        let states = receiver.send(&check, &client.settings, Duration::ZERO).await?;
        let [own, broadcast] = client.read(states, read_states)?;
        let lost_own = has_lost(own, ids.own);
        if lost_own || has_lost(broadcast, ids.broadcast) {
            idle.put(receiver);
            // Messages that were received are not received again because others are lost.
            let after = if lost_own { MessageId::default() } else { ids.own };
            return start(client, replica, after, true).await;
        }
    }
    let wait = wait_request(&client.settings, replica, ids);
    let reply = receiver.send(&wait, &client.settings, WAIT).await?;
    let (received, ids) = client.read(reply, |reply| read_messages(reply, &client.settings, ids))?;
    // After a wait without messages, the next call checks again: the messages may have been lost meanwhile.
    receiver.checked = (!received.messages.is_empty()).then(|| (replica.to_owned(), ids));
    idle.put(receiver);
    Ok(received)
}

impl Receiver {
    async fn open(settings: &Settings) -> Result<Self, Error> {
        let opened = timeout(settings.timeout, Connection::open(settings)).await;
        let (connection, driver) = opened.map_err(|_| settings.timeout_error())??;
        Ok(Self { connection, driver, checked: None })
    }

    /// Sends a request whose reply may take `wait` longer than others.
    async fn send(&mut self, request: &Request, settings: &Settings, wait: Duration) -> Result<Value, Error> {
        let Self { connection, driver, .. } = self;
        let reply = timeout(wait + settings.timeout, connection.send(request, settings));
        drive(driver, reply).await.map_err(|_| settings.timeout_error())?
    }
}

/// Starts again: returns the messages to the replica after `after` that are kept, and none of those to all.
async fn start(client: &Client, replica: &str, after: MessageId, missed: bool) -> Result<Received, Error> {
    let settings = &client.settings;
    let call = Call::new(&START).key(settings.inbox_key(replica)).key(settings.broadcast_key());
    let call = call.arg(milliseconds(BROADCAST_TTL)).arg(MAX_RECEIVED).arg(after);
    let read = |reply| {
        let [own, broadcast, messages] = reply::tuple(reply)?;
        let ids = Ids { own: reply::text(own)?.parse()?, broadcast: reply::text(broadcast)?.parse()? };
        let messages = read_stream(messages)?.into_iter().map(|(_, message)| message).collect();
        Ok(Received { messages, position: ids.position(), missed })
    };
    client.send(&Request::Script(call), read).await
}

fn check_request(settings: &Settings, replica: &str) -> Request {
    let call = Call::new(&CHECK).key(settings.inbox_key(replica)).key(settings.broadcast_key());
    Request::Script(call.arg(milliseconds(MIN_INBOX_TTL)).arg(milliseconds(BROADCAST_TTL)))
}

/// The last message of a stream, and the first one that it keeps.
#[derive(Clone, Copy)]
struct StreamState {
    last: MessageId,
    first_kept: Option<MessageId>,
}

fn read_states(reply: Value) -> Read<[Option<StreamState>; 2]> {
    let state = |value: Value| {
        if value == Value::Nil {
            return Ok(None);
        }
        let [last, first] = reply::tuple(value)?;
        let first = reply::text(first)?;
        let first_kept = if first.is_empty() { None } else { Some(first.parse()?) };
        Ok(Some(StreamState { last: reply::text(last)?.parse()?, first_kept }))
    };
    let [own, broadcast] = reply::tuple(reply)?;
    Ok([state(own)?, state(broadcast)?])
}

/// Whether messages after `id` may be missing in a stream.
fn has_lost(state: Option<StreamState>, id: MessageId) -> bool {
    let Some(StreamState { last, first_kept }) = state else {
        return id != MessageId::default();
    };
    let is_other_stream = id != MessageId::default() && last.stream != id.stream;
    is_other_stream
        || last.number < id.number
        || (last.number > id.number && first_kept.is_none_or(|first| first.number > id.number + 1))
}

fn wait_request(settings: &Settings, replica: &str, ids: Ids) -> Request {
    let mut command = redis::cmd("XREAD");
    command.arg("COUNT").arg(MAX_RECEIVED).arg("BLOCK").arg(milliseconds(WAIT)).arg("STREAMS");
    command.arg(settings.broadcast_key()).arg(settings.inbox_key(replica));
    command.arg(ids.broadcast.to_string()).arg(ids.own.to_string());
    Request::Command(command)
}

fn read_messages(reply: Value, settings: &Settings, mut ids: Ids) -> Read<(Received, Ids)> {
    let mut messages = Vec::new();
    let mut missed = false;
    let streams = if reply == Value::Nil { Vec::new() } else { reply::array(reply)? };
    let broadcast_key = settings.broadcast_key();
    for stream in streams {
        let [name, entries] = reply::tuple(stream)?;
        let is_broadcast = reply::bytes(name)? == broadcast_key;
        let last = if is_broadcast { &mut ids.broadcast } else { &mut ids.own };
        for (id, message) in read_stream(entries)? {
            missed |= !last.precedes(id);
            *last = id;
            messages.push(message);
        }
    }
    Ok((Received { messages, position: ids.position(), missed }, ids))
}

/// The messages of a stream with their ids.
fn read_stream(entries: Value) -> Read<Vec<(MessageId, Bytes)>> {
    let message = |Entry { id, fields }| {
        let (_, message) = fields.into_iter().next().ok_or(UnexpectedReply)?;
        Ok((id.parse()?, reply::bytes(message)?))
    };
    reply::entries(entries)?.into_iter().map(message).collect()
}

pub(crate) fn inbox_request(settings: &Settings, replica: &str) -> Request {
    let mut command = redis::cmd("XRANGE");
    command.arg(settings.inbox_key(replica)).arg("-").arg("+");
    Request::Command(command)
}

pub(crate) fn read_inbox(reply: Value) -> Read<Vec<Bytes>> {
    Ok(read_stream(reply)?.into_iter().map(|(_, message)| message).collect())
}

pub(crate) fn renew_request(
    settings: &Settings,
    replica: &str,
    ttl: Duration,
    handled: &Position,
) -> Request {
    let handled = Ids::from_position(handled).map_or_else(MessageId::default, |ids| ids.own.next());
    let call = Call::new(&RENEW).key(settings.lease_key(replica)).key(settings.inbox_key(replica));
    let call = call.key(settings.broadcast_key()).arg(milliseconds(ttl)).arg(milliseconds(BROADCAST_TTL));
    Request::Script(call.arg(handled))
}

pub(crate) fn lease_request(settings: &Settings, replica: &str) -> Request {
    let mut command = redis::cmd("EXISTS");
    command.arg(settings.lease_key(replica));
    Request::Command(command)
}

pub(crate) fn end_request(settings: &Settings, replica: &str) -> Request {
    let mut command = redis::cmd("UNLINK");
    command.arg(settings.lease_key(replica)).arg(settings.inbox_key(replica));
    Request::Command(command)
}

/// The messages to all that are kept, at least.
pub(crate) const MAX_BROADCASTS: usize = 10_000;
/// The messages to one replica that are kept, at least.
pub(crate) const MAX_INBOX: usize = 100_000;
/// The messages to all are kept for as long after the last one, and while a replica waits for them.
pub(crate) const BROADCAST_TTL: Duration = Duration::from_secs(60 * 60);
/// An inbox is kept for as long while its replica waits for messages.
const MIN_INBOX_TTL: Duration = Duration::from_secs(60);
/// The most messages of one stream that a call returns.
const MAX_RECEIVED: usize = 100;
/// The time after which a call returns without messages.
const WAIT: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    fn id(stream: u64, number: u64) -> MessageId {
        MessageId { stream, number }
    }

    fn state(last: MessageId, first_kept: Option<MessageId>) -> Option<StreamState> {
        Some(StreamState { last, first_kept })
    }

    #[test]
    fn gaps_in_a_stream_are_losses() {
        // The position, and the stream at that time.
        let complete = [
            (MessageId::default(), None),
            (MessageId::default(), state(id(7, 2), Some(id(7, 1)))),
            (id(7, 2), state(id(7, 2), None)),
            (id(7, 2), state(id(7, 3), Some(id(7, 3)))),
            (id(7, 2), state(id(7, 3), Some(id(7, 1)))),
        ];
        for (position, stream) in complete {
            assert!(!has_lost(stream, position), "{position}");
        }
        let incomplete = [
            (id(7, 2), None),
            (id(7, 2), state(id(8, 2), Some(id(8, 1)))),
            (id(7, 2), state(id(6, 9), Some(id(6, 3)))),
            (id(7, 2), state(id(7, 1), Some(id(7, 1)))),
            (id(7, 2), state(id(7, 4), Some(id(7, 4)))),
            (id(7, 2), state(id(7, 3), None)),
            (MessageId::default(), state(id(7, 1), None)),
            (MessageId::default(), state(id(7, 2), Some(id(7, 2)))),
        ];
        for (position, stream) in incomplete {
            assert!(has_lost(stream, position), "{position}");
        }
    }

    #[test]
    fn positions_are_read_back() {
        let ids = Ids { own: id(7, 2), broadcast: id(8, 3) };
        assert_eq!(Ids::from_position(&ids.position()), Some(ids));
        for text in ["", "1-1", "1-1 ", "1 1", "a-1 1-1", "1-18446744073709551615 1-1", "1-1 1-1 1-1"] {
            assert_eq!(Ids::from_position(&Position(text.to_owned())), None, "{text}");
        }
    }
}
