//! The Model Context Protocol in Rust: a handler is written once and serves every published revision.
//!
//! ```
//! use serde::Deserialize;
//! use tsugite::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     /// The first number.
//!     a: i64,
//!     /// The second number.
//!     b: i64,
//! }
//!
//! let add = Tool::new("add").description("Add two numbers.").handler(|Args(add): Args<Add>| async move { add.a + add.b });
//! let server = Server::new("calculator", "1.0.0").tool(add);
//! # let _ = server; // .serve_stdio().await
//! ```
//!
//! [`Server`] holds what is offered, [`server::Context`] is what a handler may do meanwhile. [`Client`]
//! talks to servers, wherever they are. [`transport`] carries the messages. [`protocol`] has the types of the messages.

#[cfg(feature = "client")]
pub mod bridge;
#[cfg_attr(not(feature = "http"), allow(dead_code, unused_imports, reason = "some of it is there for HTTP"))]
pub mod bus;
#[cfg(feature = "client")]
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "some of it is there for HTTP"))]
pub mod client;
mod era;
pub mod error;
#[cfg(feature = "client")]
mod in_process;
#[cfg(feature = "macros")]
mod macros;
#[cfg_attr(
    not(all(feature = "http", feature = "client")),
    allow(dead_code, unused_imports, reason = "some of it is there for HTTP, and for bridges")
)]
pub mod server;
#[cfg_attr(
    not(all(feature = "http", feature = "client")),
    allow(dead_code, reason = "some of it is there for HTTP, and for bridges")
)]
mod shared;
#[cfg(feature = "http")]
pub mod store;
pub mod transport;

pub use schemars;
pub use tsugite_core::{base64, jsonrpc, protocol, revision};

#[cfg(feature = "client")]
pub use client::Client;
pub use error::{Error, Result};
#[cfg(feature = "macros")]
pub use macros::{Form, handlers, prompt, resource, tool};
pub use server::Server;
use shared::lock;

/// What a server or a client needs, in one line.
pub mod prelude {
    pub use schemars::JsonSchema;

    #[cfg(feature = "client")]
    pub use crate::Client;
    pub use crate::Server;
    #[cfg(feature = "macros")]
    pub use crate::macros::{Form, handlers, prompt, resource, tool};
    pub use crate::protocol::ContentBlock;
    pub use crate::protocol::logging::Level;
    pub use crate::protocol::tools::CallResult;
    pub use crate::revision::{Revision, Revisions};
    pub use crate::server::{
        Args, AskError, Context, Form, HandlerError, Headers, Json, Principal, Prompt, Resource, State, Tool,
    };
}
