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
//! | [`sse`] | Which events are in this stream? |
//! | [`base64`] | How do bytes stand in text? |
//!
//! A request walks through the first four in that order: its bytes are [parsed](jsonrpc::parse), the session
//! [decides](session) which revision it speaks, its params are [read](revision::read_params) into the newest shape,
//! and the answer is [written](revision::write_result) back in the shape of the peer.
//!
//! A line comes in, a decision comes out, and one result is written for two peers, of which the older has no structured
//! content:
//!
//! ```
//! use tsugite_core::jsonrpc::{Incoming, Limits, Message, RawJson, parse};
//! use tsugite_core::protocol::tools::{Call, CallResult};
//! use tsugite_core::revision::{Revision, Revisions, read_params, write_result};
//! use tsugite_core::session::HandshakePhase;
//! use tsugite_core::session::stdio::{StdioDecision, decide};
//!
//! let line = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}"#;
//! let message = parse(line, &Limits::default());
//!
//! // The client agreed on 2025-03-26 before. What must happen next?
//! let phase = HandshakePhase::Initialized(Revision::V2025_03_26);
//! let StdioDecision::Serve(agreed) = decide(phase, Revisions::ALL, &message) else { return Err("not served".into()) };
//! let Incoming::Single(Message::Request(request)) = message? else { return Err("no request".into()) };
//! let params = read_params::<Call>(request.params(), agreed)?;
//! assert_eq!(params.mcp_name, "add");
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
