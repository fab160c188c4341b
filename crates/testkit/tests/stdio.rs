//! A server as a process on stdio: its start, its end, and difficult clients.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and so do its own helpers"
)]

#[cfg(unix)]
#[path = "stdio/unix.rs"]
mod unix;

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

/// A running fixture and its pipes.
struct Peer {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Peer {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(arguments: &[&str]) -> Self {
        Self::of(start(arguments))
    }

    fn of(mut child: Child) -> Self {
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, stdin, stdout: BufReader::new(stdout) }
    }

    /// Waits for 200 responses, one after the other.
    async fn call_often(&mut self) {
        for id in 0..200 {
            self.send_lines(&call(100_000 + id, "fails")).await;
            assert_eq!(self.read_message().await["id"], 100_000 + id);
        }
    }

    async fn send_lines(&mut self, lines: &str) {
        self.stdin.write_all(lines.as_bytes()).await.unwrap();
    }

    async fn read_message(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Closes stdin and reads the remaining messages.
    async fn read_to_end(mut self) -> (Child, Vec<Value>) {
        drop(self.stdin);
        let mut heard = String::new();
        self.stdout.read_to_string(&mut heard).await.unwrap();
        (self.child, heard.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }
}

fn start(arguments: &[&str]) -> Child {
    start_program(env!("CARGO_BIN_EXE_fixture"), arguments)
}

fn start_program(program: &str, arguments: &[&str]) -> Child {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn listen(id: usize, to: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"subscriptions/listen\",\"params\":{{\"notifications\":{to},{META}}}}}\n"
    )
}

fn call(id: usize, tool: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",{META}}}}}\n"
    )
}

#[tokio::test(flavor = "current_thread")]
async fn burst_of_requests_gets_one_response_each() {
    for every in [2, 1_000] {
        let Peer { mut child, mut stdin, stdout } = Peer::start();
        let tool = |id| if id % every == every - 1 { "later" } else { "fails" };
        let burst: String = (0..10_000).map(|id| call(id, tool(id))).collect();
        let writer = tokio::spawn(async move {
            stdin.write_all(burst.as_bytes()).await.unwrap();
            stdin
        });
        let mut lines = stdout.lines();
        let mut seen = BTreeSet::new();
        while seen.len() < 10_000 {
            let answer: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
            assert!(answer.get("result").is_some(), "{answer}");
            assert!(seen.insert(answer["id"].as_u64().unwrap()), "a second response: {answer}");
        }
        drop(writer.await.unwrap());
        assert!(child.wait().await.unwrap().success());
    }
}

#[tokio::test(flavor = "current_thread")]
async fn requests_before_the_end_of_input_are_answered() {
    // STDIO-019, also without a newline at the end.
    let mut peer = Peer::start();
    peer.send_lines(&format!("{}{}", call(1, "later"), call(2, "later").trim_end())).await;
    let (mut child, heard) = peer.read_to_end().await;
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test(flavor = "current_thread")]
async fn last_line_without_a_newline_is_answered() {
    for last in ["later", "fails"] {
        let mut peer = Peer::start();
        peer.send_lines(call(1, last).trim_end()).await;
        let (mut child, heard) = peer.read_to_end().await;
        assert_eq!(heard.len(), 1, "{last}: {heard:?}");
        assert!(child.wait().await.unwrap().success());
    }
}

#[tokio::test(flavor = "current_thread")]
async fn server_may_know_its_caller() {
    let mut peer = Peer::start_with(&["--principal", "ann"]);
    peer.send_lines(&call(1, "who")).await;
    assert_eq!(peer.read_message().await["result"]["content"][0]["text"], "ann");
}

#[tokio::test(flavor = "current_thread")]
async fn only_messages_reach_stdout() {
    // L-07
    // STDIO-004, STDIO-006: the output of handlers and panics goes to stderr.
    let send_lines = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "say", "arguments": {"text": "hello"}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    let mut peer = Peer::start();
    peer.send_lines(&format!("{send_lines}\n{}", call(2, "panics"))).await;
    let (mut child, heard) = peer.read_to_end().await;
    assert_eq!(heard.len(), 2);
    let mut printed = String::new();
    child.stderr.take().unwrap().read_to_string(&mut printed).await.unwrap();
    assert!(printed.contains("a stray line on stdout") && printed.contains("on purpose"), "{printed}");
}

#[tokio::test(flavor = "current_thread")]
async fn handlers_and_their_children_read_no_messages() {
    // L-07
    let mut peer = Peer::of(start_program(env!("CARGO_BIN_EXE_helper"), &["starts"]));
    // More than a pipe holds: a child that shared stdin would take the rest.
    let more: String = (1..1_000).map(|id| call(id, "fails")).collect();
    peer.send_lines(&format!("{}{more}", call(0, "starts"))).await;
    let (mut child, heard) = peer.read_to_end().await;
    let started = heard.iter().find(|message| message["id"] == 0).unwrap();
    assert_eq!(started["result"]["content"][0]["text"], "Ok(true) Ok(0)");
    assert_eq!(heard.len(), 1_000);
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test(flavor = "current_thread")]
async fn oversized_line_is_refused_and_reading_continues() {
    let mut peer = Peer::start();
    let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}\n", "x".repeat(5 << 20));
    peer.send_lines(&format!("{long}{}", call(2, "later"))).await;
    let refused = peer.read_message().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32801)));
    assert_eq!(peer.read_message().await["id"], 2);
}

