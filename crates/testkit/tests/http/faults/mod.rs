//! Failures over real sockets: peers that disconnect, stall, or come in large numbers, and servers that shut down.
//!
//! No test sleeps: timeouts are so short that they expire at once, and the test waits for the effect.

mod disconnects;
mod load;
mod other_servers;
mod replay;
mod shutdown;
mod slow_clients;

use std::future::Future;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tsugite::prelude::*;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Request, Response, TestServer, open_session};

/// The revision of the tests that need a session.
const HANDSHAKE: &str = "2025-11-25";

/// Runs a test. It fails if it hangs, and if any other thread panics.
fn run<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    on(2, test);
}

/// Runs a test on a single-threaded runtime.
fn run_alone<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    on(1, test);
}

fn on<F: Future<Output = ()>>(threads: usize, test: impl FnOnce() -> F + Send + 'static) {
    record_panics();
    let name = std::thread::current().name().unwrap_or("main").to_owned();
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::Builder::new().name(name.clone()).spawn({
        let name = name.clone();
        move || {
            let _done = done;
            let mut builder = match threads {
                1 => tokio::runtime::Builder::new_current_thread(),
                _ => tokio::runtime::Builder::new_multi_thread(),
            };
            let runtime = builder.enable_all().worker_threads(threads).thread_name(name).build().unwrap();
            runtime.block_on(test());
        }
    });
    // Watched from another thread: a test may advance its clock, and a busy thread handles no timers.
    let silence = ended.recv_timeout(Duration::from_secs(60));
    assert_eq!(silence, Err(std::sync::mpsc::RecvTimeoutError::Disconnected), "the test hangs");
    thread.unwrap().join().unwrap();
    let heard: Vec<_> =
        PANICS.lock().unwrap().iter().filter(|(thread, _)| *thread == name).cloned().collect();
    assert!(heard.is_empty(), "{heard:?}");
}

/// The panics of other threads, with the name of the thread.
static PANICS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

fn record_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current().name().unwrap_or("main").to_owned();
            PANICS.lock().unwrap().push((thread, panic.to_string()));
            usual(panic);
        }));
    });
}

/// Polls the condition until it holds, and yields to other tasks meanwhile.
async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

/// Advances the clock of a single-threaded runtime.
async fn later(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

fn live_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// A server whose handlers wait for the test and report how they end.
struct Stage {
    server: Server,
    /// A permit lets one handler take one step.
    go: Arc<Semaphore>,
    /// The steps that handlers report; the first when they start.
    steps: UnboundedReceiver<usize>,
    /// Whether each handler finished (true) or was dropped (false).
    ends: UnboundedReceiver<bool>,
}

#[derive(Deserialize, JsonSchema)]
struct Talk {
    steps: usize,
    size: usize,
}

impl Stage {
    fn new(http: Http) -> Self {
        let (go, (say, steps), (end, ends)) =
            (Arc::new(Semaphore::new(0)), unbounded_channel(), unbounded_channel());
        let cue = Cue { go: go.clone(), say, end };
        let echo = Tool::new("echo").handler(|| async { "hello" });
        // Sends nothing before its response.
        let wait = {
            let cue = cue.clone();
            Tool::new("wait").no_timeout().handler(move || {
                let cue = cue.clone();
                async move {
                    // The server registers the id of a request after the first poll of its handler.
                    tokio::task::yield_now().await;
                    let mut end = cue.begin();
                    cue.wait().await;
                    end.reached = true;
                    "waited"
                }
            })
        };
        // Sends progress at once, and then with every step.
        let talk = {
            let cue = cue.clone();
            Tool::new("talk").no_timeout().handler(move |cx: Context, Args(talk): Args<Talk>| {
                let cue = cue.clone();
                async move {
                    let mut end = cue.begin();
                    let text = "x".repeat(talk.size);
                    cx.progress(0).message(&text).await;
                    for step in 1..=talk.steps {
                        cue.wait().await;
                        cx.progress(step).message(&text).await;
                        let _ = cue.say.send(step);
                    }
                    cue.wait().await;
                    end.reached = true;
                    "talked"
                }
            })
        };
        // Sends everything at once.
        let burst = Tool::new("burst").handler(|cx: Context, Args(talk): Args<Talk>| async move {
            let text = "x".repeat(talk.size);
            for step in 1..=talk.steps {
                cx.progress(step).message(&text).await;
            }
            "burst"
        });
        // Sends the same message until it is stopped.
        let flood = Tool::new("flood").handler(move |cx: Context, Args(talk): Args<Talk>| {
            let cue = cue.clone();
            async move {
                let mut end = cue.begin();
                let text = "x".repeat(talk.size);
                for step in 1.. {
                    cx.progress(step).message(&text).await;
                    let _ = cue.say.send(step);
                    if let Ok(permit) = cue.go.try_acquire() {
                        permit.forget();
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                end.reached = true;
                "flooded"
            }
        });
        let server =
            [wait, talk, burst, flood].into_iter().fold(Server::new("s", "1").tool(echo), Server::tool);
        Self { server: server.http(http), go, steps, ends }
    }

    async fn serve(&self) -> TestServer {
        TestServer::start(&self.server).await
    }

    fn let_go(&self, steps: usize) {
        self.go.add_permits(steps);
    }

    /// Waits until a handler has reported this step.
    async fn step(&mut self, step: usize) {
        while self.steps.recv().await.unwrap() != step {}
    }

    /// Waits until a handler has ended; returns whether it finished.
    async fn end(&mut self) -> bool {
        self.ends.recv().await.unwrap()
    }
}

#[derive(Clone)]
struct Cue {
    go: Arc<Semaphore>,
    say: UnboundedSender<usize>,
    end: UnboundedSender<bool>,
}

impl Cue {
    fn begin(&self) -> End {
        let _ = self.say.send(0);
        End { reached: false, tell: self.end.clone() }
    }

    async fn wait(&self) {
        self.go.acquire().await.unwrap().forget();
    }
}

struct End {
    reached: bool,
    tell: UnboundedSender<bool>,
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.tell.send(self.reached);
    }
}

/// A client of either era.
#[derive(Clone)]
enum Client {
    Stateless,
    Session(String),
}

impl Client {
    async fn session(serving: &TestServer) -> Self {
        Self::Session(open_session(serving, HANDSHAKE, json!({})).await)
    }

    /// Returns one client of each era.
    async fn both(serving: &TestServer) -> [Self; 2] {
        [Self::Stateless, Self::session(serving).await]
    }

    fn id(&self) -> &str {
        match self {
            Client::Session(id) => id,
            Client::Stateless => panic!("a stateless client has no session"),
        }
    }

    fn request(&self, message: Value) -> Request {
        match self {
            Client::Stateless => Request::stateless(message),
            Client::Session(id) => Request::post(&message).session(id),
        }
    }

    fn call(&self, id: usize, tool: &str, arguments: Value) -> Request {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
        self.request(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
    }

    fn wait(&self, id: usize) -> Request {
        self.call(id, "wait", json!({}))
    }

    fn echo(&self) -> Request {
        self.call(77, "echo", json!({}))
    }

    /// A request that resumes a stream after an event.
    fn after(&self, event: &str) -> Request {
        Request::get_stream(self.id()).header("Last-Event-ID", event)
    }
}

fn talk(steps: usize, size: usize) -> Value {
    json!({"steps": steps, "size": size})
}

/// The text of a call's result.
fn text_of(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no result: {message}"))
}

fn is_echo(response: &Response) -> bool {
    response.status == 200 && text_of(&response.json()) == "hello"
}
