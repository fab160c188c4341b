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

impl Replica {
    /// The name as the ids of questions to clients contain it. Its second half proves that a replica made it, so that a
    /// client which invents an id cannot have messages stored for a replica that does not exist.
    pub(crate) fn asker(&self) -> &str {
        self.asker.get_or_init(|| match self.keys.ring() {
            Ok(keys) => format!("{}{:016x}", self.name(), keys.tag(self.name())),
            Err(_) => self.name().to_owned(),
        })
    }

    /// The name of the replica that the id of a question contains, if a replica made it.
    pub(crate) fn verify_asker(&self, asker: &str) -> Option<String> {
        let (name, tag) = asker.split_at_checked(NAME_DIGITS)?;
        let made = u64::from_str_radix(tag, 16).ok()?;
        self.keys.ring().ok()?.has_made(made, name).then(|| name.to_owned())
    }
}

/// A digest of a secret name, such as a session id, as 64 hexadecimal digits.
pub(crate) fn digest(secret: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, secret);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hexadecimal digits of the name of a replica.
pub(crate) const NAME_DIGITS: usize = 16;
/// Longer than any entry of a store lives.
const SEALED_FOR: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
