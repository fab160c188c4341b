//! [`Client::in_process`], which is outside the client module because the client must not import the server.

use std::sync::Arc;

use crate::Server;
use crate::client::{Client, ClientBuilder};

impl Client {
    /// Connects to a server in this process, on any revision and without a port. Meant for tests.
    ///
    /// The error of a call has the error of the handler as its [source](std::error::Error::source), also where a peer
    /// hears only "tool failed" or "Internal error".
    ///
    /// ```
    /// use std::error::Error;
    /// use tsugite::client::Client;
    /// use tsugite::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::Result<()> {
    /// /// Parses a number.
    /// #[tool]
    /// async fn parse(text: String) -> Result<i64, HandlerError> {
    ///     Ok(text.parse()?)
    /// }
    ///
    /// let client = Client::in_process(&Server::new("parser", "1.0.0").tool(parse)).await?;
    /// let error = client.call::<i64>("parse", serde_json::json!({"text": "one"})).await.unwrap_err();
    /// assert_eq!(error.source().unwrap().to_string(), "invalid digit found in string");
    /// # Ok(()) }
    /// ```
    #[doc(alias("in_memory", "InMemoryTransport", "FastMCPTransport"))]
    pub fn in_process(server: &Server) -> ClientBuilder {
        ClientBuilder::to_in_process_server(Arc::new(server.clone()))
    }
}
