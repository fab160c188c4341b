//! Parts that the server, the client, the bridge and the transports all use. They import from none of them.
//!
//! - `outbound_queue`: messages waiting to be sent to one peer.
//! - `panic`: turns a panic of a future into an error.
//! - `validate`: checks JSON against a JSON Schema.
//! - `lock`: locks a mutex that a panic may have poisoned.

pub(crate) mod lock;
pub(crate) mod outbound_queue;
pub(crate) mod panic;
pub(crate) mod validate;
