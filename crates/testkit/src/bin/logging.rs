//! Serves one call of a tool that fails, in the way that the argument names, and prints the client's error.
//!
//! A test reads from stderr what the library logs where there is no subscriber. A subscriber of this program prints to
//! stdout.

#![allow(clippy::panic, reason = "a handler panics on purpose")]

use std::future::{Future, pending};

use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tsugite::client::{Client, ClientError};
use tsugite::prelude::*;
use tsugite::protocol::{PromptArgument, Reference};
use tsugite::server::CompletionRequest;
use tsugite::transport::memory;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).unwrap_or_default().as_str() {
        "in-process" => call(Client::in_process(&server()).await?).await,
        "memory" => {
            let mut connection = memory::connect(&server())?;
            connection.send(CALL);
            println!("{}", connection.next().await);
        }
        "axum" => {
            let service = server().http_service()?;
            let app = axum::Router::new().route_service("/mcp", service.clone());
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            let task = spawn(async move { axum::serve(listener, app).await.map_err(Into::into) });
            call(Client::connect(format!("http://{address}/mcp")).await?).await;
            task.abort();
        }
        case @ ("http" | "http-subscriber") => {
            if case == "http-subscriber" {
                tracing::subscriber::set_global_default(PrintLevel)?;
            }
            let listener = server().bind_http("127.0.0.1:0").await?;
            let url = format!("http://{}/mcp", listener.local_addr());
            let task = spawn(listener.serve_until(pending()));
            call(Client::connect(url).await?).await;
            task.abort();
        }
        "subscriber-before" => {
            tracing::subscriber::set_global_default(PrintLevel)?;
            call(Client::in_process(&server()).await?).await;
        }
        "subscriber-of-the-thread" => {
            let _guard = tracing::subscriber::set_default(PrintLevel);
            call(Client::in_process(&server()).await?).await;
        }
        "subscriber-after" => {
            let client = Client::in_process(&server()).await?;
            call(client.clone()).await;
            tracing::subscriber::set_global_default(PrintLevel)?;
            call(client).await;
        }
        "kinds" => call_each_kind(&Client::in_process(&kinds()).await?).await,
        "registration" => drop(Server::new("s", "1").tool(
            Tool::new("two words").description("Has a name that clients reject.").handler(async || "done"),
        )),
        "no-description" => {
            let server = Server::new("s", "1").tool(Tool::new("nameless").handler(async || "done"));
            let blank = Tool::new("blank").description(" ").handler(async || "done");
            server.add(blank)?;
            // Registered again in another server, and offered by a server that mounts it.
            let again = Server::new("s", "1").tool(Tool::new("nameless").handler(async || "done"));
            drop(Server::new("outer", "1").mount("inner", server).mount("again", again));
        }
        other => return Err(format!("there is no way of serving named {other:?}").into()),
    }
    Ok(())
}

fn server() -> Server {
    let withdraw = Tool::new("withdraw").description("Takes money from an account.");
    Server::new("bank", "1.0.0").tool(withdraw.handler(async || -> Result<String, HandlerError> {
        Err(std::io::Error::other("the vault is on fire").into())
    }))
}

/// A server with an item for each kind of failure.
fn kinds() -> Server {
    async fn fail() -> Result<String, HandlerError> {
        Err(std::io::Error::other("no disk").into())
    }
    let panics = || async {
        if true {
            panic!("out of\npaper")
        }
    };
    let complete = |_: CompletionRequest| async { Err::<Vec<String>, _>(std::io::Error::other("no words")) };
    let describe = |name: &str| Tool::new(name).description("Fails.");
    Server::new("kinds", "1.0.0")
        .tool(describe("fails").handler(fail))
        .tool(describe("panics").handler(panics))
        .tool(describe("panics_later").handler(async || {
            tokio::task::yield_now().await;
            if true {
                panic!("later")
            }
        }))
        .tool(describe("lacks_state").handler(async |cx: Context| cx.state::<u8>().map(drop)))
        .resource(Resource::template("note://{id}").handler(fail))
        .prompt(
            Prompt::new("plan")
                .argument(PromptArgument::new("title"))
                .handler(fail)
                .complete("title", complete),
        )
}

async fn call_each_kind(client: &Client) {
    for name in ["fails", "panics", "panics_later", "lacks_state"] {
        print_error(client.call::<()>(name, json!({})).await);
    }
    print_error(client.read_resource("note://7").await);
    print_error(client.get_prompt("plan", json!({"title": "x"})).await);
    print_error(client.complete(Reference::prompt("plan"), "title", "x").await);
}

fn print_error<T>(result: Result<T, ClientError>) {
    if let Err(error) = result {
        println!("error: {error}");
    }
}

async fn call(client: Client) {
    match client.call::<String>("withdraw", json!({})).await {
        Ok(text) => println!("result: {text}"),
        Err(error) => println!("error: {error}"),
    }
}

fn spawn(serve: impl Future<Output = tsugite::Result<()>> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Err(error) = serve.await {
            println!("{error}");
        }
    })
}

/// Prints the level of each event.
struct PrintLevel;

impl Subscriber for PrintLevel {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }

    fn event(&self, event: &Event<'_>) {
        println!("subscriber: {}", event.metadata().level());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"withdraw","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
