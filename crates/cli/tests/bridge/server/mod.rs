//! A server that speaks one revision and nothing else, over pipes or HTTP.
//!
//! Whatever it gets that this revision does not allow is a fault, which it notes and refuses. The test that runs it sees
//! what it has seen.
//!
//! - `pipe` and `http`, `posts`: how messages come and go. `link`: one client. `acts`: what the tool does.

mod acts;
mod http;
mod link;
mod pipe;
mod posts;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::message::{Message, Rev, Way};
use link::Link;

/// A server, until it is dropped.
pub(crate) struct Server {
    pub(crate) shared: Arc<Shared>,
    way: Way,
    address: std::net::SocketAddr,
    accepting: JoinHandle<()>,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) rev: Rev,
    state: Mutex<State>,
    /// Counts what is noted.
    noted: watch::Sender<u64>,
    /// Bytes written to pipes.
    written: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    connections: usize,
    links: Vec<Arc<Link>>,
    listens: Vec<Listen>,
    notes: Vec<(String, String)>,
    faults: Vec<(Option<String>, String)>,
    log: Vec<String>,
}

/// A subscription of 2026-07-28.
struct Listen {
    link: usize,
    id: Value,
    filter: Value,
    out: Arc<dyn Out>,
}

/// Where messages go.
pub(crate) trait Out: Send + Sync {
    /// Says something before the answer.
    fn say(&self, text: &str);
    /// Gives the answer, which is the last there is to say.
    fn answer(&self, text: &str);
}

