//! JSON-RPC 2.0 as MCP narrows it: what a message is before anyone asks what it means.
//!
//! [`parse`] reads one body or line in a single pass, borrows everything from it and keeps `params`, `result`
//! and `error.data` as raw text; what stands inside them is judged when they are read into their type.
//! [`write`](mod@write) puts a message straight into a buffer. [`LineReader`] cuts a byte stream into lines.

mod batch;
mod emit;
mod error;
mod id;
mod line;
mod message;
mod parse;
#[cfg_attr(not(feature = "carry"), allow(dead_code, reason = "most of it is there for `carry`"))]
pub(crate) mod parts;
mod plain;
mod raw;
mod scan;
pub mod write;

pub use batch::{Batch, BatchAnswers};
pub use error::{ErrorObject, Fault, Origin, Wrong, code};
pub use id::Id;
pub use line::{LineReader, LineTooLong, end_line};
pub use message::{Incoming, Message, Notification, Request, Response};
pub use parse::{Limits, parse};
pub(crate) use parse::{Watch, parse_watched};
pub(crate) use raw::present;
pub use raw::{BadShape, Raw, RawJson};
pub(crate) use scan::{NotJson, Scanner};
