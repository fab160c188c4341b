//! The state of the server in a store: every value is sealed, and every name is digested.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ring::digest::{SHA256, digest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tsugite::base64;
use tsugite::server::SealKeys;
use tsugite::store::{Precondition, SpendLimit, Store, StoreError, Write};

use super::clock::Clock;

/// The records of one issuer.
pub(super) struct Records {
    store: Arc<dyn Store>,
    keys: SealKeys,
    prefix: String,
    clock: Clock,
}

/// A value with the version that a later write can name.
pub(super) struct Versioned<T> {
    pub(super) value: T,
    pub(super) version: u64,
}

impl Records {
    pub(super) fn new(store: Arc<dyn Store>, keys: SealKeys, issuer: &str, clock: Clock) -> Self {
        let prefix = format!("oauth:{}", hex_digest(issuer).get(..16).unwrap_or_default());
        Self { store, keys, prefix, clock }
    }

    /// The key of a record: its kind, and the digest of a name that may be a secret.
    pub(super) fn key(&self, kind: &str, name: &str) -> String {
        format!("{}:{kind}:{}", self.prefix, hex_digest(name))
    }

    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        key: &str,
        field: &str,
    ) -> Result<Option<Versioned<T>>, StoreError> {
        let fields = self.store.read(key, &[field]).await?;
        let Some(Some(found)) = fields.and_then(|fields| fields.into_iter().next()) else { return Ok(None) };
        // A value that cannot be opened is read as none: its seal key was retired, or the store was tampered with. A
        // precondition still sees it.
        let value = self.open(key, field, &found.value);
        Ok(value.map(|value| Versioned { value, version: found.version }))
    }

    /// Returns all fields of a small record, in order. Those that cannot be opened have no value.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        key: &str,
    ) -> Result<Vec<(String, Option<T>)>, StoreError> {
        let fields = self.store.list(key, "", MAX_LISTED).await?;
        let opened = fields.into_iter().map(|(field, found)| {
            let value = self.open(key, &field, &found.value);
            (field, value)
        });
        Ok(opened.collect())
    }

    /// Writes a field. Returns false if the precondition does not hold.
    pub(super) async fn write<T: Serialize>(
        &self,
        (key, field): (&str, &str),
        value: &T,
        precondition: Precondition,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let value = self.seal(key, field, value)?;
        let write = Write::Set { key, field, value: value.into(), precondition, ttl };
        Ok(self.store.commit(&[write]).await?.is_ok())
    }

    /// Writes a name that nothing else has written before. Returns false if it is there already.
    pub(super) async fn claim(&self, kind: &str, name: &str, ttl: Duration) -> Result<bool, StoreError> {
        self.write((&self.key(kind, name), FIELD), &true, Precondition::FieldAbsent, ttl).await
    }

    pub(super) async fn exists(&self, kind: &str, name: &str) -> Result<bool, StoreError> {
        Ok(self.store.read(&self.key(kind, name), &[FIELD]).await?.is_some())
    }

    /// Removes a record and returns its value. Only one of several concurrent calls gets it.
    pub(super) async fn take<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        let fields = self.store.take(key).await?.unwrap_or_default();
        let value = fields.into_iter().find(|(field, _)| field == FIELD);
        Ok(value.and_then(|(_, value)| self.open(key, FIELD, &value)))
    }

    pub(super) async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.store
            .commit(&[Write::Delete { key }])
            .await?
            .map(drop)
            .map_err(|_| "a deletion conflicts".into())
    }

    pub(super) async fn remove_field(&self, key: &str, field: &str) -> Result<(), StoreError> {
        let write = Write::Remove { key, field, precondition: Precondition::None };
        self.store.commit(&[write]).await?.map(drop).map_err(|_| "a removal conflicts".into())
    }

    pub(super) async fn touch(&self, key: &str, ttl: Duration) -> Result<(), StoreError> {
        self.store
            .commit(&[Write::Touch { key, ttl }])
            .await?
            .map(drop)
            .map_err(|_| "a touch conflicts".into())
    }

    /// Takes one from a rate limit. The error is the time to wait.
    pub(super) async fn spend(
        &self,
        kind: &str,
        name: &str,
        limit: SpendLimit,
    ) -> Result<Result<(), Duration>, StoreError> {
        self.store.spend(&self.key(kind, name), 1, limit).await
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Seals a value that a browser carries, for one purpose.
    pub(super) fn seal_text<T: Serialize>(
        &self,
        value: &T,
        bound_to: &[&str],
        ttl: Duration,
    ) -> Result<String, StoreError> {
        let parts = text_parts(bound_to);
        let sealed = self.keys.seal_bytes(&serde_json::to_vec(value)?, &parts, self.clock.now() + ttl)?;
        Ok(base64::encode_url(&sealed))
    }

    /// Opens a value that a browser has sent, if it was sealed for this purpose and has not expired.
    pub(super) fn open_text<T: DeserializeOwned>(&self, text: &str, bound_to: &[&str]) -> Option<T> {
        let sealed = base64::decode_url(text)?;
        let plain = self.keys.open_bytes(sealed, &text_parts(bound_to), self.clock.now()).ok()?;
        serde_json::from_slice(&plain).ok()
    }

    fn seal<T: Serialize>(&self, key: &str, field: &str, value: &T) -> Result<Vec<u8>, StoreError> {
        let plain = serde_json::to_vec(value)?;
        Ok(self.keys.seal_bytes(&plain, &field_parts(key, field), SystemTime::now() + SEALED_FOR)?)
    }

    fn open<T: DeserializeOwned>(&self, key: &str, field: &str, sealed: &[u8]) -> Option<T> {
        let opened = self.keys.open_bytes(sealed.to_vec(), &field_parts(key, field), SystemTime::now());
        serde_json::from_slice(&opened.ok()?).ok()
    }
}

fn field_parts<'a>(key: &'a str, field: &'a str) -> [&'a [u8]; 3] {
    [b"oauth store", key.as_bytes(), field.as_bytes()]
}

fn text_parts<'a>(bound_to: &[&'a str]) -> Vec<&'a [u8]> {
    std::iter::once(&b"oauth form"[..]).chain(bound_to.iter().map(|part| part.as_bytes())).collect()
}

/// The SHA-256 digest of a text, in hexadecimal.
pub(super) fn hex_digest(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The field of a record with one value.
pub(super) const FIELD: &str = "v";
const MAX_LISTED: usize = 1_000;
/// Longer than any record lives.
const SEALED_FOR: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
