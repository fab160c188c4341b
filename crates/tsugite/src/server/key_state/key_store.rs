//! Reads and writes the records of keys.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::key_record::KeyRecord;
use crate::replica::{Replica, read_record};
use crate::store::{Field, Precondition, Store, StoreError, Write};

/// The keys in the store of a server.
pub(crate) struct KeyStore {
    store: Arc<dyn Store>,
    /// This process among others; `None` if the store ends with the process.
    pub(crate) replica: Option<Arc<Replica>>,
}

/// A record as it was read.
#[derive(Debug)]
pub(crate) struct StoredKey {
    pub(crate) record: KeyRecord,
    pub(crate) version: u64,
    /// The result or the error as JSON; `None` if there is none, or if it was too large.
    pub(crate) outcome: Option<Vec<u8>>,
}

/// A change of the outcome in the store.
pub(crate) enum OutcomeChange<'a> {
    /// It stays.
    Keep,
    Set(&'a [u8]),
    /// It is too large to be kept.
    Remove,
}

/// A record that is to be written.
pub(crate) struct KeyWrite<'a> {
    pub(crate) record: &'a KeyRecord,
    pub(crate) outcome: OutcomeChange<'a>,
    /// The version that it replaces; `None` for a new record.
    pub(crate) replaces: Option<u64>,
    pub(crate) ttl: Duration,
}

/// Another writer was faster. The record that it left, if it can be read.
#[derive(Debug)]
pub(crate) struct KeyConflict(pub(crate) Option<KeyRecord>);

impl KeyStore {
    pub(crate) fn new(store: Arc<dyn Store>, replica: Option<Arc<Replica>>) -> Self {
        Self { store, replica }
    }

    /// The name of this process in the records.
    pub(crate) fn process(&self) -> &str {
        self.replica.as_ref().map_or("", |replica| replica.name())
    }

    /// Reads the record of a key. `None` if there is none. One that cannot be read is an error, so that its call is not taken
    /// for a new one.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<StoredKey>, StoreError> {
        let key = record_key(name);
        let Some(fields) = self.store.read(&key, &[STATE, OUTCOME]).await? else { return Ok(None) };
        let [Some(state), outcome] = &fields[..] else { return Ok(None) };
        let record = self.open_record(&key, state)?;
        let outcome = outcome.as_ref().map(|field| self.open(&key, OUTCOME, field)).transpose()?;
        Ok(Some(StoredKey { record, version: state.version, outcome }))
    }

    /// Writes a record, and returns its version.
    pub(crate) async fn write(
        &self,
        name: &str,
        write: KeyWrite<'_>,
    ) -> Result<Result<u64, KeyConflict>, StoreError> {
        let (key, ttl) = (record_key(name), write.ttl);
        let value = self.seal(&key, STATE, &serde_json::to_vec(write.record)?)?;
        let precondition = write.replaces.map_or(Precondition::FieldAbsent, Precondition::FieldVersion);
        let mut writes = vec![Write::Set { key: &key, field: STATE, value, precondition, ttl }];
        let precondition = Precondition::None;
        match write.outcome {
            OutcomeChange::Keep => {}
            OutcomeChange::Set(outcome) => {
                let value = self.seal(&key, OUTCOME, outcome)?;
                writes.push(Write::Set { key: &key, field: OUTCOME, value, precondition, ttl });
            }
            OutcomeChange::Remove => writes.push(Write::Remove { key: &key, field: OUTCOME, precondition }),
        }
        Ok(match self.store.commit(&writes).await? {
            Ok(committed) => Ok(committed.version),
            Err(conflict) => {
                let found = conflict.current.and_then(|field| self.open_record(&key, &field).ok());
                Err(KeyConflict(found))
            }
        })
    }

    /// Removes a record that has this version.
    pub(crate) async fn remove(&self, name: &str, version: u64) -> Result<(), StoreError> {
        let (key, precondition) = (record_key(name), Precondition::FieldVersion(version));
        drop(self.store.commit(&[Write::Remove { key: &key, field: STATE, precondition }]).await?);
        Ok(())
    }

    /// Keeps a record for so long from now on.
    pub(crate) async fn touch(&self, name: &str, ttl: Duration) -> Result<(), StoreError> {
        drop(self.store.commit(&[Write::Touch { key: &record_key(name), ttl }]).await?);
        Ok(())
    }

    fn open_record(&self, key: &str, field: &Field) -> Result<KeyRecord, StoreError> {
        Ok(read_record(&self.open(key, STATE, field)?)?)
    }

    /// Values of a store that ends with the process are not sealed.
    fn seal(&self, key: &str, field: &str, plain: &[u8]) -> Result<Bytes, StoreError> {
        match &self.replica {
            Some(replica) => replica.seal(key, field, plain),
            None => Ok(Bytes::copy_from_slice(plain)),
        }
    }

    fn open(&self, key: &str, field: &str, value: &Field) -> Result<Vec<u8>, StoreError> {
        match &self.replica {
            Some(replica) => replica.open(key, field, &value.value).ok_or_else(|| CANNOT_OPEN.into()),
            None => Ok(value.value.to_vec()),
        }
    }
}

/// The key of a record in the store.
fn record_key(name: &str) -> String {
    format!("once/{name}")
}

const STATE: &str = "state";
const OUTCOME: &str = "outcome";
const CANNOT_OPEN: &str = "a record cannot be opened: do all replicas have the same keys?";

#[cfg(test)]
mod tests {
    use super::super::key_record::KeyState;
    use super::*;
    use crate::store::MemoryStore;

    const RECORD: &str = r#"{"tool":"pay","payload":"p","first_round":"r","round":"r",
        "state":"done","version":1,"later":{"a":1}}"#;

    async fn store_with(state: &str) -> KeyStore {
        let (store, ttl) = (Arc::new(MemoryStore::new()), Duration::from_secs(60));
        let (key, value) = (record_key("name"), Bytes::copy_from_slice(state.as_bytes()));
        let write = Write::Set { key: &key, field: STATE, value, precondition: Precondition::None, ttl };
        store.commit(&[write]).await.unwrap().unwrap();
        KeyStore::new(store, None)
    }

    #[tokio::test]
    async fn members_of_a_later_version_survive() {
        let keys = store_with(RECORD).await;
        let StoredKey { record, version, .. } = keys.read("name").await.unwrap().unwrap();
        let record = KeyRecord { state: KeyState::Stopped, ..record };
        let (ttl, outcome) = (Duration::from_secs(60), OutcomeChange::Set(b"1"));
        let write = KeyWrite { record: &record, outcome, replaces: Some(version), ttl };
        keys.write("name", write).await.unwrap().unwrap();
        let stored = keys.store.read(&record_key("name"), &[STATE]).await.unwrap().unwrap();
        let text = String::from_utf8(stored[0].as_ref().unwrap().value.to_vec()).unwrap();
        assert!(text.contains(r#""later":{"a":1}"#) && text.contains("stopped"), "{text}");
    }

    #[tokio::test]
    async fn record_that_cannot_be_read_is_an_error() {
        let newer = RECORD.replace(r#""version":1"#, r#""version":2"#);
        let other_state = RECORD.replace("done", "unknown");
        for text in [newer.as_str(), other_state.as_str(), "{}", "", "no json"] {
            let keys = store_with(text).await;
            assert!(keys.read("name").await.is_err(), "{text}");
        }
    }
}
