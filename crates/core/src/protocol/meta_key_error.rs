//! Why an application must not set a `_meta` key.

use std::fmt;

/// A `_meta` key that an application must not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaKeyError {
    key: String,
    fault: MetaKeyFault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaKeyFault {
    Malformed,
    Reserved,
    TraceValue,
}

impl MetaKeyError {
    pub(crate) fn new(key: &str, fault: MetaKeyFault) -> Self {
        Self { key: key.chars().take(MAX_KEY_CHARS).collect(), fault }
    }
}

impl fmt::Display for MetaKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match self.fault {
            MetaKeyFault::Malformed => {
                write!(f, "the `_meta` key {key:?} is malformed; write it like `com.example/name`")
            }
            MetaKeyFault::Reserved => write!(
                f,
                "the `_meta` key {key:?} is reserved by the protocol; use a prefix of your own, like `com.example/`"
            ),
            MetaKeyFault::TraceValue => {
                write!(f, "the `_meta` key {key:?} does not hold a value of W3C Trace Context or Baggage")
            }
        }
    }
}

impl std::error::Error for MetaKeyError {}

/// The length to which a key is cut in an error.
const MAX_KEY_CHARS: usize = 100;