impl Server {
    pub(crate) async fn start(rev: Rev, way: Way) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            rev,
            state: Mutex::default(),
            noted: watch::Sender::new(0),
            written: watch::Sender::new(0),
        });
        let accepting = tokio::spawn({
            let shared = Arc::clone(&shared);
            let posts = Arc::new(posts::Posts::new(Arc::clone(&shared)));
            async move {
                while let Ok((socket, _)) = listener.accept().await {
                    socket.set_nodelay(true).unwrap();
                    match way {
                        Way::Stdio => drop(tokio::spawn(pipe::serve(socket, Arc::clone(&shared)))),
                        Way::Http => drop(tokio::spawn(http::serve(socket, Arc::clone(&posts)))),
                    }
                }
            }
        });
        Self { shared, way, address, accepting }
    }

    /// Where it is, over HTTP.
    pub(crate) fn url(&self) -> String {
        let path = if self.shared.rev == Rev::Nov24 { "sse" } else { "mcp" };
        format!("http://{}/{path}", self.address)
    }

    /// The words by which a bridge finds it.
    pub(crate) fn target(&self) -> Vec<String> {
        match self.way {
            Way::Http => vec![self.url()],
            Way::Stdio => {
                let this = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
                vec!["--".to_owned(), this, crate::harness::PUPPET.to_owned(), self.address.to_string()]
            }
        }
    }

    /// Waits until something was noted about a cell.
    pub(crate) async fn noted(&self, cell: &str, what: &str) -> Result<(), String> {
        let is_it = |(of, noted): &(String, String)| of == cell && noted == what;
        let mut news = self.shared.noted.subscribe();
        let noted = async {
            while !self.shared.state().notes.iter().any(is_it) {
                news.changed().await.map_err(|_| "the server is gone")?;
            }
            Ok::<(), String>(())
        };
        match tokio::time::timeout(LONG, noted).await {
            Ok(noted) => noted,
            Err(_) => Err(format!("the server never noted `{what}`")),
        }
    }

    /// What was noted about a cell.
    pub(crate) fn notes(&self, cell: &str) -> Vec<String> {
        let state = self.shared.state();
        state.notes.iter().filter(|(of, _)| of == cell).map(|(_, what)| what.clone()).collect()
    }

    /// What went wrong, each with the cell it belongs to, as far as that is known.
    pub(crate) fn faults(&self) -> Vec<(Option<String>, String)> {
        self.shared.state().faults.clone()
    }

    /// How many clients are there: processes, or sessions.
    pub(crate) fn connections(&self) -> usize {
        self.shared.state().links.len()
    }

    /// Waits until as many clients are there.
    pub(crate) async fn has_connections(&self, count: usize) -> Result<(), String> {
        let mut news = self.shared.noted.subscribe();
        let settled = async {
            while self.connections() != count {
                if news.changed().await.is_err() {
                    return;
                }
            }
        };
        let settled = tokio::time::timeout(LONG, settled).await;
        settled.map_err(|_| {
            format!("{} clients are there, and not {count}\n{}", self.connections(), self.log(12))
        })
    }

    /// Waits until nothing more can be written, or all is: gives the bytes written.
    pub(crate) async fn stalled(&self, all: u64) -> u64 {
        let mut written = self.shared.written.subscribe();
        while *written.borrow_and_update() < all {
            // Silence is all that can be seen of somebody who does not read.
            if !matches!(tokio::time::timeout(SILENCE, written.changed()).await, Ok(Ok(()))) {
                break;
            }
        }
        *written.borrow()
    }

    /// The last messages, in both directions.
    pub(crate) fn log(&self, lines: usize) -> String {
        let state = self.shared.state();
        let from = state.log.len().saturating_sub(lines);
        state.log[from..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, cell: &str, what: &str) {
        self.state().notes.push((cell.to_owned(), what.to_owned()));
        self.noted.send_modify(|count| *count += 1);
    }

    fn fault(&self, message: Option<&Message>, what: &str) {
        let cell = message.and_then(cell_of);
        self.state().faults.push((cell, what.to_owned()));
        self.noted.send_modify(|count| *count += 1);
    }

    fn log(&self, line: String) {
        self.state().log.push(line);
    }

    fn join(self: &Arc<Self>, news: Arc<dyn Out>) -> Arc<Link> {
        let mut state = self.state();
        state.connections += 1;
        let link = Arc::new(Link::new(state.connections, Arc::clone(self), news));
        state.links.push(Arc::clone(&link));
        link
    }

    /// A request that stands for itself.
    fn alone(self: &Arc<Self>, news: Arc<dyn Out>) -> Arc<Link> {
        let mut state = self.state();
        state.connections += 1;
        Arc::new(Link::new(state.connections, Arc::clone(self), news))
    }

    fn leave(&self, link: &Link) {
        let mut state = self.state();
        state.links.retain(|other| other.number() != link.number());
        drop(state);
        self.unlisten(|listen| listen.link == link.number());
        link.end();
        self.noted.send_modify(|count| *count += 1);
    }

    /// Ends subscriptions.
    fn unlisten(&self, ends: impl Fn(&Listen) -> bool) {
        let ended: Vec<_> = self.state().listens.extract_if(.., |listen| ends(listen)).collect();
        for listen in ended {
            self.note(&listen.filter.to_string(), "no longer listens");
        }
    }

    /// Tells everybody who wants to know, each in its way, that the tools have changed.
    fn tell_change(&self, cell: &str) {
        let wants = |filter: &Value| filter["toolsListChanged"] == true;
        let params = json!({"_meta": {"com.example/cell": cell}});
        self.tell("notifications/tools/list_changed", params, wants, |_| true);
    }

    /// The same of a resource.
    fn tell_update(&self, uri: &str, cell: &str) {
        let wants = |filter: &Value| {
            filter["resourceSubscriptions"].as_array().is_some_and(|uris| uris.contains(&json!(uri)))
        };
        let params = json!({"uri": uri, "x-unknown": [uri], "_meta": {"com.example/cell": cell}});
        self.tell("notifications/resources/updated", params, wants, |link| link.watches(uri));
    }

    fn tell(
        &self,
        method: &str,
        mut params: Value,
        wants: impl Fn(&Value) -> bool,
        watches: impl Fn(&Link) -> bool,
    ) {
        let state = self.state();
        if self.rev.is_stateless() {
            for listen in state.listens.iter().filter(|listen| wants(&listen.filter)) {
                params["_meta"]["io.modelcontextprotocol/subscriptionId"] = listen.id.clone();
                listen.out.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
            }
            return;
        }
        for link in state.links.iter().filter(|link| link.is_ready() && watches(link)) {
            link.news().say(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
        }
    }
}

/// The cell a call belongs to.
fn cell_of(message: &Message) -> Option<String> {
    message.value.pointer("/params/arguments/cell")?.as_str().map(str::to_owned)
}

/// Who has read nothing for so long reads nothing.
const SILENCE: Duration = Duration::from_millis(500);
/// The longest that anything may take.
pub(crate) const LONG: Duration = Duration::from_secs(20);
