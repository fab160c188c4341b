//! [`Client::in_process`], which is outside the client module because the client must not import the server.

use std::sync::Arc;

use crate::Server;
use crate::client::{Client, ClientBuilder};

impl Client {
    /// Connects to a server in this process, on any revision and without a port. Meant for tests.
    pub fn in_process(server: &Server) -> ClientBuilder {
        ClientBuilder::to_in_process_server(Arc::new(server.clone()))
    }
}
