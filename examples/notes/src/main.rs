//! `notes stdio [FILE]` and `notes http ADDRESS [FILE]`.

mod stop_signal;

use anyhow::{Context, bail};
use notes::db::Db;
use notes::http::{Tokens, serve};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match *args.iter().map(String::as_str).collect::<Vec<_>>() {
        ["stdio"] => stdio("notes.db").await,
        ["stdio", file] => stdio(file).await,
        ["http", address] => http(address, "notes.db").await,
        ["http", address, file] => http(address, file).await,
        _ => bail!("usage: notes stdio [FILE]\n       notes http ADDRESS [FILE]"),
    }
}

async fn stdio(file: &str) -> anyhow::Result<()> {
    Ok(notes::server(open(file)?).serve_stdio().await?)
}

async fn http(address: &str, file: &str) -> anyhow::Result<()> {
    let tokens = std::env::var("NOTES_TOKENS").context("NOTES_TOKENS is not set; write name=token")?;
    let server = notes::server(open(file)?);
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let stop = stop_signal::stop_signal()?;
    println!("http://{}/mcp", listener.local_addr()?);
    serve(&server, Tokens::parse(&tokens)?, listener, stop).await
}

fn open(file: &str) -> anyhow::Result<Db> {
    Db::open(file).with_context(|| format!("cannot open {file}"))
}
