//! The Model Context Protocol (MCP) in Rust: servers, clients and bridges. A handler is written once and serves every
//! published protocol version, 2024-11-05 to 2026-07-28, over stdio, HTTP and in memory.
//!
//! # A server
//!
//! ```no_run
//! use tsugite::prelude::*;
//!
//! /// Adds two numbers.
//! #[tool]
//! async fn add(a: i64, b: i64) -> i64 {
//!     a + b
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> tsugite::Result<()> {
//!     Server::new("calculator", "1.0.0").tool(add).serve_stdio().await
//! }
//! ```
//!
//! The doc comment is the description, the parameters are the input schema, and the return type is the output schema.
//! `serve_http("127.0.0.1:3000")` serves the same at `/mcp`. [`tool`], [`resource`], [`prompt`] and [`handlers`] turn
//! functions into items of a [`Server`], and [`server::Context`] is the call as a handler sees it. [`server::Tool`],
//! [`server::Resource`] and [`server::Prompt`] do the same without macros.
//!
//! # A client
//!
//! ```
//! use serde_json::json;
//! use tsugite::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tsugite::Result<()> {
//! # let server = Server::new("calculator", "1.0.0").tool(Tool::new("sum").handler(async || 3));
//! // Or Client::connect("https://example.com/mcp"), or Client::spawn(["command", "argument"]).
//! let client = Client::in_process(&server).await?;
//! let sum: i64 = client.call("sum", json!({})).await?;
//! # assert_eq!(sum, 3);
//! # Ok(()) }
//! ```
//!
//! [`client::Host`] holds many clients, and a [`bridge`](mod@bridge) serves what it gets from other servers.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `client` | yes | [`Client`], [`client::Host`], [`bridge`](mod@bridge) |
//! | `http` | yes | Streamable HTTP for servers and clients: [`transport::http`] |
//! | `macros` | yes | [`tool`], [`resource`], [`prompt`], [`handlers`], [`derive(Form)`](macro@Form) |
//! | `validate` | yes | validates JSON Schema rules that a Rust type cannot express, such as `pattern` |
//! | `tls` | no | `https` for clients, [`Http::tls`](transport::http::Http::tls) for servers |
//! | `http2` | no | HTTP/2 for servers |
//!
//! The crate needs tokio. It runs on Linux; Windows was tested under wine only, and macOS was only type-checked.
//!
//! # Guides
//!
//! - Write a server: [tools], [resources], [prompts and completion], [errors], [elicitation, sampling and roots], [tasks]
//! - Serve it: [stdio], [HTTP], [hosts such as Claude, Cursor and VS Code], [logging], [settings]
//! - Change and combine: [live changes], [composing and layers], [security]
//! - [Test it][testing]
//! - Use servers: [client], [authorization], [many servers], [bridge], [the binary]
//! - Come from another library: [rmcp], [FastMCP]
//! - [Known limits][rough edges]
//!
//! [tools]: guide::tools
//! [resources]: guide::resources
//! [prompts and completion]: guide::prompts_and_completion
//! [errors]: guide::errors
//! [elicitation, sampling and roots]: guide::asking
//! [tasks]: guide::tasks
//! [stdio]: guide::stdio
//! [HTTP]: guide::http
//! [hosts such as Claude, Cursor and VS Code]: guide::hosts
//! [logging]: guide::logging
//! [settings]: guide::settings
//! [live changes]: guide::changing
//! [composing and layers]: guide::composing
//! [security]: guide::security
//! [testing]: guide::testing
//! [client]: guide::client
//! [authorization]: guide::authorization
//! [many servers]: guide::host
//! [bridge]: guide::bridge
//! [the binary]: guide::cli
//! [rmcp]: guide::from_rmcp
//! [FastMCP]: guide::from_fastmcp
//! [rough edges]: guide::rough_edges

#[cfg(feature = "client")]
pub mod bridge;
#[cfg(feature = "client")]
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "partly used only by HTTP"))]
pub mod client;
mod era;
pub mod error;
pub mod file_uri;
#[cfg(all(doc, not(doctest), feature = "macros"))]
pub mod guide;
#[cfg(feature = "client")]
mod in_process;
#[cfg(feature = "macros")]
mod macros;
#[cfg_attr(not(feature = "http"), allow(dead_code, unused_imports, reason = "partly used only by HTTP"))]
mod replica;
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
pub mod transport;

pub use schemars;
pub use tsugite_core::{base64, jsonrpc, protocol, revision};
pub use tsugite_store as store;

#[cfg(feature = "client")]
pub use client::Client;
pub use error::{Error, Result};
#[cfg(feature = "macros")]
pub use macros::{Form, handlers, prompt, resource, tool};
pub use server::Server;
use shared::lock;

/// The items that most servers and clients use: `use tsugite::prelude::*;`.
///
/// # Beside axum and anyhow
///
/// `State`, `Json`, `Form` and `Context` are names of other libraries, too. An explicit import takes precedence over a
/// glob, so `use axum::extract::State;` beside `use tsugite::prelude::*;` means axum's `State` and no error. Where a
/// module needs both, name ours by a path:
///
/// ```
/// use axum::extract::State;
/// use tsugite::prelude as mcp;
/// use tsugite::prelude::*;
///
/// #[derive(Clone)]
/// struct Shop {
///     name: &'static str,
/// }
///
/// /// Returns the name of the shop.
/// #[tool]
/// async fn name(mcp::State(shop): mcp::State<Shop>) -> &'static str {
///     shop.name
/// }
///
/// /// The page of the shop.
/// async fn page(State(shop): State<Shop>) -> &'static str {
///     shop.name
/// }
///
/// # fn main() -> tsugite::Result<()> {
/// let shop = Shop { name: "planks" };
/// let server = Server::new("shop", "1.0.0").state(shop.clone()).tool(name);
/// let pages = axum::Router::new().route("/", axum::routing::get(page)).with_state(shop);
/// let app: axum::Router = pages.route_service("/mcp", server.http_service()?);
/// # let _ = app;
/// # Ok(()) }
/// ```
///
/// anyhow's `Context` is a trait, of which only the method is needed: `use anyhow::Context as _;`.
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
