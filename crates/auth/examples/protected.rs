//! A server that only clients with a token of an issuer can use.
//!
//! `cargo run -p tsugite-auth --example protected -- https://idp.example`

use tsugite::Server;
use tsugite::server::{Principal, Tool};
use tsugite_auth::resource::Jwt;

/// A server with one tool, which names its caller.
pub fn server(issuer: &str) -> Server {
    let whoami = Tool::new("whoami").handler(|caller: Principal| async move { caller.subject().to_owned() });
    Server::new("protected", "1.0.0").tool(whoami).authorize(Jwt::issuer(issuer))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    match std::env::args().nth(1) {
        Some(issuer) => server(&issuer).serve_http("127.0.0.1:3000").await,
        None => {
            eprintln!("usage: protected ISSUER");
            Ok(())
        }
    }
}
