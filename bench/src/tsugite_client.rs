//! Our client, used as its documentation shows.

use serde_json::json;
use tsugite::client::{Client, ClientBuilder, Command};
use tsugite::revision::Revision;

use crate::worker::EchoClient;
use crate::{BoxError, Era};

pub(crate) async fn over_http(url: &str, era: Era) -> Result<Client, BoxError> {
    connect(Client::connect(url), era).await
}

pub(crate) async fn over_stdio(delay: &str, era: Era) -> Result<Client, BoxError> {
    let server = Command::new(std::env::current_exe()?).args(["serve", "stdio", delay]);
    connect(Client::spawn(server), era).await
}

async fn connect(connecting: ClientBuilder, era: Era) -> Result<Client, BoxError> {
    let revision = match era {
        Era::Handshake => Revision::V2025_11_25,
        Era::Stateless => Revision::V2026_07_28,
    };
    Ok(connecting.revision(revision).await?)
}

impl EchoClient for Client {
    async fn echo(&mut self, text: String) -> Result<String, BoxError> {
        Ok(self.call("echo", json!({"text": text})).await?)
    }
}
