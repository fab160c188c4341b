//! Logs a command-line client in to a protected server, and lists its tools.
//!
//! `cargo run -p tsugite-auth --example login -- https://example.com/mcp`, or with `--no-browser` on a machine without one.
//! The next run needs no login: the token is in a file that only its owner can read.

use tsugite::client::{Client, ClientError};
use tsugite_auth::{FileStore, Login, Prompt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), ClientError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(url) = args.iter().find(|arg| !arg.starts_with("--")) else {
        eprintln!("usage: login [--no-browser] URL");
        return Ok(());
    };
    let name = "tsugite example";
    let login = match args.iter().any(|arg| arg == "--no-browser") {
        true => Login::with_agent(name, Prompt::terminal()),
        false => Login::browser(name),
    };
    let login = login.store(FileStore::in_home()?);
    let client = Client::builder(url).login(login).connect().await?;
    for tool in client.list_tools().await? {
        println!("{}", tool.display_name());
    }
    client.close().await;
    Ok(())
}
