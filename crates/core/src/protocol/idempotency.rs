//! The extension for idempotency: a tool whose calls have a key, so that a call which is sent twice runs once.
//!
//! No revision has it. `docs/idempotency.md` specifies it. Everything it adds is in `_meta`, so that a peer which does not
//! know it is not affected.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Meta;
use crate::jsonrpc::{ErrorObject, RawJson};

/// The identifier of the extension, and the key of [`Idempotency`] in the `_meta` of a tool.
pub const EXTENSION: &str = "dev.tsugite/idempotency";

/// The key of an [`IdempotencyKey`] in the `_meta` of a call.
pub const KEY: &str = "dev.tsugite/idempotency-key";

/// The declaration of a server about the keys of a tool, in the `_meta` of its definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Idempotency {
    /// How long the outcome of a call is remembered at least, in milliseconds.
    pub retention_ms: u64,
    /// Whether a server that is started again still knows it, and every replica does.
    #[serde(default)]
    pub durable: bool,
}

impl Idempotency {
    /// A retention in milliseconds, and whether the memory outlives the process.
    pub fn new(retention_ms: u64, durable: bool) -> Self {
        Self { retention_ms, durable }
    }
}

/// The key of a call: 16 to 128 visible ASCII characters. A new call needs a new key that cannot be guessed.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct IdempotencyKey(Box<str>);

impl IdempotencyKey {
    /// Checks the form of a key.
    pub fn new(key: impl Into<Box<str>>) -> Result<Self, InvalidKeyError> {
        let key = key.into();
        let is_valid = (MIN_KEY_BYTES..=MAX_KEY_BYTES).contains(&key.len())
            && key.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid.then_some(Self(key)).ok_or(InvalidKeyError)
    }

    /// The key as it was sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Does not show the key, which gives access to the result of the call.
impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdempotencyKey(…)")
    }
}

/// A key that is no string, too short, too long, or has other characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidKeyError;

impl fmt::Display for InvalidKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the `_meta` key `{KEY}` must be a string of {MIN_KEY_BYTES} to {MAX_KEY_BYTES} visible ASCII characters"
        )
    }
}

impl std::error::Error for InvalidKeyError {}

impl Meta {
    /// The declaration about the keys of a tool. `None` also if it is malformed.
    pub fn idempotency(&self) -> Option<Idempotency> {
        self.get(EXTENSION)?.read().ok()
    }

    /// Says how long the calls of a tool are remembered.
    pub fn set_idempotency(&mut self, idempotency: &Idempotency) {
        self.insert(EXTENSION, idempotency);
    }

    /// The key of a call; an error if there is one that is malformed.
    pub fn idempotency_key(&self) -> Option<Result<IdempotencyKey, InvalidKeyError>> {
        let text = self.get(KEY)?.read::<String>();
        Some(text.map_err(|_| InvalidKeyError).and_then(IdempotencyKey::new))
    }

    /// Sets the key of a call.
    pub fn set_idempotency_key(&mut self, key: &IdempotencyKey) {
        self.insert(KEY, key);
    }
}

/// Why a call with a key has no result, in the data of its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KeyFault {
    /// The first call with the key still runs.
    Running,
    /// The first call began, and how it ended is not known.
    MayHaveRun,
    /// The first call ended, and its result is too large to be remembered.
    ResultNotKept,
    /// The key belongs to another call.
    OtherCall,
}

impl KeyFault {
    /// An error with this fault in its data.
    pub fn error(self, code: i64, message: impl Into<std::borrow::Cow<'static, str>>) -> ErrorObject {
        ErrorObject::new(code, message).data(&FaultData { fault: self })
    }

    /// The fault in the data of an error.
    pub fn from_data(data: &RawJson) -> Option<Self> {
        data.read::<FaultData>().ok().map(|data| data.fault)
    }
}

#[derive(Serialize, Deserialize)]
struct FaultData {
    #[serde(rename = "dev.tsugite/idempotency")]
    fault: KeyFault,
}

/// The fewest bytes of a key: what is shorter can be guessed.
const MIN_KEY_BYTES: usize = 16;
const MAX_KEY_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_meta_keys() {
        for key in [EXTENSION, KEY] {
            assert!(super::super::meta::is_valid_key(key));
            assert!(crate::revision::Revision::ALL.iter().all(|revision| !revision.reserves_meta_key(key)));
        }
    }

    #[test]
    fn key_has_16_to_128_visible_characters() {
        for good in ["0123456789abcdef", "!~0123456789abcdef", &"k".repeat(128)] {
            assert_eq!(IdempotencyKey::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "0123456789abcde", "0123456789 abcdef", "0123456789abcdéf", &"k".repeat(129)] {
            assert_eq!(IdempotencyKey::new(bad), Err(InvalidKeyError), "{bad}");
        }
    }

    #[test]
    fn key_that_is_no_string_is_an_error() {
        let mut meta = Meta::new();
        assert_eq!(meta.idempotency_key(), None);
        meta.insert(KEY, &1);
        assert_eq!(meta.idempotency_key(), Some(Err(InvalidKeyError)));
        let key = IdempotencyKey::new("0123456789abcdef").unwrap();
        meta.set_idempotency_key(&key);
        assert_eq!(meta.idempotency_key(), Some(Ok(key.clone())));
        assert!(!format!("{key:?}").contains("0123"));
    }

    #[test]
    fn fault_is_read_from_the_data_it_was_written_to() {
        let error = KeyFault::MayHaveRun.error(-1, "no");
        assert_eq!(KeyFault::from_data(&error.data.unwrap()), Some(KeyFault::MayHaveRun));
    }
}
