//! Tasks: `tsugite call` follows them, and `tsugite tasks` works with their ids.

use std::future::pending;
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};
use tsugite::prelude::*;

use crate::support::{Place, Ran, answering, responding, tsugite};

/// A server over HTTP in this process, until the test ends.
pub(crate) struct TaskServer {
    pub(crate) url: String,
    _stop: tokio::sync::oneshot::Sender<()>,
}

#[derive(Form)]
struct Confirmation {
    /// Publish it?
    publish: bool,
}

/// Digs until it is cancelled.
#[tool(task = "required")]
async fn dig(cx: Context) -> Result<(), HandlerError> {
    cx.status("digging").await;
    pending().await
}

/// Builds the site, and publishes it if the user agrees.
#[tool(task = "required")]
async fn publish(cx: Context) -> Result<&'static str, HandlerError> {
    let Confirmation { publish } = cx.ask("The site is built.").await?;
    Ok(if publish { "published" } else { "not published" })
}

/// Fails.
#[tool(task = "required")]
async fn fail() -> Result<(), HandlerError> {
    Err(HandlerError::new("no luck"))
}

impl TaskServer {
    pub(crate) fn start() -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let server = Server::new("site", "1.0.0").tool(dig).tool(publish).tool(fail);
                let listener = server.bind_http("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr()).unwrap();
                listener.serve_until(async { drop(stopped.await) }).await.unwrap();
            });
        });
        let address = told.recv().unwrap();
        Self { url: format!("http://{address}/mcp"), _stop: stop }
    }

    /// Runs the binary with these words and the URL in place of `URL`.
    pub(crate) fn run(&self, words: &str, revision: &str) -> Ran {
        tsugite(&format!("{} --rev {revision}", words.replace("URL", &self.url)))
    }

    /// Begins a task and returns its id.
    fn begin(&self, tool: &str, revision: &str) -> String {
        let request = format!(r#"{{"method":"tools/call","params":{{"name":"{tool}","task":{{}}}}}}"#);
        let begun = Place::new().run(["raw", &self.url, &request, "--rev", revision]).fine();
        let begun: Value = serde_json::from_str(&begun).unwrap();
        begun["taskId"].as_str().or(begun["task"]["taskId"].as_str()).expect("a task").to_owned()
    }
}

pub(crate) const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

#[test]
fn call_follows_its_task() {
    let server = TaskServer::start();
    for revision in REVISIONS {
        let ran = server.run("call URL publish --answer publish=yes", revision);
        assert_eq!((ran.code, ran.out.as_str()), (0, "published\n"), "{revision} {ran:?}");
        assert!(
            ran.err.starts_with("note: the call is the task ") && ran.err.lines().count() == 1,
            "{ran:?}"
        );
        let json = server.run("call URL publish --answer publish=no --json", revision);
        assert!(json.out.contains("not published") && json.err.is_empty(), "{json:?}");
        let failed = server.run("call URL fail", revision).failed(4);
        assert!(failed.contains("the tool failed") && failed.contains("no luck"), "{failed}");
    }
}

#[test]
fn task_is_shown_answered_and_waited_for() {
    let server = TaskServer::start();
    for revision in REVISIONS {
        let id = server.begin("publish", revision);
        let shown = server.run(&format!("tasks get URL {id}"), revision).fine();
        assert!(shown.starts_with(&format!("task {id}\n  status  ")), "{shown}");
        let shown = server.run(&format!("tasks get URL {id} --json"), revision).fine();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["taskId"], id.as_str(), "{shown}");
        let waited = server.run(&format!("tasks wait URL {id} --answer publish=yes"), revision);
        assert_eq!(waited.fine(), "published\n");
        let shown = server.run(&format!("tasks get URL {id}"), revision).fine();
        assert!(shown.contains("\n  status  completed\n"), "{shown}");
    }
}

