//! What a Model Context Protocol message is, in every published revision, and what must happen next.

pub mod jsonrpc;
pub mod protocol;
pub mod revision;
pub mod uri_template;
