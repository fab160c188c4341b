//! The server over HTTP with and without a token, and the two programs.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use notes::db::{Db, Note};
use notes::http::{Tokens, serve};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tsugite::client::{ChangeFilter, ErrorKind};
use tsugite::prelude::{Client, Revision};

type Result<T = ()> = anyhow::Result<T>;

const NOTES: &str = env!("CARGO_BIN_EXE_notes");
const TOKENS: &str = "ann=token-of-ann-0001 ben=token-of-ben-0002";

/// The application on a port of its own.
struct App {
    address: String,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result>,
}

impl App {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = notes::server(Db::open(":memory:")?);
        let served = tokio::spawn(async move {
            serve(&server, Tokens::parse(TOKENS)?, listener, async { drop(stopped.await) }).await
        });
        Ok(Self { address, stop, served })
    }

    fn client(&self, token: &str) -> tsugite::client::ClientBuilder {
        Client::connect(format!("http://{}/mcp", self.address)).bearer(token)
    }

    async fn stop(self) -> Result {
        drop(self.stop);
        // Not a measurement: without the limit, an application that does not stop would hang the tests.
        timeout(Duration::from_secs(30), self.served).await??
    }
}

#[tokio::test]
async fn token_names_the_author() -> Result {
    let app = App::start().await?;
    for revision in Revision::ALL {
        for (name, token) in [("ann", "token-of-ann-0001"), ("ben", "token-of-ben-0002")] {
            let client = app.client(token).revision(revision).await?;
            let note: Note = client.call("add_note", json!({"title": "Shed", "text": ""})).await?;
            assert_eq!(note.author.as_deref(), Some(name), "{revision}");
            client.close().await;
        }
    }
    app.stop().await
}

#[tokio::test]
async fn wrong_token_is_refused() -> Result {
    let app = App::start().await?;
    for token in ["token-of-ann-0002", "token-of-ann-000", "token-of-ann-00011", ""] {
        let error = app.client(token).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unauthorized(_)), "{token}: {error}");
    }
    let error = Client::connect(format!("http://{}/mcp", app.address)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unauthorized(_)), "{error}");
    app.stop().await
}

#[tokio::test]
async fn health_needs_no_token() -> Result {
    let app = App::start().await?;
    let mut socket = TcpStream::connect(&app.address).await?;
    socket.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut status = String::new();
    BufReader::new(socket).read_line(&mut status).await?;
    assert_eq!(status, "HTTP/1.1 200 OK\r\n");
    app.stop().await
}

#[tokio::test]
async fn application_stops_while_clients_listen() -> Result {
    let app = App::start().await?;
    let mut subscriptions = Vec::new();
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = app.client("token-of-ann-0001").revision(revision).await?;
        subscriptions.push(client.listen(ChangeFilter::new().resource("notes://list")).await?);
    }
    app.stop().await
}

#[tokio::test]
async fn agent_starts_the_server() -> Result {
    let text = run_agent(&[NOTES, "stdio", ":memory:"], "y\n").await?;
    assert!(text.contains("added note 1 by no caller"), "{text}");
    assert!(text.contains("changed: notes://list"), "{text}");
    assert!(text.contains("  2 of 2\n  log: \"imported 2 notes\""), "{text}");
    assert!(text.contains("titles with s: Sand, Saw, Shed"), "{text}");
    assert!(text.contains("summary: 2 lines about notes"), "{text}");
    assert!(text.contains("note 1: deleted"), "{text}");
    Ok(())
}

#[tokio::test]
async fn agent_connects_over_http() -> Result {
    let (_server, url) = start_over_http().await?;
    let text = run_agent(&[url.trim()], "n\n").await?;
    assert!(text.contains("added note 1 by ann"), "{text}");
    assert!(text.contains("note 1: kept"), "{text}");
    Ok(())
}

#[cfg(unix)]
#[tokio::test]
async fn sigterm_stops_the_server() -> Result {
    use rustix::process::{Pid, Signal, kill_process};
    let (mut server, _) = start_over_http().await?;
    let id = i32::try_from(server.id().unwrap())?;
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM)?;
    assert!(server.wait().await?.success());
    Ok(())
}

#[tokio::test]
async fn server_without_tokens_does_not_start() -> Result {
    for tokens in ["", "ann", "ann=short"] {
        let mut command = Command::new(NOTES);
        command.args(["http", "127.0.0.1:0", ":memory:"]).env("NOTES_TOKENS", tokens);
        let output = command.kill_on_drop(true).output().await?;
        assert!(!output.status.success(), "{tokens}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("token"), "{tokens}");
    }
    Ok(())
}

/// Starts the server over HTTP, and returns its URL once it listens.
async fn start_over_http() -> Result<(Child, String)> {
    let mut command = Command::new(NOTES);
    command.args(["http", "127.0.0.1:0", ":memory:"]).env("NOTES_TOKENS", TOKENS);
    let mut server = command.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut url = String::new();
    BufReader::new(server.stdout.take().context("no stdout")?).read_line(&mut url).await?;
    Ok((server, url))
}

/// Runs the agent with `answer` on its input, and returns its output.
async fn run_agent(args: &[&str], answer: &str) -> Result<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
    command.args(args).env("NOTES_TOKEN", "token-of-ann-0001").kill_on_drop(true);
    let mut agent = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    agent.stdin.take().context("no stdin")?.write_all(answer.as_bytes()).await?;
    let output = agent.wait_with_output().await?;
    assert!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}
