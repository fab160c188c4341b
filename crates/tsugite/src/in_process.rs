//! A client connected to a server in the same process. It stands here because the client does not import the server.

use std::sync::Arc;

use crate::Server;
use crate::client::{Client, ClientBuilder};

impl Client {
    /// Connects to a server in this process: for tests, on any revision, without a port.
    pub fn in_process(server: &Server) -> ClientBuilder {
        ClientBuilder::to_in_process_server(Arc::new(server.clone()))
    }
}
