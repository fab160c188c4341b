//! State that outlives a request, a process or a replica.
//!
//! [`Store`] is the contract between a server and the engine that holds its state. It knows keys, bytes, numbers and times,
//! and nothing of the protocol that the server speaks. [`MemoryStore`] is the engine in the memory of one process.
//!
//! # The four parts
//!
//! - **Records**: a key has fields, a field has a value, and the whole record has one time to live. [`Store::read`] returns
//!   several fields in one trip, [`Store::list`] the fields of a record in order, [`Store::take`] removes a record for exactly
//!   one caller, and [`Store::spend`] takes from a rate limit.
//! - **Event logs**: events are numbered from 1 and appended by one owner. An append of another writer is a conflict, so a
//!   process that was stopped for long and continues cannot write any more ([`Append`]). [`Store::read_log`] says whether the
//!   log has ended, who owns it and whether events are missing.
//! - **Messages**: to one replica or to all of them ([`Write::Send`], [`Store::receive`]). A message is delivered at least
//!   once while it is kept. [`Received::missed`] says that some may have been lost.
//! - **Leases**: a replica is alive while it renews its lease ([`Store::renew_lease`]).
//!
//! # Rules for a backend
//!
//! - **Atomicity.** All writes of one [`Store::commit`] happen or none does. All preconditions are checked against the state
//!   before the commit. One commit has at most one write per field and at most one append.
//! - **Order.** A read that begins after a commit has returned sees that commit, in every process. Messages to one replica
//!   arrive in the order of their commits.
//! - **Failure.** An operation that returns an error may have happened or not, but never in part. It returns an error within
//!   a bounded time; it never waits for an engine that does not answer. A [`Store::receive`] may wait for messages.
//! - **Repetition.** Reads can be repeated. A commit can be repeated with this result: an [`Append`] with a number that its
//!   owner has already written succeeds and writes nothing; a message is sent twice; a `Set` under a precondition may conflict
//!   with its own earlier success, and the conflict returns the value that is there.
//! - **Time to live.** It counts from the last write that names one. An expired record or log does not exist. The clock is
//!   the one of the engine. Nothing is kept without a time to live.
//! - **Sizes.** A key and a field have at most 512 bytes, a value or message at most 16 MiB. A larger one is an error.
//! - **Secrecy.** The server seals what it stores and digests the names it makes keys of; a backend need not.
//! - **Durability.** In a store of scope [`StoreScope::Restart`] a commit that returned survives the end of the process
//!   without warning.
//!
//! The module `suite` (feature `suite`) checks these rules.

mod arc;
mod future;
mod memory;
#[cfg(feature = "suite")]
pub mod suite;
mod types;

pub use future::{StoreError, StoreFuture, StoreResult, StoreWait};
pub use memory::MemoryStore;
pub use types::{
    Append, Batch, Committed, Conflict, Field, LogLimits, LogRead, Position, Precondition, Received,
    Recipient, SpendLimit, StoreScope, Write,
};

use std::time::Duration;

use bytes::Bytes;

/// Stores records, event logs, messages and leases. The rules are those of the [crate](self).
#[doc(alias("EventStore", "SessionManager", "SessionStore"))]
pub trait Store: Send + Sync + 'static {
    /// How far the contents reach.
    fn scope(&self) -> StoreScope;

    /// Returns the named fields of a record, in the order of `fields`. `None` if there is no such record.
    fn read(&self, key: &str, fields: &[&str]) -> StoreResult<Option<Vec<Option<Field>>>>;

    /// Returns up to `max` fields of a record whose names come after `after`, in the order of their bytes. Empty if there is no
    /// such record.
    fn list(&self, key: &str, after: &str, max: usize) -> StoreResult<Vec<(String, Field)>>;

    /// Applies all writes, or none of them if a precondition does not hold.
    fn commit(&self, writes: &[Write<'_>]) -> StoreResult<Result<Committed, Conflict>>;

    /// Removes a record and returns its fields. Only one of several concurrent calls gets them.
    fn take(&self, key: &str) -> StoreResult<Option<Vec<(String, Bytes)>>>;

    /// Takes `cost` from a rate limit. Returns the time after which the same cost is available, if it is not now; nothing is
    /// taken then.
    fn spend(&self, key: &str, cost: u32, limit: SpendLimit) -> StoreResult<Result<(), Duration>>;

    /// Returns the events of a log after the event `after`. `None` if there is no such log.
    fn read_log(&self, log: &str, after: u64) -> StoreResult<Option<LogRead>>;

    /// Returns the messages to `replica` and to all replicas after `position`, and waits for one if there are none. May return
    /// none after a while. [`Position::default`] is the first message to `replica` that is kept, and the next message to all.
    fn receive(&self, replica: &str, position: &Position) -> StoreResult<Received>;

    /// Returns the messages to `replica` alone that are still kept, without waiting.
    fn inbox(&self, replica: &str) -> StoreResult<Vec<Bytes>>;

    /// Keeps the lease and the inbox of a replica for `ttl`. Messages to it up to `handled` need not be kept any longer.
    fn renew_lease(&self, replica: &str, ttl: Duration, handled: &Position) -> StoreResult<()>;

    /// Whether a replica has a lease now.
    fn has_lease(&self, replica: &str) -> StoreResult<bool>;

    /// Ends the lease of a replica and drops its inbox.
    fn end_lease(&self, replica: &str) -> StoreResult<()>;

    /// Removes expired entries. Called periodically, for a store that does not expire entries by itself.
    fn purge_expired(&self) {}
}

/// The most bytes of a key or a field.
pub const MAX_KEY_BYTES: usize = 512;

/// The most bytes of a value, of the data of an append or of a message.
pub const MAX_VALUE_BYTES: usize = 16 << 20;
