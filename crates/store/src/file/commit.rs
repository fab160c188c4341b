//! One commit of a caller within a transaction: all of its writes or none.

use std::time::Duration;

use bytes::Bytes;

use super::tables::Tables;
use super::{logs, queues, records};
use crate::{Append, Committed, Conflict, LogLimits, Precondition, Recipient, StoreError, Write};

/// Applies all writes, or none of them if a precondition does not hold.
pub(super) fn commit(
    tables: &mut Tables<'_>,
    writes: &[OwnedWrite],
) -> Result<Result<Committed, Conflict>, StoreError> {
    for (at, write) in writes.iter().enumerate() {
        if let Err(current) = check(tables, write)? {
            return Ok(Err(Conflict { write: at, current }));
        }
    }
    tables.counters.version += 1;
    tables.changed = true;
    let mut last_event = 0;
    for write in writes {
        if let OwnedWrite::Append(append) = write {
            last_event = logs::append(tables, &append.borrow())?;
        } else {
            apply(tables, write)?;
        }
    }
    Ok(Ok(Committed { version: tables.counters.version, last_event }))
}

fn check(tables: &Tables<'_>, write: &OwnedWrite) -> Result<Result<(), Option<crate::Field>>, StoreError> {
    match write {
        OwnedWrite::Set { key, field, precondition, .. }
        | OwnedWrite::Remove { key, field, precondition } => {
            records::check(tables, key, field, *precondition)
        }
        OwnedWrite::Append(append) => {
            Ok(if logs::check(tables, &append.borrow())? { Ok(()) } else { Err(None) })
        }
        OwnedWrite::Touch { .. }
        | OwnedWrite::Delete { .. }
        | OwnedWrite::DeleteLog { .. }
        | OwnedWrite::Send { .. } => Ok(Ok(())),
    }
}

fn apply(tables: &mut Tables<'_>, write: &OwnedWrite) -> Result<(), StoreError> {
    match write {
        OwnedWrite::Set { key, field, value, ttl, .. } => records::set(tables, key, (field, value), *ttl),
        OwnedWrite::Remove { key, field, .. } => records::remove_field(tables, key, field),
        OwnedWrite::Touch { key, ttl } => records::touch(tables, key, *ttl),
        OwnedWrite::Delete { key } => records::delete(tables, key),
        OwnedWrite::Append(append) => logs::append(tables, &append.borrow()).map(drop),
        OwnedWrite::DeleteLog { log } => logs::delete(tables, log),
        OwnedWrite::Send { to, message, ttl } => {
            let to = to.as_deref().map_or(Recipient::All, Recipient::Replica);
            queues::send(tables, to, message, *ttl)
        }
    }
}

/// A [`Write`] that can wait for its turn.
pub(super) enum OwnedWrite {
    Set {
        key: String,
        field: String,
        value: Bytes,
        precondition: Precondition,
        ttl: Duration,
    },
    Remove {
        key: String,
        field: String,
        precondition: Precondition,
    },
    Touch {
        key: String,
        ttl: Duration,
    },
    Delete {
        key: String,
    },
    Append(OwnedAppend),
    DeleteLog {
        log: String,
    },
    /// To all replicas if `to` is `None`.
    Send {
        to: Option<String>,
        message: Bytes,
        ttl: Duration,
    },
}

impl OwnedWrite {
    /// The bytes that it adds to the file, about.
    pub(super) fn size(&self) -> usize {
        match self {
            OwnedWrite::Set { value, .. } => value.len(),
            OwnedWrite::Append(append) => append.data.len(),
            OwnedWrite::Send { message, .. } => message.len(),
            OwnedWrite::Remove { .. }
            | OwnedWrite::Touch { .. }
            | OwnedWrite::Delete { .. }
            | OwnedWrite::DeleteLog { .. } => 0,
        }
    }
}

impl From<&Write<'_>> for OwnedWrite {
    fn from(write: &Write<'_>) -> Self {
        let owned = |text: &&str| (*text).to_owned();
        match write {
            Write::Set { key, field, value, precondition, ttl } => OwnedWrite::Set {
                key: owned(key),
                field: owned(field),
                value: value.clone(),
                precondition: *precondition,
                ttl: *ttl,
            },
            Write::Remove { key, field, precondition } => {
                OwnedWrite::Remove { key: owned(key), field: owned(field), precondition: *precondition }
            }
            Write::Touch { key, ttl } => OwnedWrite::Touch { key: owned(key), ttl: *ttl },
            Write::Delete { key } => OwnedWrite::Delete { key: owned(key) },
            Write::Append(append) => OwnedWrite::Append(append.into()),
            Write::DeleteLog { log } => OwnedWrite::DeleteLog { log: owned(log) },
            Write::Send { to, message, ttl } => {
                let to = match to {
                    Recipient::All => None,
                    Recipient::Replica(replica) => Some(owned(replica)),
                };
                OwnedWrite::Send { to, message: message.clone(), ttl: *ttl }
            }
        }
    }
}

/// An [`Append`] that can wait for its turn.
pub(super) struct OwnedAppend {
    log: String,
    owner: String,
    replaces: Option<String>,
    first: Option<u64>,
    count: u64,
    data: Bytes,
    ends: bool,
    limits: LogLimits,
}

impl OwnedAppend {
    fn borrow(&self) -> Append<'_> {
        Append {
            log: &self.log,
            owner: &self.owner,
            replaces: self.replaces.as_deref(),
            first: self.first,
            count: self.count,
            data: self.data.clone(),
            ends: self.ends,
            limits: self.limits,
        }
    }
}

impl From<&Append<'_>> for OwnedAppend {
    fn from(append: &Append<'_>) -> Self {
        Self {
            log: append.log.to_owned(),
            owner: append.owner.to_owned(),
            replaces: append.replaces.map(str::to_owned),
            first: append.first,
            count: append.count,
            data: append.data.clone(),
            ends: append.ends,
            limits: append.limits,
        }
    }
}
