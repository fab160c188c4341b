//! Lifecycle: the handshake that opens a connection up to 2025-11-25.

use super::result::complete;
use super::wire::{has_meta, method, notification, wire};
use super::{ClientCapabilities, EmptyParams, Implementation, Meta, ServerCapabilities};

method! {
    /// Opens a connection.
    Initialize = "initialize", InitializeParams => InitializeResult
}

notification! {
    /// The client is ready.
    Initialized = "notifications/initialized", EmptyParams
}

wire! {
    /// Who the client is and what it can do.
    pub struct InitializeParams {
        /// The version it would like to speak.
        protocol_version: String,
        /// What it can do.
        capabilities: ClientCapabilities,
        /// Who it is.
        client_info: Implementation,
    }
    optional {
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// Who the server is and what it can do.
    pub struct InitializeResult {
        /// The version both will speak.
        protocol_version: String,
        /// What it can do.
        capabilities: ServerCapabilities,
        /// Who it is.
        server_info: Implementation,
    }
    optional {
        /// How to use it, for the model.
        instructions: String,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

complete!(InitializeResult);
has_meta!(InitializeParams, InitializeResult);
