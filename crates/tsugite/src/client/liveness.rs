//! Checks periodically that a server responds, and ends the connection to one that does not.

use std::sync::Arc;

use super::call_error::CallError;
use super::client_error::{ClientError, ErrorKind};
use super::connection::ClientConnection;
use crate::shared::log;

/// Starts the periodic check of a connection, if the client wants one. It ends with the connection.
pub(super) fn start(connection: &Arc<ClientConnection>) {
    let Some(interval) = connection.shared.settings.ping_interval else { return };
    let checked = Arc::clone(connection);
    connection.register_task(&tokio::spawn(async move {
        while checked.disconnect_reason().is_none() {
            tokio::time::sleep(interval).await;
            if let Err(reason) = check(&checked).await {
                log::warn!(reason, "the server does not answer pings; the connection is closed");
                return checked.abort(&reason);
            }
        }
    }));
}

/// Sends one ping. Fails if the server does not answer it; an error response is an answer.
async fn check(connection: &Arc<ClientConnection>) -> Result<(), String> {
    let error = match connection.era().ping(connection).await {
        Ok(_) => return Ok(()),
        Err(CallError::Disconnected { reason, .. }) => return Err(reason),
        Err(CallError::Fatal(error)) => error,
    };
    match error.kind() {
        ErrorKind::TimedOut { limit, .. } => {
            Err(format!("the server did not answer a ping within {} s", limit.as_secs_f64()))
        }
        ErrorKind::Connect { .. } => Err(ClientError::to_string(&error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::time::Instant;
    use tsugite_core::jsonrpc::Id;
    use tsugite_core::revision::Revision;

    use super::*;
    use crate::client::{Client, ClientBuilder};
    use crate::shared::failure_causes::FailureCause;
    use crate::shared::in_process::{InProcessConnection, InProcessServer};
    use crate::shared::outbound_queue::OutboundQueue;
    use crate::shared::principal::Principal;

    /// A server that answers so many requests, and then none.
    struct Tired {
        answers: usize,
        seen: Arc<AtomicUsize>,
        outbox: OutboundQueue,
    }

    struct TiredServer(usize, Arc<AtomicUsize>);

    impl InProcessServer for TiredServer {
        fn connect(&self, _: Option<Principal>) -> crate::Result<Arc<dyn InProcessConnection>> {
            let (answers, seen) = (self.0, Arc::clone(&self.1));
            Ok(Arc::new(Tired { answers, seen, outbox: OutboundQueue::new(1 << 20) }))
        }
    }

    impl InProcessConnection for Tired {
        fn receive(&self, message: &[u8]) {
            let message: serde_json::Value = serde_json::from_slice(message).unwrap();
            let result = match message["method"].as_str() {
                Some("initialize") => serde_json::json!({
                    "protocolVersion": "2025-11-25", "capabilities": {},
                    "serverInfo": {"name": "s", "version": "1"},
                }),
                Some("ping" | "server/discover") => serde_json::json!({}),
                _ => return,
            };
            if self.seen.fetch_add(1, Ordering::SeqCst) < self.answers {
                let response = serde_json::json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                self.outbox.push(|out| out.extend_from_slice(format!("{response}\n").as_bytes()));
            }
        }

        fn outbox(&self) -> &OutboundQueue {
            &self.outbox
        }

        fn take_failure_cause(&self, _: &Id<'_>) -> Option<FailureCause> {
            None
        }

        fn close(&self) {}

        fn abort_all(&self) {}
    }

    async fn connect(answers: usize, revision: Revision) -> (Client, Arc<AtomicUsize>) {
        let seen = Arc::new(AtomicUsize::new(0));
        let server = Arc::new(TiredServer(answers, Arc::clone(&seen)));
        let builder = ClientBuilder::to_in_process_server(server).revision(revision);
        let client = builder.timeout(Duration::from_secs(7)).ping_interval(Duration::from_secs(20));
        (client.await.unwrap(), seen)
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_does_not_answer_a_ping_is_gone() {
        // PING-003, PING-004. With a handshake, `initialize` is the first request that is answered.
        for (revision, requests) in [(Revision::V2025_11_25, 4), (Revision::V2026_07_28, 3)] {
            let (client, seen) = connect(requests, revision).await;
            let start = Instant::now();
            for _ in 0..500 {
                if client.is_connected() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            // Three pings are answered; the fourth is not.
            let seconds = start.elapsed().as_secs();
            assert!((87..=88).contains(&seconds), "{revision}: {seconds}, not 4 * 20 + 7");
            assert_eq!(seen.load(Ordering::SeqCst), requests + 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pings_end_with_the_client() {
        let (client, seen) = connect(usize::MAX, Revision::V2026_07_28).await;
        tokio::time::sleep(Duration::from_secs(50)).await;
        client.close().await;
        tokio::time::sleep(Duration::from_secs(500)).await;
        assert_eq!(seen.load(Ordering::SeqCst), 2);
    }
}
