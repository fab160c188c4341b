//! The rules of an exchange as pure state: feed it messages and instants, it says what to do.
//!
//! - [`stdio`] and [`http`]: which revision a message speaks and whether it may come now; each a table as a function.
//! - [`handshake`]: how a connection opens up to 2025-11-25, as the server sees it.
//! - [`probe`]: how a client finds out which era a server speaks.
//! - [`inbound`]: requests the peer sent and we have not answered yet.
//! - [`outbound`]: calls we made and have no answer to yet.
//! - [`pace`]: how long one call is waited for.
//! - [`peek`]: what of a request must be known before it is read.
//! - [`header`]: values of `Mcp-*` headers, mirrored from the body.

pub mod call_timer;
pub mod handshake;
pub mod header;
pub mod http;
pub mod inbound;
pub mod outbound;
pub mod probe;
pub mod request_meta;
pub mod stdio;

pub use handshake::{HandshakePhase, ServerHandshake};
pub use inbound::InboundRequests;
pub use outbound::OutboundRequests;
pub use request_meta::{ClientMetaPresence, RequestMeta};
