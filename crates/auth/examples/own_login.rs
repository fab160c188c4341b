//! A protected server with an authorization server of its own, at one address.
//!
//! `cargo run -p tsugite-auth --features authorization-server --example own_login`, after
//! `tsugite users add auth.json ann`. Then `tsugite call http://127.0.0.1:8080/mcp whoami` opens a browser to log in.

use tsugite::Server;
use tsugite::server::{Principal, Tool};
use tsugite::transport::http::Http;
use tsugite_auth::AuthError;
use tsugite_auth::authorization_server::{AuthorizationServer, UserFile, Users};

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    let server =
        server("http://127.0.0.1:8080", UserFile::new("auth.json")).map_err(std::io::Error::other)?;
    server.serve_http("127.0.0.1:8080").await
}

/// The server at an address, for these users.
pub fn server(address: &str, users: impl Users) -> Result<Server, AuthError> {
    let auth = AuthorizationServer::builder(address)
        .resource(format!("{address}/mcp"))
        .scope("profile", "See your name")
        .users(users)
        .build()?;
    let whoami = Tool::new("whoami")
        .description("Names the user who is logged in")
        .handler(|user: Principal| async move { format!("you are {}", user.subject()) });
    Ok(Server::new("own-login", "1.0.0")
        .tool(whoami)
        .authorize(auth.verifier())
        .http(auth.beside(Http::new())))
}
