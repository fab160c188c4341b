//! Kills the server of a task, or of a call with an idempotency key, at each write of its life, and checks how it ends.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a peer of tests fails by panicking"
)]

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// How the tasks ended.
#[derive(Debug, Default)]
pub struct KillReport {
    /// The processes that were killed.
    pub kills: usize,
    /// Tasks whose client did not get the id.
    pub unannounced: usize,
    /// Tasks that were completed.
    pub completed: usize,
    /// Tasks that failed because a step may have run.
    pub may_have_run: usize,
    /// Tasks that failed because they must not run again.
    pub not_restartable: usize,
}

/// Runs a task for each of the first `points` places in its writes, and kills its server there. `store` are the arguments
/// that name the store, made from the number of the run. Panics if a task ends in a way that is not defined.
pub async fn kill_at_every_write(
    program: &str,
    folder: &Path,
    tool: &str,
    points: usize,
    store: impl Fn(usize) -> [String; 2],
) -> KillReport {
    let mut report = KillReport::default();
    for point in 0..points {
        let effects = folder.join(format!("effects-{tool}-{point}"));
        let mut run = KillRun {
            program,
            args: vec![effects.display().to_string()].into_iter().chain(store(point)).collect(),
            server: None,
            kills: 0,
        };
        let stop = ["--stop".to_owned(), point.to_string()];
        run.server = Some(TaskServer::start(program, &[&run.args[..], &stop].concat()));
        let ended = run.run(tool).await;
        report.kills += run.kills;
        let steps = std::fs::read_to_string(&effects).unwrap_or_default();
        let count = |name: &str| steps.lines().filter(|step| *step == name).count();
        let context = format!("{tool} at {point}: {ended:?}, steps {steps:?}");
        assert!(
            count("first") <= 1 && count("second") <= 1 && count("last") <= 1,
            "a step ran twice: {context}"
        );
        match ended {
            None => report.unannounced += 1,
            Some(task) if task["status"] == "completed" => {
                assert_eq!(task["result"]["content"][0]["text"], "Ada", "{context}");
                assert_eq!((count("first"), count("second")), (1, 1), "{context}");
                report.completed += 1;
            }
            Some(task) => {
                assert_eq!(task["status"], "failed", "{context}");
                let text = task["error"]["message"].as_str().unwrap_or_default();
                match (text.contains("may have run"), text.contains("cannot run again")) {
                    (true, _) => report.may_have_run += 1,
                    (_, true) if tool == "stays" => report.not_restartable += 1,
                    _ => panic!("an undefined end: {context}"),
                }
            }
        }
    }
    report
}

/// How calls with a key ended, in the order of the places where their server was killed: whether the result was returned, and
/// how often the handler ran.
pub type KeyedEnds = Vec<(bool, usize)>;

/// Makes a call with a key for each place before and after its two writes, kills its server there, and makes it again until it
/// is answered. Panics if a call ends in a way that is not defined.
pub async fn kill_keyed_calls(
    program: &str,
    folder: &Path,
    tool: &str,
    store: impl Fn(usize) -> [String; 2],
) -> KeyedEnds {
    let mut ends = Vec::new();
    for point in 0..4 {
        let effects = folder.join(format!("effects-{tool}-{point}"));
        let args: Vec<_> = [effects.display().to_string()].into_iter().chain(store(point)).collect();
        let stop = ["--stop".to_owned(), point.to_string()];
        let mut server = TaskServer::start(program, &[&args[..], &stop].concat());
        let key = json!({"dev.tsugite/idempotency-key": format!("key-of-the-call-{point}")});
        let params = json!({"name": tool, "arguments": {}, "_meta": key});
        assert_eq!(server.respond("tools/call", params.clone()).await, None, "{tool} at {point}: not killed");
        let mut server = TaskServer::start(program, &args);
        let response = server.respond("tools/call", params.clone()).await.unwrap();
        let again = server.respond("tools/call", params).await.unwrap();
        assert_eq!(response, again, "{tool} at {point}");
        let is_done = response["result"]["content"][0]["text"] == "paid";
        let fault = &response["error"]["data"]["dev.tsugite/idempotency"];
        assert!(is_done || fault == "may_have_run", "{tool} at {point}: {response}");
        let runs = std::fs::read_to_string(&effects).unwrap_or_default().lines().count();
        ends.push((is_done, runs));
    }
    ends
}

/// One task, whose server is started again when it is killed.
struct KillRun<'a> {
    program: &'a str,
    args: Vec<String>,
    server: Option<TaskServer>,
    kills: usize,
}

impl KillRun<'_> {
    /// Runs a task to its end. `None` if the server was killed before it returned the id.
    async fn run(&mut self, tool: &str) -> Option<Value> {
        let created = self.request("tools/call", json!({"name": tool, "arguments": {}})).await?;
        let id = created["taskId"].as_str().unwrap_or_else(|| panic!("no task: {created}")).to_owned();
        loop {
            let Some(task) = self.request("tasks/get", json!({"taskId": id})).await else { continue };
            match task["status"].as_str() {
                Some("working") => tokio::task::yield_now().await,
                Some("input_required") => {
                    let answer = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
                    let params = json!({"taskId": id, "inputResponses": answer});
                    // Answered again if the server was killed meanwhile.
                    drop(self.request("tasks/update", params).await);
                }
                _ => return Some(task),
            }
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> Option<Value> {
        let server = match &mut self.server {
            Some(server) => server,
            none => none.insert(TaskServer::start(self.program, &self.args)),
        };
        let response = server.request(method, params).await;
        if response.is_none() {
            self.server = None;
            self.kills += 1;
        }
        response
    }
}

/// A server process that waits to be killed at some point.
struct TaskServer {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl TaskServer {
    fn start(program: &str, args: &[String]) -> Self {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let (stdin, stdout, stderr) =
            (child.stdin.take().unwrap(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (stdout, stderr) = (BufReader::new(stdout).lines(), BufReader::new(stderr).lines());
        Self { child, stdin, stdout, stderr }
    }

    /// Sends a request and returns its result. If the server stops first, kills it and returns `None`.
    async fn request(&mut self, method: &str, params: Value) -> Option<Value> {
        let response = self.respond(method, params).await?;
        Some(response.get("result").unwrap_or_else(|| panic!("{method}: {response}")).clone())
    }

    /// Sends a request and returns the whole response. If the server stops first, kills it and returns `None`.
    async fn respond(&mut self, method: &str, mut params: Value) -> Option<Value> {
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({
            "elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}},
        });
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.ok()?;
        loop {
            tokio::select! {
                line = self.stdout.next_line() => {
                    let Some(line) = line.ok().flatten() else {
                        let mut said = String::new();
                        self.stderr.get_mut().read_to_string(&mut said).await.unwrap();
                        panic!("the server has ended: {said}");
                    };
                    let response: Value = serde_json::from_str(&line).unwrap_or_default();
                    if response["id"] == 1 {
                        return Some(response);
                    }
                }
                line = self.stderr.next_line() => {
                    let line = line.ok().flatten();
                    if line.as_deref() == Some("stopped") {
                        self.child.kill().await.unwrap();
                        return None;
                    }
                    // Warnings of a store that waits for a lease are no end.
                    assert!(line.is_some(), "the server has ended");
                }
            }
        }
    }
}
