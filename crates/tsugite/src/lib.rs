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
//! [`Server`] holds tools, resources and prompts; [`server::Context`] gives a handler access to its call. [`Client`] connects
//! to servers. [`transport`] has stdio, HTTP and in-memory connections, and [`protocol`] the types of the messages.

#[cfg(feature = "client")]
pub mod bridge;
#[cfg_attr(not(feature = "http"), allow(dead_code, unused_imports, reason = "partly used only by HTTP"))]
pub mod bus;
#[cfg(feature = "client")]
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "partly used only by HTTP"))]
pub mod client;
mod era;
pub mod error;
#[cfg(feature = "client")]
mod in_process;
#[cfg(feature = "macros")]
mod macros;
#[cfg_attr(
    not(all(feature = "http", feature = "client")),
    allow(dead_code, unused_imports, reason = "partly used only by HTTP and bridges")
)]
pub mod server;
#[cfg_attr(
    not(all(feature = "http", feature = "client")),
    allow(dead_code, reason = "partly used only by HTTP and bridges")
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

/// The items that most servers and clients use.
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
