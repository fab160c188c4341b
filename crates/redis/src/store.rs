//! The store: its settings and its operations.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tsugite_store::{
    Committed, Conflict, Field, LogRead, Position, Received, SpendLimit, Store, StoreFuture, StoreResult,
    StoreScope, Write,
};

use crate::address::{Address, UrlError};
use crate::client::Client;
use crate::messages::IdleReceiver;
use crate::reply::{self, Read};
use crate::script::Request;
use crate::settings::Settings;
use crate::{commit, logs, messages, records};

/// A store in one Redis server, 7.0 or newer.
///
/// It connects when it is first used. The [crate](crate) says what it stores and sends.
///
/// ```
/// use std::time::Duration;
///
/// use tsugite_redis::Redis;
///
/// # fn main() -> Result<(), tsugite_redis::UrlError> {
/// let store = Redis::at("redis://localhost:6379/1")?.prefix("notes").timeout(Duration::from_secs(1));
/// # Ok(())
/// # }
/// ```
// Not `Clone`, so that it is not taken for a value of the application, which a server clones.
pub struct Redis {
    client: Client,
    receiver: Arc<IdleReceiver>,
    versions: Versions,
}

impl Redis {
    /// A store at `redis://[[user]:password@]host[:port][/database]`, or `rediss://…` with TLS.
    ///
    /// Fails if the URL is malformed, or if it is `redis://` and the host is not this machine: credentials and contents would
    /// cross a network in plain text. Nothing is connected yet, and an absent server is not an error. The result is a
    /// `Result`, so that a wrong address ends the start of a program and is not found by its first request.
    pub fn at(url: &str) -> Result<Self, UrlError> {
        Ok(Self::new(Address::from_url(url)?.require_encryption()?))
    }

    /// Like [`at`](Self::at), and also accepts `redis://` to other machines. For networks that are encrypted by other means.
    pub fn at_unencrypted(url: &str) -> Result<Self, UrlError> {
        Ok(Self::new(Address::from_url(url)?))
    }

    fn new(address: Address) -> Self {
        Self {
            client: Client::new(Settings::new(address)),
            receiver: Arc::default(),
            versions: Versions::default(),
        }
    }

    /// Sets what all keys begin with, before a colon; `tsugite` by default. Stores with the same prefix in the same database
    /// are replicas of each other.
    #[must_use]
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        self.set(|settings| settings.prefix = prefix.into())
    }

    /// Sets the time within which an operation succeeds or fails; 2 seconds by default, at most an hour.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        let timeout = timeout.clamp(Duration::from_millis(1), Duration::from_secs(60 * 60));
        self.set(|settings| settings.timeout = timeout)
    }

    /// Trusts the certificates in a PEM file, besides those that this machine trusts. The file is read for each
    /// connection.
    #[must_use]
    pub fn add_root_certificate(self, file: impl Into<PathBuf>) -> Self {
        self.set(|settings| settings.tls.roots.push(file.into()))
    }

    /// Presents a certificate to a server that asks for one: PEM files with the chain and with its key.
    #[must_use]
    pub fn client_certificate(self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.set(|settings| settings.tls.identity = Some((chain.into(), key.into())))
    }

    fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.client.settings));
        self
    }

    fn send<T: Send + 'static>(
        &self,
        request: impl FnOnce(&Settings) -> Request,
        read: impl FnOnce(Value) -> Read<T> + Send + 'static,
    ) -> StoreResult<T> {
        let client = self.client.clone();
        let request = request(&client.settings);
        StoreFuture::pending(async move { Ok(client.send(&request, read).await?) })
    }
}

impl Store for Redis {
    fn scope(&self) -> StoreScope {
        StoreScope::Replicas
    }

    fn read(&self, key: &str, fields: &[&str]) -> StoreResult<Option<Vec<Option<Field>>>> {
        self.send(|settings| records::read_request(settings, key, fields), records::read_fields)
    }

    fn list(&self, key: &str, after: &str, max: usize) -> StoreResult<Vec<(String, Field)>> {
        let (client, key, after) = (self.client.clone(), key.to_owned(), after.to_owned());
        StoreFuture::pending(async move { Ok(records::list(&client, &key, &after, max).await?) })
    }

    fn commit(&self, writes: &[Write<'_>]) -> StoreResult<Result<Committed, Conflict>> {
        let version = self.versions.next();
        match commit::request(&self.client.settings, writes, version) {
            Ok(request) => self.send(|_| request, move |reply| commit::read(reply, version)),
            Err(error) => StoreFuture::Ready(Err(error)),
        }
    }

    fn take(&self, key: &str) -> StoreResult<Option<Vec<(String, Bytes)>>> {
        self.send(|settings| records::take_request(settings, key), records::read_taken)
    }

    fn spend(&self, key: &str, cost: u32, limit: SpendLimit) -> StoreResult<Result<(), Duration>> {
        self.send(|settings| records::spend_request(settings, key, cost, limit), records::read_spent)
    }

    fn read_log(&self, log: &str, after: u64) -> StoreResult<Option<LogRead>> {
        self.send(|settings| logs::read_request(settings, log, after), move |reply| logs::read(reply, after))
    }

    fn receive(&self, replica: &str, position: &Position) -> StoreResult<Received> {
        let (client, receiver) = (self.client.clone(), self.receiver.clone());
        let (replica, position) = (replica.to_owned(), position.clone());
        StoreFuture::pending(
            async move { Ok(messages::receive(&client, &receiver, &replica, &position).await?) },
        )
    }

    fn inbox(&self, replica: &str) -> StoreResult<Vec<Bytes>> {
        self.send(|settings| messages::inbox_request(settings, replica), messages::read_inbox)
    }

    fn renew_lease(&self, replica: &str, ttl: Duration, handled: &Position) -> StoreResult<()> {
        self.send(|settings| messages::renew_request(settings, replica, ttl, handled), |_| Ok(()))
    }

    fn has_lease(&self, replica: &str) -> StoreResult<bool> {
        let read = |reply| Ok(reply::integer(reply)? == 1);
        self.send(|settings| messages::lease_request(settings, replica), read)
    }

    fn end_lease(&self, replica: &str) -> StoreResult<()> {
        self.send(|settings| messages::end_request(settings, replica), |_| Ok(()))
    }
}

/// Shows neither user nor password.
impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { name, prefix, timeout, .. } = &*self.client.settings;
        f.debug_struct("Redis")
            .field("address", name)
            .field("prefix", prefix)
            .field("timeout", timeout)
            .finish_non_exhaustive()
    }
}

/// Versions of commits: random, since every replica makes its own.
#[derive(Default)]
struct Versions {
    random: RandomState,
    last: AtomicU64,
}

impl Versions {
    fn next(&self) -> u64 {
        self.random.hash_one(self.last.fetch_add(1, Ordering::Relaxed))
    }
}
