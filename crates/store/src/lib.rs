//! State that outlives a request, a process or a replica.
//!
//! [`Store`] is the contract between a server and the engine that holds its state. It knows keys, bytes, numbers and times,
//! and nothing of the protocol that the server speaks. [`MemoryStore`] is the engine in the memory of one process, and
//! `FileStore` (feature `file`) the one in a file.
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
//!
//! # One file
//!
//! `FileStore` (feature `file`) keeps records, logs and messages in one file, a database of redb. One process uses the file
//! at a time, and the next one finds everything that was acknowledged, also if the process before was killed.
//!
//! - **Writes.** One thread writes. It takes all writes that wait, checks and applies them one after the other in one
//!   transaction, flushes the disk once, and answers all callers, so that many callers share a flush. At most 64 MiB wait;
//!   further callers wait for their turn, and every write ends within 30 seconds, if need be with an error.
//! - **Reads.** They see the last commit and never wait for a write. Records are read at once on the thread of the caller,
//!   from a cache of up to 64 MiB or the page cache; logs and messages, which may be large, on a thread for blocking work.
//! - **Time to live.** It goes on while no process runs. The time is that of the wall clock when the file is opened, or of the
//!   last commit if that is later, and follows the monotonic clock from then on, so a step of the wall clock changes nothing
//!   before the next start. `purge_expired` removes expired entries a few hundred at a time, between other writes. The file
//!   keeps its size, and later entries use the space.
//! - **Memory of the process.** Leases end with the process, because no other process can have one. So do rate limits: a
//!   bucket fills again within seconds or minutes, and a flush of the disk for each request would cost more than the limit
//!   saves. A restart therefore gives back one burst.
//! - **Messages.** At least the last 1,000 messages to all replicas are kept, and up to 100,000 messages or 64 MiB for each
//!   replica.
//! - **Failures.** After an error of the disk, such as a full one, no write of the transaction is acknowledged. The file is
//!   opened again, which goes back to the last complete commit, and writes succeed as soon as the disk takes them.
//! - **The file.** Only its owner may read and write it (mode 0600). It appears under its name when it is complete. It holds
//!   the number of its format, and so does each row. A file of another kind, of a newer format, damaged or in use is an error
//!   that names it, and is not overwritten.

mod arc;
#[cfg(feature = "file")]
mod file;
mod future;
mod memory;
#[cfg(feature = "suite")]
pub mod suite;
mod types;

#[cfg(feature = "file")]
pub use file::{FileStore, FileStoreError};
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
    /// none after a while. [`Position::default`] is the first message to `replica` that is kept, and the next message to all;
    /// from there it returns at once, so that the caller knows from when on it receives.
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
