//! Timeouts of calls, with a paused clock. The server is in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};
use tsugite::client::{Client, ErrorKind, FormResponse, TimeoutKind};
use tsugite::prelude::*;
use tsugite::protocol::OrderedMap;
use tsugite::protocol::form::FormSchema;
use tsugite::server::FieldValue;

use super::{HANDSHAKE, kind};

const SECOND: Duration = Duration::from_secs(1);
const REVISIONS: [Revision; 2] = [HANDSHAKE, Revision::NEWEST];

/// A server with slow tools.
fn server() -> Server {
    let silent = Tool::new("silent").handler(async || std::future::pending::<String>().await);
    let rises = Tool::new("rises").handler(|cx: Context| async move {
        for step in 0.. {
            cx.progress(step).await;
            sleep(20 * SECOND).await;
        }
        "never"
    });
    let done = Tool::new("done").handler(|cx: Context| async move {
        for step in 0..5 {
            cx.progress(step).await;
            sleep(20 * SECOND).await;
        }
        "done"
    });
    Server::new("slow", "1").tool(silent).tool(rises).tool(done)
}

#[tokio::test(start_paused = true)]
async fn call_times_out_after_thirty_seconds_of_silence() {
    // JRPC-038
    for revision in REVISIONS {
        let client = Client::in_process(&server()).revision(revision).await.unwrap();
        let start = Instant::now();
        match kind(client.call::<String>("silent", json!({})).await) {
            ErrorKind::TimedOut { limit, kind: TimeoutKind::Idle } => assert_eq!(limit, 30 * SECOND),
            other => panic!("{other:?}"),
        }
        assert_eq!(start.elapsed().as_secs(), 30);
        // Unless the call or the client sets another timeout.
        let start = Instant::now();
        assert!(
            client.call::<String>("silent", json!({})).timeout(7 * SECOND).await.unwrap_err().is_timeout()
        );
        assert_eq!(start.elapsed().as_secs(), 7);
        let client = Client::in_process(&server()).revision(revision).timeout(3 * SECOND).await.unwrap();
        let start = Instant::now();
        assert!(client.call::<String>("silent", json!({})).await.unwrap_err().is_timeout());
        assert_eq!(start.elapsed().as_secs(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn progress_extends_the_timeout_up_to_ten_minutes() {
    // LIFE-025, LIFE-026
    for revision in REVISIONS {
        let client = Client::in_process(&server()).revision(revision).await.unwrap();
        let start = Instant::now();
        assert_eq!(client.call::<String>("done", json!({})).await.unwrap(), "done");
        assert_eq!(start.elapsed().as_secs(), 100);
        let start = Instant::now();
        match kind(client.call::<String>("rises", json!({})).await) {
            ErrorKind::TimedOut { limit, kind: TimeoutKind::Total } => assert_eq!(limit, 600 * SECOND),
            other => panic!("{other:?}"),
        }
        assert_eq!(start.elapsed().as_secs(), 600);
        let start = Instant::now();
        let short = client.call::<String>("rises", json!({})).total_timeout(50 * SECOND).await;
        assert!(matches!(kind(short), ErrorKind::TimedOut { kind: TimeoutKind::Total, .. }));
        assert_eq!(start.elapsed().as_secs(), 50);
    }
}

#[tokio::test(start_paused = true)]
async fn timeout_pauses_during_elicitation() {
    for revision in REVISIONS {
        let asks = Tool::new("asks").handler(|cx: Context| async move {
            cx.ask::<Nothing>("Sure?").await?;
            // From here on the server takes its time.
            sleep(25 * SECOND).await;
            Ok::<_, HandlerError>("asked")
        });
        let asked = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&asked);
        let client = Client::in_process(&Server::new("asks", "1").tool(asks))
            .revision(revision)
            .on_elicit_form(move |_| {
                let seen = Arc::clone(&seen);
                async move {
                    sleep(50 * SECOND).await;
                    seen.store(true, Ordering::SeqCst);
                    FormResponse::accept_defaults()
                }
            });
        let client = client.await.unwrap();
        let start = Instant::now();
        assert_eq!(client.call::<String>("asks", json!({})).await.unwrap(), "asked");
        assert!(asked.load(Ordering::SeqCst));
        assert_eq!(start.elapsed().as_secs(), 75);
    }
}

/// A form without fields.
struct Nothing;

impl Form for Nothing {
    fn schema() -> FormSchema {
        FormSchema::new()
    }

    fn read(_: &OrderedMap<FieldValue>) -> Result<Self, String> {
        Ok(Self)
    }
}
