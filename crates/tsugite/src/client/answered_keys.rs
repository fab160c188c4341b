//! The questions of a task that were answered, which its server may still show.

use std::collections::HashSet;

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

/// The keys of answered questions, as digests: a server cannot fill the memory with long keys.
#[derive(Default)]
pub(crate) struct AnsweredKeys(HashSet<[u8; SHA256_OUTPUT_LEN]>);

impl AnsweredKeys {
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.0.contains(&key_digest(key))
    }

    /// Records that a question is answered. Returns false if the task has asked too many.
    pub(crate) fn insert(&mut self, key: &str) -> bool {
        self.0.insert(key_digest(key));
        self.0.len() <= MAX_QUESTIONS
    }
}

fn key_digest(key: &str) -> [u8; SHA256_OUTPUT_LEN] {
    let mut bytes = [0; SHA256_OUTPUT_LEN];
    bytes.copy_from_slice(digest(&SHA256, key.as_bytes()).as_ref());
    bytes
}

/// The questions that one task may ask.
pub(crate) const MAX_QUESTIONS: usize = 1_000;
