//! The rules of a connection as pure functions and state: they take messages and instants and return decisions.
//!
//! - [`stdio`] and [`http`]: which revision governs a message and whether it is allowed now; each a decision table.
//! - [`handshake`]: the server's side of the handshake up to 2025-11-25.
//! - [`probe`]: how a client finds out which era a server speaks.
//! - [`inbound`]: requests received that have no response yet.
//! - [`call_timer`]: the timeouts of one call.
//! - [`request_meta`]: the members of a request that are needed before its params are deserialized.
//! - [`header`]: values of `Mcp-*` headers, mirrored from the body.

pub mod call_timer;
pub mod handshake;
pub mod header;
pub mod http;
pub mod inbound;
pub mod probe;
pub mod request_meta;
pub mod stdio;

pub use handshake::{HandshakePhase, ServerHandshake};
pub use inbound::InboundRequests;
pub use request_meta::{ClientMetaPresence, RequestMeta};
