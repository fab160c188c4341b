//! The handshake that opens a connection up to 2025-11-25.

use super::result::complete;
use super::wire::{has_meta, method, notification, wire};
use super::{ClientCapabilities, EmptyParams, Implementation, Meta, ServerCapabilities};

method! {
    /// Opens a connection.
    Initialize = "initialize", InitializeParams => InitializeResult
}

notification! {
    /// Confirms the handshake.
    Initialized = "notifications/initialized", EmptyParams
}

wire! {
    /// The client's description of itself.
    pub struct InitializeParams {
        /// The offered version.
        protocol_version: String,
        /// The capabilities.
        capabilities: ClientCapabilities,
        /// The client's name and version.
        client_info: Implementation,
    }
    optional {
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// The server's description of itself.
    pub struct InitializeResult {
        /// The negotiated version.
        protocol_version: String,
        /// The capabilities.
        capabilities: ServerCapabilities,
        /// The server's name and version.
        server_info: Implementation,
    }
    optional {
        /// Instructions for the model.
        instructions: String,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

complete!(InitializeResult);
has_meta!(InitializeParams, InitializeResult);
