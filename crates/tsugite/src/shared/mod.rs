//! Parts that the server, the client, the bridge and the transports all use. They import from none of them.
//!
//! - `boxed`: boxes a task, so that code which runs it is compiled once.
//! - `cancel_reason`: the reason that a peer gives for a cancellation.
//! - `failure_causes`: the causes of failed requests, for a client in the same process.
//! - `outbound_queue`: messages waiting to be sent to one peer.
//! - `panic`: turns a panic of a future into an error.
//! - `principal`: the authenticated caller.
//! - `seal`: seals state that clients carry or a store holds.
//! - `seal_keys`: reads seal keys from text.
//! - `settings_slot`: settings a server keeps for a transport.
//! - `upstream_failure`: the error with which a bridge says that the server behind it failed.
//! - `validate`: checks JSON against a JSON Schema.
//! - `in_process`: a server in the same process, as the client sees it.
//! - `ip_network`: networks of IP addresses.
//! - `json_digest`: a digest of a JSON text, however it is written.
//! - `list_kind`: tools, prompts and resources, and their names behind a prefix.
//! - `log`: warnings and errors, to the `tracing` subscriber or to stderr.
//! - `lock`: locks a mutex that a panic may have poisoned.
//! - `windows_names`: which names are those of files on Windows.

pub(crate) mod boxed;
pub(crate) mod cancel_reason;
pub(crate) mod failure_causes;
#[cfg(feature = "client")]
pub(crate) mod in_process;
#[cfg(feature = "http")]
pub(crate) mod ip_network;
pub(crate) mod json_digest;
pub(crate) mod list_kind;
pub(crate) mod lock;
pub(crate) mod log;
pub(crate) mod outbound_queue;
pub(crate) mod panic;
pub(crate) mod principal;
pub(crate) mod seal;
pub(crate) mod seal_keys;
pub(crate) mod settings_slot;
#[cfg(feature = "client")]
pub(crate) mod upstream_failure;
pub(crate) mod validate;
#[cfg(any(windows, test))]
pub(crate) mod windows_names;
