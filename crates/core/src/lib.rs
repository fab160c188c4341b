//! What a Model Context Protocol message is, in every published revision, and what must happen next.
//!
//! Nothing here moves bytes, owns a clock or starts a task: callers hand in what arrived and the instant it arrived,
//! and get back values and decisions.
//!
//! | module | its question |
//! |---|---|
//! | [`jsonrpc`] | Is this a message, and of which kind? |
//! | [`protocol`] | What does it say? In the newest shape only. |
//! | [`revision`] | How does the peer's revision write that? The one place where revisions differ. |
//! | [`session`] | What must happen next? |
//! | [`uri_template`] | Which resource does this URI name? |
//! | [`base64`] | How do bytes stand in text? |
//!
//! A request walks through the first four in that order: its bytes are [parsed](jsonrpc::parse), the session
//! [decides](session) which revision it speaks, its params are [read](revision::read_params) into the newest shape,
//! and the answer is [written](revision::write_result) back in the shape of the peer.

pub mod base64;
pub mod jsonrpc;
pub mod protocol;
pub mod revision;
pub mod session;
pub mod uri_template;
