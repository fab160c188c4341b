//! Parts that the server, the client, the bridge and the transports all use. They import from none of them.
//!
//! - `outbound_queue`: messages waiting to be sent to one peer.
//! - `panic`: turns a panic of a future into an error.
//! - `principal`: the authenticated caller.
//! - `validate`: checks JSON against a JSON Schema.
//! - `list_kind`: tools, prompts and resources, and their names behind a prefix.
//! - `lock`: locks a mutex that a panic may have poisoned.

pub(crate) mod list_kind;
pub(crate) mod lock;
pub(crate) mod outbound_queue;
pub(crate) mod panic;
pub(crate) mod principal;
pub(crate) mod validate;
