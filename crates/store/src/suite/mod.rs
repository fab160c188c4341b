//! The tests that every store must pass.
//!
//! ```
//! use std::sync::Arc;
//!
//! use tsugite_store::{MemoryStore, Store, suite};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
//! suite::run(&store, "my-test").await.unwrap();
//! # }
//! ```

mod logs;
mod messages;
mod records;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{Committed, Conflict, Store, StoreError, Write};

/// A rule that a store broke.
#[derive(Debug)]
pub struct SuiteError {
    check: &'static str,
    reason: String,
}

impl fmt::Display for SuiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.reason)
    }
}

impl std::error::Error for SuiteError {}

/// Runs all checks. Keys begin with `prefix`, so that several runs can use one engine.
pub async fn run(store: &Arc<dyn Store>, prefix: &str) -> Result<(), SuiteError> {
    for (check, run) in CHECKS {
        let name = format!("{prefix}/{check}");
        if let Err(Failure(reason)) = run(Subject { store: store.clone(), name }).await {
            return Err(SuiteError { check, reason });
        }
    }
    Ok(())
}

type CheckFuture = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

type Check = fn(Subject) -> CheckFuture;

const CHECKS: [(&str, Check); 23] = [
    ("fields are read in one trip", |s| Box::pin(records::fields_are_read_in_one_trip(s))),
    ("preconditions hold", |s| Box::pin(records::preconditions_hold(s))),
    ("versions differ", |s| Box::pin(records::versions_differ(s))),
    ("a commit is atomic", |s| Box::pin(records::a_commit_is_atomic(s))),
    ("fields are listed in order", |s| Box::pin(records::fields_are_listed_in_order(s))),
    ("records expire as a whole", |s| Box::pin(records::records_expire_as_a_whole(s))),
    ("a record is taken once", |s| Box::pin(records::a_record_is_taken_once(s))),
    ("one of many writers wins", |s| Box::pin(records::one_of_many_writers_wins(s))),
    ("rate limits are spent", |s| Box::pin(records::rate_limits_are_spent(s))),
    ("slow rate limits are kept", |s| Box::pin(records::slow_rate_limits_are_kept(s))),
    ("sizes are limited", |s| Box::pin(records::sizes_are_limited(s))),
    ("any bytes are kept", |s| Box::pin(records::any_bytes_are_kept(s))),
    ("events are read from a number", |s| Box::pin(logs::events_are_read_from_a_number(s))),
    ("a second writer conflicts", |s| Box::pin(logs::a_second_writer_conflicts(s))),
    ("an append can be repeated", |s| Box::pin(logs::an_append_can_be_repeated(s))),
    ("the store numbers events", |s| Box::pin(logs::the_store_numbers_events(s))),
    ("logs are trimmed and expire", |s| Box::pin(logs::logs_are_trimmed_and_expire(s))),
    ("an ended log takes no events", |s| Box::pin(logs::an_ended_log_takes_no_events(s))),
    ("messages arrive in order", |s| Box::pin(messages::messages_arrive_in_order(s))),
    ("a receiver waits", |s| Box::pin(messages::a_receiver_waits(s))),
    ("messages are read from a position", |s| Box::pin(messages::messages_are_read_from_a_position(s))),
    ("messages go to all", |s| Box::pin(messages::messages_go_to_all(s))),
    ("leases end", |s| Box::pin(messages::leases_end(s))),
];

/// A store under test, and the prefix of the keys of one check.
struct Subject {
    store: Arc<dyn Store>,
    name: String,
}

impl Subject {
    fn key(&self, part: &str) -> String {
        format!("{}/{part}", self.name)
    }

    /// Commits and expects success.
    async fn commit(&self, writes: &[Write<'_>]) -> Result<Committed, Failure> {
        let committed = self.store.commit(writes).await?;
        committed.map_err(|conflict| Failure(format!("unexpected conflict: {conflict:?}")))
    }

    /// Commits and expects a conflict.
    async fn conflict(&self, writes: &[Write<'_>]) -> Result<Conflict, Failure> {
        match self.store.commit(writes).await? {
            Ok(committed) => Err(Failure(format!("expected a conflict, got {committed:?}"))),
            Err(conflict) => Ok(conflict),
        }
    }
}

/// A rule that does not hold.
struct Failure(String);

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self(format!("the store failed: {error}"))
    }
}

/// Fails unless both are equal.
fn expect_eq<T: PartialEq + fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<(), Failure> {
    match found == expected {
        true => Ok(()),
        false => Err(Failure(format!("{what}: found {found:?}, expected {expected:?}"))),
    }
}

fn expect(what: &str, holds: bool) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure(format!("expected: {what}"))) }
}

/// Asks until the answer is yes, for at most 20 seconds.
async fn eventually<F: Future<Output = Result<bool, Failure>>>(
    what: &str,
    mut ask: impl FnMut() -> F,
) -> Result<(), Failure> {
    for _ in 0..2_000 {
        if ask().await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(Failure(format!("still not after 20 s: {what}")))
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Long enough for every check that does not wait for an end.
const TTL: Duration = Duration::from_secs(60);
/// Short enough to wait for.
const SHORT: Duration = Duration::from_millis(150);
