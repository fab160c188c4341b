//! What tests share: a fixture server, a raw peer, and transcripts that run over every transport and revision.
//!
//! Checks over the whole tree live in `tests/`. The examples of the README are compiled and run here.

pub mod fixture;
pub mod peer;
pub mod transcript;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../README.ja.md")]
pub struct ReadmeInJapanese;
