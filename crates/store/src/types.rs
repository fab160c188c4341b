//! The values that a store takes and returns.

use std::time::Duration;

use bytes::Bytes;

/// How far the contents of a store reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreScope {
    /// They end with the process.
    Process,
    /// One process uses them at a time, and the next one finds them.
    Restart,
    /// Several processes use them at the same time.
    Replicas,
}

/// A value of a record with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The value.
    pub value: Bytes,
    /// The version of the commit that set the value; another commit has another version.
    pub version: u64,
}

/// The condition under which a write to a field happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// No condition.
    None,
    /// The record exists.
    RecordExists,
    /// The field has no value. The record may not exist.
    FieldAbsent,
    /// The record exists and the field has no value.
    FieldAbsentInRecord,
    /// The value of the field has this version.
    FieldVersion(u64),
}

/// One write of a commit.
#[derive(Debug, Clone)]
pub enum Write<'a> {
    /// Sets a field and the time to live of its record.
    Set {
        /// The key of the record.
        key: &'a str,
        /// The name of the field.
        field: &'a str,
        /// The new value.
        value: Bytes,
        /// Without this nothing is written.
        precondition: Precondition,
        /// The time to live of the whole record from now on.
        ttl: Duration,
    },
    /// Removes a field. A record without fields does not exist.
    Remove {
        /// The key of the record.
        key: &'a str,
        /// The name of the field.
        field: &'a str,
        /// Without this nothing is written.
        precondition: Precondition,
    },
    /// Sets the time to live of a record, if it exists.
    Touch {
        /// The key of the record.
        key: &'a str,
        /// The time to live from now on.
        ttl: Duration,
    },
    /// Removes a record with all its fields.
    Delete {
        /// The key of the record.
        key: &'a str,
    },
    /// Appends events to a log.
    Append(Append<'a>),
    /// Removes a log.
    DeleteLog {
        /// The name of the log.
        log: &'a str,
    },
    /// Sends a message.
    Send {
        /// The replicas that receive it.
        to: Recipient<'a>,
        /// The message.
        message: Bytes,
        /// How long it is kept for a replica that does not read.
        ttl: Duration,
    },
}

/// The replicas that receive a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient<'a> {
    /// One replica.
    Replica(&'a str),
    /// Every replica, the sender included. At least the last 1,000 such messages are kept.
    All,
}

/// Events to append to a log.
///
/// With a `first` number the log has one owner: the writer of its first events. An append conflicts if the log belongs to
/// another owner, if it has ended, or if `first` does not follow its last event. An append that the owner has made before
/// succeeds and changes nothing. A log that does not exist, or has expired, begins with `first`; the events before it count
/// as trimmed.
///
/// Without a `first` number any writer may append, and the events get the numbers after the last one. Such an append only
/// conflicts if the log has ended.
#[derive(Debug, Clone)]
pub struct Append<'a> {
    /// The name of the log.
    pub log: &'a str,
    /// The writer.
    pub owner: &'a str,
    /// The owner whose place the writer takes, if the log belongs to that owner.
    pub replaces: Option<&'a str>,
    /// The number of the first event.
    pub first: Option<u64>,
    /// The number of events in `data`; at least 1, unless this append only ends the log.
    pub count: u64,
    /// The events, as one piece.
    pub data: Bytes,
    /// Whether these are the last events.
    pub ends: bool,
    /// The limits of the log.
    pub limits: LogLimits,
}

/// The limits of one log. Whole appends are dropped, oldest first.
#[derive(Debug, Clone, Copy)]
pub struct LogLimits {
    /// The number of events that are kept.
    pub max_events: u64,
    /// The bytes that are kept.
    pub max_bytes: usize,
    /// The time after the last append for which the log is kept.
    pub ttl: Duration,
}

/// A commit that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The version of every field that it set.
    pub version: u64,
    /// The number of the last event of the log that it appended to; 0 if it appended nothing.
    pub last_event: u64,
}

/// A commit that did not happen because a precondition does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The position of the write in the commit.
    pub write: usize,
    /// The value of the field that the write names, if it has one.
    pub current: Option<Field>,
}

/// Consecutive events of one append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The number of the first event.
    pub first: u64,
    /// The number of the last event.
    pub last: u64,
    /// The events, as they were appended.
    pub data: Bytes,
}

/// The events of a log after a given event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRead {
    /// The appends that contain later events, oldest first. The first one may begin with earlier events.
    pub batches: Vec<Batch>,
    /// The number of the last event; 0 if there was none.
    pub last: u64,
    /// Whether the log has ended.
    pub ended: bool,
    /// The owner; the last writer of a log without one.
    pub owner: String,
    /// Whether some of the later events are no longer kept.
    pub trimmed: bool,
}

/// Messages that a replica received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The messages, oldest first.
    pub messages: Vec<Bytes>,
    /// The position after them.
    pub position: Position,
    /// Whether messages before them may have been lost.
    pub missed: bool,
}

/// A position in the messages to a replica. Only the store that returned it understands it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position(pub String);

/// A rate limit: a bucket of `burst` that fills by `per_second`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpendLimit {
    /// The most that can be spent at once.
    pub burst: u32,
    /// The amount that becomes available each second.
    pub per_second: f64,
}
