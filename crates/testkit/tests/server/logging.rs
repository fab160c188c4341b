//! The log of the library: on stderr where there is no subscriber, whatever serves; otherwise at the subscriber alone.
//!
//! stderr belongs to the whole process, so each case is a process of its own.

use std::io;
use std::pin::Pin;
use std::process::Command;
use std::task::Poll;

use serde_json::json;
use tower_layer::layer_fn;
use tower_service::Service;
use tsugite::prelude::*;
use tsugite::server::layer::{LayerRequest, LayerResponse, Next};
use tsugite_testkit::log::Warnings;
use tsugite_testkit::raw_client::RawClient;

/// Runs the program `logging` and returns the lines of its stdout and its stderr.
fn run(case: &str) -> (Vec<String>, Vec<String>) {
    let output = Command::new(env!("CARGO_BIN_EXE_logging")).arg(case).output().unwrap();
    let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(output.status.success(), "{case}: {output:?}");
    (lines(&output.stdout), lines(&output.stderr))
}

const HIDDEN: &str = "error: the tool failed: tool failed (number 1 in the server's log)";
const LOGGED: &str = "ERROR: tool failed kind=\"tool\" name=\"withdraw\" number=1 error=the vault is on fire";

#[test]
fn failures_without_a_subscriber_are_on_stderr() {
    assert_eq!(run("in-process"), (vec![HIDDEN.to_owned()], vec![LOGGED.to_owned()]));
    assert_eq!(run("axum"), (vec![HIDDEN.to_owned()], vec![LOGGED.to_owned()]));
    let (stdout, stderr) = run("http");
    assert_eq!((stdout, &stderr[1..]), (vec![HIDDEN.to_owned()], &[LOGGED.to_owned()][..]));
    let (stdout, stderr) = run("memory");
    assert!(stdout[0].contains("number 1 in the server's log"), "{stdout:?}");
    assert_eq!(stderr, [LOGGED]);
}

#[test]
fn log_names_the_item_that_failed() {
    let (stdout, stderr) = run("kinds");
    let expected = [
        "error: the tool failed: tool failed (number 1 in the server's log)",
        "error: Internal error (-32603)",
        "error: Internal error (-32603)",
        "error: the tool failed: tool failed (number 2 in the server's log)",
        "error: resource failed (number 3 in the server's log) (-32603)",
        "error: prompt failed (number 4 in the server's log) (-32603)",
        "error: completion failed (number 5 in the server's log) (-32603)",
    ];
    assert_eq!(stdout, expected);
    // The panic hook writes to stderr, too.
    let logged: Vec<_> = stderr.into_iter().filter(|line| line.starts_with("ERROR: ")).collect();
    let expected = [
        "ERROR: tool failed kind=\"tool\" name=\"fails\" number=1 error=no disk",
        "ERROR: tool panicked kind=\"tool\" name=\"panics\" id=3 error=out of\\npaper",
        "ERROR: tool panicked kind=\"tool\" name=\"panics_later\" id=4 error=later",
        "ERROR: tool failed kind=\"tool\" name=\"lacks_state\" number=2 \
         error=the server has no state of type `u8`; add it with `Server::state`",
        "ERROR: resource failed kind=\"resource\" name=\"note://7\" number=3 error=no disk",
        "ERROR: prompt failed kind=\"prompt\" name=\"plan\" number=4 error=no disk",
        "ERROR: completion of the argument \"title\" failed kind=\"completion\" name=\"plan\" number=5 error=no words",
    ];
    assert_eq!(logged, expected);
}

#[test]
fn subscriber_receives_failures_instead_of_stderr() {
    for case in ["subscriber-before", "subscriber-of-the-thread"] {
        let (stdout, stderr) = run(case);
        assert_eq!(stdout, ["subscriber: ERROR", HIDDEN], "{case}");
        assert_eq!(stderr, [""; 0], "{case}");
    }
}

#[test]
fn subscriber_may_be_set_after_a_failure_was_logged() {
    let (stdout, stderr) = run("subscriber-after");
    assert_eq!(stdout, [HIDDEN, "subscriber: ERROR", &HIDDEN.replace('1', "2")]);
    assert_eq!(stderr, [LOGGED]);
}