#[test]
fn cancelled_task_stays_cancelled() {
    let server = TaskServer::start();
    for (revision, said) in REVISIONS.into_iter().zip(["cancelled\n", "asked the server to cancel it\n"]) {
        let id = server.begin("dig", revision);
        assert_eq!(server.run(&format!("tasks cancel URL {id}"), revision).fine(), said);
        let shown = server.run(&format!("tasks get URL {id}"), revision).fine();
        assert!(shown.contains("\n  status  cancelled\n"), "{shown}");
        let waited = server.run(&format!("tasks wait URL {id}"), revision).failed(4);
        assert!(waited.contains("the task was cancelled"), "{waited}");
        let unknown = server.run("tasks get URL nothing", revision).failed(3);
        assert!(unknown.contains("there is no task with this id"), "{unknown}");
    }
}

#[cfg(unix)]
#[test]
fn signal_without_a_terminal_cancels_no_task() {
    let server = TaskServer::start();
    for revision in REVISIONS {
        for signal in ["-INT", "-TERM"] {
            let place = Place::new();
            let command = place.command(["call", &server.url, "dig", "--rev", revision, "-H", "X-Team: red"]);
            let running = crate::support::Running::start(command);
            let note = running.wait_for_stderr("note: the call is the task ");
            let id = note.trim().rsplit(' ').next().unwrap().to_owned();
            running.signal(signal);
            let err = running.ends().failed(130);
            let expected = [
                format!("error: interrupted; the task {id} was not cancelled\n"),
                format!(
                    "  try   `tsugite tasks wait {} {id} --rev {revision}` waits for its result\n",
                    server.url
                ),
                format!("  try   `tsugite tasks cancel {} {id} --rev {revision}` cancels it\n", server.url),
                "  try   give the same -H again\n".to_owned(),
            ];
            assert_eq!(err, expected.concat());
            let shown = server.run(&format!("tasks get URL {id}"), revision).fine();
            assert!(shown.contains("\n  status  working\n  message digging\n"), "{shown}");
            let hint =
                err.lines().find_map(|line| line.strip_prefix("  try   `")?.strip_suffix("` cancels it"));
            tsugite(hint.unwrap().strip_prefix("tsugite ").unwrap()).fine();
            let shown = server.run(&format!("tasks get URL {id}"), revision).fine();
            assert!(shown.contains("\n  status  cancelled\n"), "{shown}");
        }
    }
}

/// A server that lists its tasks in two pages. Returns its URL.
fn listing() -> String {
    let time = "2026-01-01T00:00:00Z";
    answering(move |request| match (&request["method"], &request["params"]["cursor"]) {
        (method, _) if method == "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tasks": {"list": {}}},
            "serverInfo": {"name": "listing", "version": "1"},
        }),
        (_, cursor) if cursor == "more" => json!({"tasks": [
            {"taskId": "b", "status": "completed", "createdAt": time, "lastUpdatedAt": time, "ttl": null},
        ]}),
        _ => json!({"nextCursor": "more", "tasks": [
            {"taskId": "a", "status": "working", "createdAt": time, "lastUpdatedAt": time, "ttl": null, "statusMessage": "digging"},
        ]}),
    })
}

#[test]
fn tasks_are_listed_where_the_server_can() {
    let url = listing();
    let run = |words: &str| tsugite(&format!("{words} {url} --rev 2025-11-25")).fine();
    assert_eq!(run("tasks list"), "a  working  digging\nb  completed\n");
    let listed: Value = serde_json::from_str(&run("tasks list --json")).unwrap();
    assert_eq!(listed["tasks"][1]["taskId"], "b", "{listed}");
}