#[tokio::test(flavor = "current_thread")]
async fn files_work_in_place_of_pipes() {
    // As a shell does with `< in > out`.
    let folder = std::env::temp_dir().join(format!("tsugite-stdio-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (questions, answers) = (folder.join("in"), folder.join("out"));
    let asked: String =
        (0..2_000).map(|id| call(id, if id % 500 == 0 { "later" } else { "fails" })).collect();
    std::fs::write(&questions, asked).unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_fixture"))
        .stdin(std::fs::File::open(&questions).unwrap())
        .stdout(std::fs::File::create(&answers).unwrap())
        .stderr(Stdio::null())
        .status()
        .await
        .unwrap();
    let heard = std::fs::read_to_string(&answers).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(status.success());
    assert_eq!(heard.lines().count(), 2_000);
}

#[tokio::test(flavor = "current_thread")]
async fn endless_call_ends_when_the_client_leaves() {
    let mut peer = Peer::start_with(&["50"]);
    peer.send_lines(&format!("{}{}", call(1, "slow"), listen(2, "{}"))).await;
    let (mut child, heard) = peer.read_to_end().await;
    assert!(child.wait().await.unwrap().success());
    let ids: Vec<_> = heard.iter().map(|message| message["id"].clone()).collect();
    assert_eq!(
        ids,
        [Value::Null, json!(2)],
        "acknowledged, then ended gracefully; the other call has no response"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn output_of_the_runtime_is_written_while_stdin_is_read() {
    let mut peer = Peer::start_with(&["5000", "soon"]);
    peer.send_lines(&listen(1, "{\"toolsListChanged\":true}")).await;
    assert_eq!(peer.read_message().await["method"], "notifications/subscriptions/acknowledged");
    peer.call_often().await;
    peer.send_lines(&call(2, "soon")).await;
    // The task it starts may be faster than its response.
    let heard = [peer.read_message().await, peer.read_message().await];
    assert!(heard.iter().any(|message| message["id"] == 2), "{heard:?}");
    let news = "notifications/tools/list_changed";
    assert!(heard.iter().any(|message| message["method"] == news), "{heard:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn request_in_the_runtime_is_cancelled_from_stdin() {
    let mut peer = Peer::start();
    peer.send_lines(&call(7, "slow")).await;
    peer.call_often().await;
    // The id is in use while the call runs.
    peer.send_lines(&call(7, "fails")).await;
    assert_eq!(peer.read_message().await["error"]["code"], -32600);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    peer.send_lines(&format!("{cancel}\n{}", call(7, "later"))).await;
    assert_eq!(peer.read_message().await["result"]["content"][0]["text"], "later");
}

#[tokio::test(flavor = "current_thread")]
async fn response_larger_than_a_pipe_is_written_whole() {
    let mut peer = Peer::start();
    let text = "x".repeat(1_000_000);
    let send_lines = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "say", "arguments": {"text": text}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    peer.send_lines(&format!("{send_lines}\n")).await;
    assert_eq!(peer.read_message().await["result"]["content"][0]["text"], text);
}

#[tokio::test(flavor = "current_thread")]
async fn client_that_never_reads_gets_backpressure() {
    let Peer { mut child, mut stdin, stdout } = Peer::start();
    let big = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "say", "arguments": {"text": "x".repeat(60_000)}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    let line = format!("{big}\n");
    let mut taken = 0;
    // After a second without progress the server counts as stuck; a slow machine only ends the loop sooner.
    while taken < 1_000
        && tokio::time::timeout(std::time::Duration::from_secs(1), stdin.write_all(line.as_bytes()))
            .await
            .is_ok()
    {
        taken += 1;
    }
    assert!(taken < 1_000, "60 MB were accepted although nothing was read");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id().unwrap())).unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    if let Some(kib) = resident.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok()) {
        assert!(kib < 100_000, "{kib} KiB");
    }
    // Once the client reads, every complete request is answered.
    drop(stdin);
    let mut lines = stdout.lines();
    for _ in 0..taken {
        let answer: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(answer["id"], 1);
    }
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test(flavor = "current_thread")]
async fn dropped_messages_are_logged_to_stderr() {
    let mut child = start(&[]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(call(1, "breaks").as_bytes()).await.unwrap();
    drop(stdin);
    let (mut heard, mut printed) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut heard).await.unwrap();
    child.stderr.take().unwrap().read_to_string(&mut printed).await.unwrap();
    assert!(heard.contains("number 1 in the server's log") && !heard.contains("swordfish"), "{heard}");
    assert!(printed.contains("number=1") && printed.contains("swordfish"), "{printed}");
}
