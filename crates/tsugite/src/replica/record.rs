//! Records in a store, which replicas of other versions read and write as well.
//!
//! A record is JSON. It has the version that its reader must have at least, and members of a later version survive when
//! this one writes the record back. A change that older replicas must not ignore raises the version.

use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Replica;
use crate::store::StoreError;

/// The version of a record, and the members that this version of the library does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OtherMembers {
    #[serde(default = "own_version")]
    version: u32,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Default for OtherMembers {
    fn default() -> Self {
        Self { version: own_version(), rest: Map::new() }
    }
}

/// The reason why a record cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordError {
    /// It was sealed with a key that is unknown here, or for another field.
    Sealed,
    /// Its reader must have this version at least.
    Newer(u32),
    Malformed,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Sealed => f.write_str("it cannot be opened: do all replicas have the same keys?"),
            RecordError::Newer(version) => write!(
                f,
                "it has version {version}, and this replica reads up to version {VERSION}; update this replica"
            ),
            RecordError::Malformed => f.write_str("it is malformed"),
        }
    }
}

impl std::error::Error for RecordError {}

/// Reads a record that is not sealed.
pub(crate) fn read_record<T: DeserializeOwned>(plain: &[u8]) -> Result<T, RecordError> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default = "own_version")]
        version: u32,
    }
    let head: Head = serde_json::from_slice(plain).map_err(|_| RecordError::Malformed)?;
    if head.version > VERSION {
        return Err(RecordError::Newer(head.version));
    }
    serde_json::from_slice(plain).map_err(|_| RecordError::Malformed)
}

impl Replica {
    /// Seals a record for a field.
    pub(crate) fn seal_record(
        &self,
        key: &str,
        field: &str,
        record: &impl Serialize,
    ) -> Result<Bytes, StoreError> {
        self.seal(key, field, &serde_json::to_vec(record)?)
    }

    /// Opens the record of a field.
    pub(crate) fn open_record<T: DeserializeOwned>(
        &self,
        key: &str,
        field: &str,
        sealed: &[u8],
    ) -> Result<T, RecordError> {
        read_record(&self.open(key, field, sealed).ok_or(RecordError::Sealed)?)
    }
}

fn own_version() -> u32 {
    VERSION
}

/// The version of the records that this version of the library writes.
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Record {
        name: String,
        #[serde(flatten)]
        other: OtherMembers,
    }

    #[test]
    fn unknown_members_survive() -> Result<(), Box<dyn std::error::Error>> {
        let mut record: Record = read_record(br#"{"name":"a","version":1,"later":{"b":[1,"c"]}}"#)?;
        record.name = "d".to_owned();
        let written: Value = serde_json::to_value(&record)?;
        assert_eq!(written, serde_json::json!({"name": "d", "version": 1, "later": {"b": [1, "c"]}}));
        Ok(())
    }

    #[test]
    fn record_of_a_newer_version_is_an_error() {
        let newer = read_record::<Record>(br#"{"version":2,"other":"shape"}"#);
        assert_eq!(newer.err(), Some(RecordError::Newer(2)));
        assert_eq!(read_record::<Record>(b"{}").err(), Some(RecordError::Malformed));
    }
}
