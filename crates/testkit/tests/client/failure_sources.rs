//! The source of a client's error: the error of the handler, if the server is in the same process.

use std::error::Error;
use std::io;

use serde_json::json;
use tsugite::client::{Client, ClientError};
use tsugite::prelude::*;
use tsugite::protocol::completion::Reference;
use tsugite::protocol::prompts::PromptArgument;
use tsugite::server::{CallParts, CompletionRequest, FromCall, InvocationError};

async fn fail() -> Result<String, HandlerError> {
    Err(io::Error::new(io::ErrorKind::StorageFull, "no disk").into())
}

async fn fail_late() -> Result<String, HandlerError> {
    tokio::task::yield_now().await;
    fail().await
}

/// Panics, in a way that the compiler does not see.
fn panic_with(text: &str) {
    assert!(text.is_empty(), "{text}");
}

/// A parameter that needs a state without declaring it, so that the server is served without the state.
struct Undeclared;

impl FromCall for Undeclared {
    fn from_call(call: &CallParts<'_>) -> Result<Self, InvocationError> {
        State::<u8>::from_call(call).map(|_| Undeclared)
    }
}

fn server() -> Server {
    let tool = |name: &str| Tool::new(name).description("Fails.");
    let complete = |_: CompletionRequest| async { Err::<Vec<String>, _>(io::Error::other("no words")) };
    Server::new("failing", "1.0.0")
        .tool(tool("fails").handler(fail))
        .tool(tool("fails_late").handler(fail_late))
        .tool(tool("says_why").handler(async || Err::<(), _>(HandlerError::new("closed on Sundays"))))
        .tool(tool("panics").handler(async || panic_with("out of paper")))
        .tool(tool("panics_before_its_future").handler(|| {
            panic_with("out of ink");
            async {}
        }))
        .tool(tool("lacks_state").handler(async |_: Undeclared| ()))
        .resource(Resource::new("note://1").handler(fail))
        .prompt(
            Prompt::new("plan")
                .argument(PromptArgument::new("title"))
                .handler(fail)
                .complete("title", complete),
        )
}

/// The messages of the sources of an error, outermost first.
fn sources<T>(result: Result<T, ClientError>) -> Vec<String> {
    let error = result.err().unwrap();
    let mut messages = Vec::new();
    let mut source = error.source();
    while let Some(error) = source {
        messages.push(error.to_string());
        source = error.source();
    }
    messages
}

async fn call(client: &Client, name: &str) -> Result<(), ClientError> {
    client.call::<()>(name, json!({})).await
}

async fn complete(client: &Client) -> Result<(), ClientError> {
    client.complete(Reference::prompt("plan"), "title", "x").await.map(drop)
}

#[tokio::test(flavor = "current_thread")]
async fn in_process_error_has_the_handler_error_as_its_source() {
    for revision in Revision::ALL {
        let client = Client::in_process(&server()).revision(revision).await.unwrap();
        assert_eq!(sources(call(&client, "fails").await), ["no disk"], "{revision}");
        assert_eq!(sources(call(&client, "fails_late").await), ["no disk"], "{revision}");
        assert_eq!(sources(client.read_resource("note://1").await), ["no disk"], "{revision}");
        assert_eq!(sources(client.get_prompt("plan", json!({})).await), ["no disk"], "{revision}");
        assert_eq!(sources(complete(&client).await), ["no words"], "{revision}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn source_in_process_keeps_its_type() {
    let client = Client::in_process(&server()).await.unwrap();
    let error = call(&client, "fails").await.unwrap_err();
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::StorageFull));
    // Also as the error that a test or a `main` returns.
    assert_eq!(tsugite::Error::from(error).source().unwrap().to_string(), "no disk");
}

#[tokio::test(flavor = "current_thread")]
async fn panics_and_missing_state_are_sources_in_process() {
    let client = Client::in_process(&server()).await.unwrap();
    assert_eq!(sources(call(&client, "panics").await), ["panicked: out of paper"]);
    assert_eq!(sources(call(&client, "panics_before_its_future").await), ["panicked: out of ink"]);
    let state = sources(call(&client, "lacks_state").await);
    assert_eq!(state, ["the server has no state of type `u8`; add it with `Server::state`"]);
}

#[tokio::test(flavor = "current_thread")]
async fn error_that_hides_nothing_has_no_source() {
    let client = Client::in_process(&server()).await.unwrap();
    assert_eq!(
        call(&client, "fails").await.unwrap_err().source().map(ToString::to_string).as_deref(),
        Some("no disk")
    );
    let error = call(&client, "says_why").await.unwrap_err();
    assert_eq!(error.to_string(), "the tool failed: closed on Sundays");
    assert!(error.source().is_none());
    assert!(call(&client, "unknown").await.unwrap_err().source().is_none());
}

#[tokio::test(flavor = "current_thread")]
async fn error_over_http_has_no_source() {
    let listener = server().bind_http("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr());
    let serving = tokio::spawn(listener.serve_until(std::future::pending()));
    for revision in Revision::ALL.into_iter().filter(|revision| *revision != Revision::V2024_11_05) {
        let client = Client::connect(&url).revision(revision).await.unwrap();
        for name in ["fails", "fails_late", "panics", "lacks_state"] {
            let error = call(&client, name).await.unwrap_err();
            assert!(error.source().is_none(), "{name} on {revision}");
            assert!(!format!("{error} {error:?}").contains("no disk"), "{error}");
        }
        assert_eq!(sources(client.read_resource("note://1").await), [""; 0], "{revision}");
        client.close().await;
    }
    serving.abort();
}
