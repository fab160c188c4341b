//! The GET stream of a session, opened again whenever it ends.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tsugite_testkit::http::Request;

use crate::fault_log::Effect;
use crate::history::Trace;
use crate::run::{Exchange, Run};
use crate::session_client::Session;
use crate::stream_position::StreamPosition;

/// A stream that a task keeps open. The task ends on drop.
pub(crate) struct GetStream {
    state: watch::Receiver<State>,
    trace: Arc<Mutex<Trace>>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    is_open: bool,
    /// How many updates of the resource were received.
    updates: u64,
    /// The status of the last response.
    status: u16,
}

impl GetStream {
    pub(crate) fn open(client: usize, session: &Session, run: &Run) -> Self {
        let (sender, state) = watch::channel(State::default());
        let request = session.request(Request::new("GET").header("Accept", "text/event-stream"));
        let (session_began, trace) = (session.began, Arc::<Mutex<Trace>>::default());
        let reader =
            Reader { client, session_began, request, run: run.clone(), state: sender, trace: trace.clone() };
        Self { state, trace, task: tokio::spawn(reader.read()) }
    }

    pub(crate) fn update_count(&self) -> u64 {
        self.state.borrow().updates
    }

    /// For a failure.
    pub(crate) fn describe(&self) -> String {
        let trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{:?}\n{trace}", *self.state.borrow())
    }

    pub(crate) async fn wait_until_open(&mut self) -> bool {
        let waiting = self.state.wait_for(|state| state.is_open || state.status == 404);
        tokio::time::timeout(TIMEOUT, waiting).await.is_ok()
    }

    pub(crate) async fn wait_for_update(&mut self, before: u64) -> bool {
        let waiting = self.state.wait_for(|state| state.updates > before);
        tokio::time::timeout(TIMEOUT, waiting).await.is_ok_and(|state| state.is_ok())
    }
}

impl Drop for GetStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Reader {
    client: usize,
    session_began: Duration,
    request: Request,
    run: Run,
    state: watch::Sender<State>,
    trace: Arc<Mutex<Trace>>,
}

impl Reader {
    /// Reads until the session is gone.
    async fn read(self) {
        let mut position = StreamPosition::default();
        loop {
            let request = match position.last_id() {
                Some(last) => self.request.clone().header("Last-Event-ID", last),
                None => self.request.clone(),
            };
            match self.run.send(&request).await {
                Exchange::Head(mut connection, head) => {
                    self.note(&format!("GET after {:?}: {}", position.last_id(), head.status));
                    self.state.send_modify(|state| {
                        state.status = head.status;
                        state.is_open = head.status == 200;
                    });
                    match head.status {
                        200 => {
                            while let Some(event) = connection.next_event().await {
                                match position.accept(&event) {
                                    Ok(true) => self.accept(&event.json()),
                                    Ok(false) => {}
                                    // Its numbers begin again with the data of Redis.
                                    Err(_)
                                        if self.run.faults.had(&[Effect::DataLost], self.session_began) =>
                                    {
                                        position = StreamPosition::default();
                                    }
                                    Err(mistake) => self.fail(&mistake),
                                }
                            }
                        }
                        // The log of the stream has gone with the data.
                        400 => position = StreamPosition::default(),
                        404 => return,
                        502..=504 => {}
                        status => self.fail(&format!("status {status} to GET")),
                    }
                }
                Exchange::Broken => {}
                Exchange::Silent => self.fail("no response to GET"),
            }
            self.note("the stream is not open");
            self.state.send_modify(|state| state.is_open = false);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn accept(&self, message: &Value) {
        self.note(&format!("{message:.200}"));
        match message.get("method").and_then(Value::as_str) {
            Some("notifications/resources/updated") => self.state.send_modify(|state| state.updates += 1),
            Some(method) if method.ends_with("list_changed") => {}
            _ => self.fail(&format!("unexpected message on a GET stream: {message}")),
        }
    }

    fn note(&self, line: &str) {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).add(self.run.now(), line);
    }

    fn fail(&self, failure: &str) {
        let trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        self.run.history.fail(self.client, &format!("GET stream: {failure}"), &trace);
    }
}

/// How long a stream may take to open, or a notification to arrive, when no fault is there.
const TIMEOUT: Duration = Duration::from_secs(15);
