//! The connection that all operations share, except those that wait for messages.
//!
//! A task opens it on first use and again after it was lost. While an attempt follows a failed one, operations fail at once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::connection::Connection;
use crate::error::{Error, Reason};
use crate::settings::Settings;

#[derive(Default)]
pub(crate) struct SharedConnection(Mutex<Option<watch::Receiver<State>>>);

#[derive(Clone)]
enum State {
    /// Operations wait.
    Connecting,
    Ready(Connection),
    /// Operations fail.
    Down(Error),
}

impl SharedConnection {
    /// Returns the connection, or the reason why there is none. May wait for longer than an operation is allowed to.
    pub(crate) async fn get(&self, settings: &Arc<Settings>) -> Result<Connection, Error> {
        let mut state = self.watch(settings);
        loop {
            match &*state.borrow_and_update() {
                State::Ready(connection) => return Ok(connection.clone()),
                State::Down(error) => return Err(error.clone()),
                State::Connecting => {}
            }
            if state.changed().await.is_err() {
                let reason = "the runtime that held it has ended".into();
                return Err(settings.error(Reason::Connection(reason)));
            }
        }
    }

    /// Starts the task, unless it is running.
    fn watch(&self, settings: &Arc<Settings>) -> watch::Receiver<State> {
        let mut slot = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match &*slot {
            Some(state) if state.has_changed().is_ok() => state.clone(),
            _ => {
                let (sender, state) = watch::channel(State::Connecting);
                tokio::spawn(keep_connected(settings.clone(), sender));
                slot.insert(state).clone()
            }
        }
    }
}

/// Keeps a connection open until the store is dropped.
async fn keep_connected(settings: Arc<Settings>, state: watch::Sender<State>) {
    let run = async {
        let mut failures = 0;
        loop {
            let opened = timeout(settings.timeout, Connection::open(&settings)).await;
            let error = match opened.unwrap_or_else(|_| Err(settings.timeout_error())) {
                Ok((connection, driver)) => {
                    let opened_at = Instant::now();
                    let abandoned = connection.abandoned();
                    state.send_replace(State::Ready(connection));
                    tokio::select! {
                        () = driver => {}
                        () = abandoned => {}
                    }
                    if opened_at.elapsed() > MAX_BACKOFF {
                        failures = 0;
                        state.send_replace(State::Connecting);
                        continue;
                    }
                    settings.error(Reason::Connection("it was lost as soon as it was open".into()))
                }
                Err(error) => error,
            };
            state.send_replace(State::Down(settings.error(Reason::Down(Arc::new(error)))));
            sleep((MIN_BACKOFF * 2_u32.saturating_pow(failures)).min(MAX_BACKOFF)).await;
            failures = u32::saturating_add(failures, 1);
        }
    };
    tokio::select! {
        () = run => {}
        () = state.closed() => {}
    }
}

const MIN_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(1);