#[test]
fn warnings_of_a_registration_are_on_stderr() {
    // TOOL-042, TOOL-043
    let (stdout, stderr) = run("registration");
    assert_eq!(stdout, [""; 0]);
    assert_eq!(
        stderr,
        ["WARN: many clients reject the tool name \"two words\"; use letters, digits, `_`, `-` and `.`"]
    );
}

#[test]
fn tool_without_a_description_is_warned_about_once() {
    let (_, stderr) = run("no-description");
    let expected = ["nameless", "blank"].map(|name| {
        format!(
            "WARN: the tool {name:?} has no description, by which models choose tools; write a doc comment or use \
             `Tool::description`"
        )
    });
    assert_eq!(stderr, expected);
}

#[test]
fn address_of_a_listener_is_logged() {
    let (stdout, stderr) = run("http");
    let port = stderr[0]
        .strip_prefix("INFO: listening on http://127.0.0.1:")
        .and_then(|rest| rest.strip_suffix("/mcp"));
    assert!(port.is_some_and(|port| port.parse::<u16>().is_ok()), "{stderr:?}");
    assert_eq!(stdout, [HIDDEN]);
    let (stdout, stderr) = run("http-subscriber");
    assert_eq!(stdout, ["subscriber: INFO", "subscriber: ERROR", HIDDEN]);
    assert_eq!(stderr, [""; 0]);
}

/// A layer that fails for each tool, and panics for each resource.
#[derive(Clone)]
struct Faulty(Next);

impl Service<LayerRequest> for Faulty {
    type Response = LayerResponse;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<LayerResponse, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: LayerRequest) -> Self::Future {
        let mut next = self.0.clone();
        Box::pin(async move {
            match request.method() {
                "tools/call" => Err(io::Error::other("no connection").into()),
                "resources/read" => panic!("out of ink"),
                _ => Ok(next.call(request).await?),
            }
        })
    }
}

#[tokio::test(flavor = "current_thread")]
async fn log_names_the_item_of_a_failed_layer() {
    for revision in Revision::ALL {
        let tool = Tool::new("t").description("Is never called.").handler(async || ());
        let server = Server::new("s", "1")
            .tool(tool)
            .resource(Resource::new("x:r").handler(async || ""))
            .layer(layer_fn(Faulty));
        let mut peer = RawClient::connect(&server, revision, json!({})).await;
        let warnings = Warnings::capture();
        assert_eq!(peer.call("t", json!({})).await["error"]["code"], -32603);
        assert_eq!(peer.request("resources/read", json!({"uri": "x:r"})).await["error"]["code"], -32603);
        let logged: Vec<_> = warnings.take_with_fields();
        assert_eq!(logged.len(), 2, "{logged:?}");
        assert!(logged[0].starts_with("a layer failed kind=\"tool\" name=\"t\" id="), "{logged:?}");
        assert!(logged[0].ends_with(" error=no connection"), "{logged:?}");
        assert!(logged[1].starts_with("a layer panicked kind=\"resource\" name=\"x:r\" id="), "{logged:?}");
        assert!(logged[1].ends_with(" error=\"out of ink\""), "{logged:?}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn log_names_the_tool_that_asks_wrongly() {
    let tool = Tool::new("asks").description("Has a URL that clients do not open.");
    let tool = tool.handler(async |cx: Context| cx.url_elicitation("ftp://example.com").map(drop));
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let server = Server::new("s", "1").tool(tool.clone());
        let client = json!({"elicitation": {"url": {}}});
        let mut peer = RawClient::connect(&server, revision, client).await;
        let warnings = Warnings::capture();
        assert_eq!(peer.call("asks", json!({})).await["error"]["code"], -32603);
        let logged = warnings.take_with_fields();
        assert!(
            logged.len() == 1 && logged[0].starts_with("tool failed kind=\"tool\" name=\"asks\" id="),
            "{logged:?}"
        );
    }
}