#[test]
fn missing_lists_and_tasks_are_explained() {
    let server = TaskServer::start();
    let none = server.run("tasks list URL", "2026-07-28").failed(3);
    assert!(none.contains("revision 2026-07-28 has no list of tasks"), "{none}");
    let none = server.run("tasks list URL", "2025-11-25").failed(3);
    assert!(none.contains("the server does not list tasks"), "{none}");
    for revision in ["2025-06-18", "2024-11-05"] {
        let none = server.run("tasks get URL a", revision).failed(3);
        assert!(none.contains(&format!("revision {revision} has no tasks")), "{none}");
    }
    let none = tsugite("tasks get demo a").failed(3);
    assert!(none.contains("the server has no tasks"), "{none}");
    let none = tsugite("tasks get demo").failed(1);
    assert!(none.contains("`tasks get` needs the ID of a task"), "{none}");
}

#[test]
fn question_without_an_answer_stays_open() {
    let server = TaskServer::start();
    for revision in REVISIONS {
        let id = server.begin("publish", revision);
        let wait = format!("tasks wait URL {id}");
        let err = server.run(&wait, revision).failed(3);
        let expected = [
            "error: the task asks a question that cannot be answered here\n",
            "  step  tasks\n",
            "  seen  the server asks: The site is built.; the question stays open\n",
        ];
        assert!(err.starts_with(&expected.concat()), "{err}");
        let words = format!(
            "`tsugite tasks wait {} {id} --rev {revision} --answer publish=…` answers it",
            server.url
        );
        assert!(err.contains(&words), "{err}");
        let json = server.run(&format!("{wait} --json"), revision);
        let error: Value = serde_json::from_str(&json.err).unwrap();
        assert_eq!((json.code, &error["error"]["taskId"]), (3, &json!(id)), "{error}");
        // An answer that does not fit declines nothing either.
        let wrong = server.run(&format!("{wait} --answer publish=perhaps"), revision).failed(1);
        assert!(wrong.contains("--answer publish"), "{wrong}");
        assert_eq!(server.run(&format!("{wait} --answer publish=yes"), revision).fine(), "published\n");
    }
}

/// A server that makes a call a task with this id, and refuses its polls. Returns its URL.
fn refusing_polls(id: &'static str) -> String {
    let address = responding(move |body| {
        let Ok(request) = serde_json::from_str::<Value>(body) else {
            return ("405 Method Not Allowed".to_owned(), String::new());
        };
        let mut response = json!({"jsonrpc": "2.0", "id": request["id"]});
        match request["method"].as_str() {
            Some("server/discover") => {
                response["result"] = json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                    "cacheScope": "private",
                    "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
                });
            }
            Some("tools/call") => {
                response["result"] = json!({
                    "resultType": "task", "taskId": id, "status": "working", "ttlMs": null,
                    "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
                });
            }
            Some("tools/list") => {
                response["result"] = json!({
                    "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                    "tools": [{"name": "t", "inputSchema": {"type": "object"}}],
                });
            }
            _ => response["error"] = json!({"code": -32603, "message": "Internal error"}),
        }
        ("200 OK\r\nContent-Type: application/json".to_owned(), response.to_string())
    });
    format!("http://{address}/mcp")
}

#[test]
fn failed_poll_names_the_task() {
    let url = refusing_polls("t-1");
    let call = format!("call {url} t --rev 2026-07-28");
    let err = tsugite(&call).failed(3);
    for verb in ["wait", "cancel"] {
        let hint = format!("  try   `tsugite tasks {verb} {url} t-1 --rev 2026-07-28`");
        assert!(err.contains(&hint), "{err}");
    }
    let ran = tsugite(&format!("{call} --json"));
    let error: Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(error["error"]["taskId"], "t-1", "{error}");
}

#[test]
fn long_id_of_a_task_is_shortened() {
    static ID: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| "x".repeat(200_000));
    let ran = tsugite(&format!("call {} t --rev 2026-07-28", refusing_polls(&ID)));
    assert!(ran.err.starts_with("note: the call is the task xxx"), "{}", &ran.err[..200]);
    assert!(ran.err.contains("x… (200000 characters)\n") && ran.err.len() < 2_000, "{}", ran.err.len());
}
