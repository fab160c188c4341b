//! The fixture as a process: how it begins, ends, and bears what a client does to it.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and so do its own helpers"
)]

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn start() -> Child {
    start_with(&[])
}

fn start_with(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_fixture"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn call(id: usize, tool: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",{META}}}}}\n"
    )
}

#[tokio::test(flavor = "current_thread")]
async fn ten_thousand_requests_in_one_burst_are_all_answered_once() {
    let mut child = start();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let burst: String = (0..10_000).map(|id| call(id, if id % 2 == 0 { "later" } else { "fails" })).collect();
    let writer = tokio::spawn(async move {
        stdin.write_all(burst.as_bytes()).await.unwrap();
        stdin
    });
    let mut lines = BufReader::new(stdout).lines();
    let mut seen = BTreeSet::new();
    while seen.len() < 10_000 {
        let answer: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        assert!(answer.get("result").is_some(), "{answer}");
        assert!(seen.insert(answer["id"].as_u64().unwrap()), "answered twice: {answer}");
    }
    drop(writer.await.unwrap());
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test(flavor = "current_thread")]
async fn what_was_asked_before_the_end_of_input_is_answered() {
    // STDIO-019, also without a newline at the end.
    let mut child = start();
    let mut stdin = child.stdin.take().unwrap();
    let asked = format!("{}{}", call(1, "later"), call(2, "later").trim_end());
    stdin.write_all(asked.as_bytes()).await.unwrap();
    drop(stdin);
    let mut heard = String::new();
    child.stdout.take().unwrap().read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard.lines().count(), 2, "{heard}");
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test(flavor = "current_thread")]
async fn a_signal_ends_the_server_cleanly() {
    let mut child = start();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = BufReader::new(stdout).lines();
    stdin.write_all(call(1, "later").as_bytes()).await.unwrap();
    lines.next_line().await.unwrap().unwrap();
    // The shell's own `kill`: a small machine may have no program of that name.
    let kill = format!("kill -TERM {}", child.id().unwrap());
    assert!(Command::new("sh").args(["-c", &kill]).status().await.unwrap().success());
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test(flavor = "current_thread")]
async fn nothing_but_messages_reaches_stdout() {
    // STDIO-004, STDIO-006: what a handler prints, and what a panic says, goes to stderr.
    let mut child = start();
    let mut stdin = child.stdin.take().unwrap();
    let say = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "say", "arguments": {"text": "hello"}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    stdin.write_all(format!("{say}\n{}", call(2, "panics")).as_bytes()).await.unwrap();
    drop(stdin);
    let (mut heard, mut printed) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut heard).await.unwrap();
    child.stderr.take().unwrap().read_to_string(&mut printed).await.unwrap();
    assert!(heard.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{heard}");
    assert_eq!(heard.lines().count(), 2);
    assert!(printed.contains("a stray line on stdout") && printed.contains("on purpose"), "{printed}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_line_over_the_limit_is_answered_and_the_next_is_read() {
    let mut child = start();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = BufReader::new(stdout).lines();
    let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}\n", "x".repeat(5 << 20));
    let writer = tokio::spawn(async move {
        stdin.write_all(format!("{long}{}", call(2, "later")).as_bytes()).await.unwrap();
        stdin
    });
    let refused: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32801)));
    let answered: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!(answered["id"], 2);
    drop(writer.await.unwrap());
}

#[tokio::test(flavor = "current_thread")]
async fn files_serve_where_pipes_would() {
    // What a shell does with `< in > out`.
    let folder = std::env::temp_dir().join(format!("tsugite-stdio-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (questions, answers) = (folder.join("in"), folder.join("out"));
    std::fs::write(&questions, call(1, "later")).unwrap();
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
    assert_eq!(heard.lines().count(), 1, "{heard}");
}

#[tokio::test(flavor = "current_thread")]
async fn what_never_ends_is_ended_when_the_client_has_gone() {
    let mut child = start_with(&["50"]);
    let mut stdin = child.stdin.take().unwrap();
    let listen = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"subscriptions/listen\",\"params\":{{\"notifications\":{{}},{META}}}}}\n"
    );
    stdin.write_all(format!("{}{listen}", call(1, "slow")).as_bytes()).await.unwrap();
    drop(stdin);
    let mut heard = String::new();
    child.stdout.take().unwrap().read_to_string(&mut heard).await.unwrap();
    assert!(child.wait().await.unwrap().success());
    let ids: Vec<_> =
        heard.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone()).collect();
    assert_eq!(
        ids,
        [Value::Null, json!(2)],
        "acknowledged, then ended gracefully; the other call has no answer"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn a_client_that_never_reads_is_not_read_from_for_ever() {
    let mut child = start();
    let (mut stdin, _stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let big = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "say", "arguments": {"text": "x".repeat(60_000)}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    let line = format!("{big}\n");
    let mut taken = 0;
    // A second without a byte taken is long enough to call it stuck; a slow machine only ends the loop sooner.
    while taken < 1_000
        && tokio::time::timeout(std::time::Duration::from_secs(1), stdin.write_all(line.as_bytes()))
            .await
            .is_ok()
    {
        taken += 1;
    }
    assert!(taken < 1_000, "60 MB were taken in and nothing was read");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id().unwrap())).unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    if let Some(kib) = resident.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok()) {
        assert!(kib < 100_000, "{kib} KiB");
    }
    child.kill().await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn what_the_peer_does_not_hear_stands_on_stderr() {
    let mut child = start();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(call(1, "breaks").as_bytes()).await.unwrap();
    drop(stdin);
    let (mut heard, mut printed) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut heard).await.unwrap();
    child.stderr.take().unwrap().read_to_string(&mut printed).await.unwrap();
    assert!(heard.contains("number 1 in the server's log") && !heard.contains("swordfish"), "{heard}");
    assert!(printed.contains("number=1") && printed.contains("swordfish"), "{printed}");
}
