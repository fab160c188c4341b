//! Model Context Protocol messages in every published revision, and the rules of an exchange.
//!
//! This crate does no I/O, owns no clock and starts no task: callers pass in what arrived and the current instant, and
//! get back values and decisions.
//!
//! | module | contents |
//! |---|---|
//! | [`jsonrpc`] | JSON-RPC 2.0: parsing and writing messages. |
//! | [`protocol`] | Methods, params and results, in the shape of the newest revision. |
//! | [`revision`] | The differences between revisions, and the translation between them. |
//! | [`session`] | Decisions: which revision governs a message and what happens next. |
//! | [`uri_template`] | URI templates (RFC 6570): expanding and matching. |
//! | [`sse`] | A reader for event streams. |
//! | [`base64`] | Base64, strict. |
//!
//! A request passes through the first four in that order: its bytes are [parsed](jsonrpc::parse), the session
//! [decides](session) which revision governs it, its params are [read](revision::read_params) into the newest shape,
//! and the result is [written](revision::write_result) in the shape of the peer's revision.
//!
//! An example: parse a line, decide, and write one result for two peers, of which the older has no structured content:
//!
//! ```
//! use tsugite_core::jsonrpc::{Incoming, Message, MessageLimits, RawJson, parse};
//! use tsugite_core::protocol::tools::{Call, CallResult};
//! use tsugite_core::revision::{Revision, Revisions, read_params, write_result};
//! use tsugite_core::session::HandshakePhase;
//! use tsugite_core::session::stdio::{StdioDecision, decide};
//!
//! let line = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}"#;
//! let message = parse(line, &MessageLimits::default());
//!
//! // The client agreed on 2025-03-26 before.
//! let phase = HandshakePhase::Ready(Revision::V2025_03_26);
//! let StdioDecision::Serve(agreed) = decide(phase, Revisions::ALL, &message) else { return Err("not served".into()) };
//! let Incoming::Single(Message::Request(request)) = message? else { return Err("no request".into()) };
//! let params = read_params::<Call>(request.params(), agreed)?;
//! assert_eq!(params.name, "add");
//!
//! let result = CallResult::new([]).structured_content(RawJson::parse(r#"{"sum":3}"#)?);
//! for (peer, wire) in [
//!     (agreed, r#"{"content":[{"type":"text","text":"{\"sum\":3}"}]}"#),
//!     (Revision::NEWEST, r#"{"resultType":"complete","content":[],"structuredContent":{"sum":3}}"#),
//! ] {
//!     let mut out = Vec::new();
//!     write_result::<Call>(&mut out, &request.id, result.clone().into(), peer, None)?;
//!     assert_eq!(String::from_utf8(out)?, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{wire}}}"#));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod base64;
pub mod jsonrpc;
pub mod protocol;
pub mod revision;
pub mod session;
pub mod sse;
pub mod uri_template;
