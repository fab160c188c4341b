//! Values in a store are sealed with the keys of the server, and names that are secrets are digested.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::Replica;
use crate::store::StoreError;

impl Replica {
    /// Seals a value for a field of a record, or for a log.
    pub(crate) fn seal(&self, key: &str, field: &str, plain: &[u8]) -> Result<Bytes, StoreError> {
        let expires = SystemTime::now() + SEALED_FOR;
        let sealed = self.keys.ring()?.seal_bytes(plain, &bound_to(key, field), expires)?;
        Ok(Bytes::from(sealed))
    }

    /// Opens a value. `None` if it was not sealed for this field with a key that is known here.
    pub(crate) fn open(&self, key: &str, field: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let ring = self.keys.ring().ok()?;
        ring.open_bytes(sealed.to_vec(), &bound_to(key, field), SystemTime::now()).ok()
    }
}

fn bound_to<'a>(key: &'a str, field: &'a str) -> [&'a [u8]; 3] {
    [b"store", key.as_bytes(), field.as_bytes()]
}

/// A digest of a secret name, such as a session id, as 64 hexadecimal digits.
pub(crate) fn digest(secret: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, secret);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Longer than any entry of a store lives.
const SEALED_FOR: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
