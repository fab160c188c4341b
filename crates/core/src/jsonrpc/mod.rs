//! JSON-RPC 2.0 as MCP restricts it.
//!
//! [`parse`] parses one body or line in a single pass, borrows everything from it and keeps `params`, `result` and
//! `error.data` as raw text, whose contents are checked when they are deserialized. [`write`](mod@write) writes
//! messages straight into a buffer. [`LineReader`] splits a byte stream into lines.

mod batch;
mod error;
mod escape_scan;
mod id;
pub mod json_path;
mod json_serializer;
mod line;
mod message;
mod parse;
mod raw;
#[cfg_attr(
    not(feature = "translate-raw"),
    allow(dead_code, reason = "most of it is there for `translate_raw`")
)]
pub(crate) mod raw_members;
mod scan;
pub mod write;

pub use batch::{Batch, BatchResponse};
pub use error::{ErrorObject, InvalidMessage, ParseError, ParseErrorDetail, ParseErrorKind, code};
pub use id::Id;
pub use line::{LineReader, LineTooLongError, end_line};
pub use message::{Incoming, Message, Notification, Request, Response};
pub use parse::{MessageLimits, parse};
pub(crate) use parse::{ParamsVisitor, parse_with_visitor};
pub(crate) use raw::deserialize_present;
pub use raw::{JsonError, Raw, RawJson};
pub(crate) use scan::{JsonSyntaxError, Scanner};
