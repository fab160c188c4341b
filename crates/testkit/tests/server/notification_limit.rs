//! The limit on the rate of progress and log notifications of one request.

use std::time::Duration;

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite_testkit::raw_client::RawClient;

#[derive(serde::Deserialize, JsonSchema)]
struct Burst {
    count: u32,
}

fn server() -> Server {
    let counts = Tool::new("counts").handler(|Args(burst): Args<Burst>, cx: Context| async move {
        for step in 1..=burst.count {
            cx.progress(step).await;
        }
        "counted"
    });
    let logs = Tool::new("logs").handler(|Args(burst): Args<Burst>, cx: Context| async move {
        for line in 1..=burst.count {
            cx.log(Level::Info, &line).await;
        }
        "logged"
    });
    let slow = Tool::new("slow").handler(|Args(burst): Args<Burst>, cx: Context| async move {
        for step in 1..=burst.count {
            cx.progress(step).await;
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        cx.log(Level::Info, "rested").await;
        "done"
    });
    Server::new("s", "1").tool(counts).tool(logs).tool(slow).max_write_buffer_bytes(64 << 20)
}

/// The notifications of one call: the progress values or the data of each.
async fn notifications_of(server: &Server, revision: Revision, name: &str, count: u32) -> Vec<Value> {
    let mut peer = RawClient::connect(server, revision, json!({})).await;
    let meta = json!({"progressToken": "t", "io.modelcontextprotocol/logLevel": "info"});
    let params = json!({"name": name, "arguments": {"count": count}, "_meta": meta});
    let answer = peer.request("tools/call", params).await;
    assert!(answer["result"]["isError"].is_null(), "{answer}");
    let value = |message: &Value| match &message["params"]["progress"] {
        Value::Null => message["params"]["data"].clone(),
        progress => progress.clone(),
    };
    peer.notifications.iter().map(value).collect()
}

#[tokio::test(start_paused = true)]
async fn burst_of_a_thousand_notifications_passes() {
    for revision in Revisions::ALL.newest_first() {
        for name in ["counts", "logs"] {
            let all: Vec<Value> = notifications_of(&server(), revision, name, 1_000).await;
            assert_eq!(all.len(), 1_000, "{revision} {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn progress_beyond_the_burst_is_coalesced() {
    // PROG-010, F-31
    for revision in Revisions::ALL.newest_first() {
        let all = notifications_of(&server(), revision, "counts", 5_000).await;
        assert_eq!(all.len(), 1_001, "{revision}");
        assert_eq!(all.last().unwrap().as_f64(), Some(5_000.0), "{revision}: the last one is sent");
    }
}

#[tokio::test(start_paused = true)]
async fn logs_beyond_the_burst_are_dropped_and_counted() {
    // LOG-013
    for revision in Revisions::ALL.newest_first() {
        let all = notifications_of(&server(), revision, "logs", 1_234).await;
        assert_eq!(all.len(), 1_001, "{revision}");
        assert_eq!(all[999], 1_000);
        let last = all[1_000].as_str().unwrap();
        assert!(last.contains("234"), "{revision}: {last}");
    }
}

#[tokio::test(start_paused = true)]
async fn coalesced_progress_does_not_wait_for_the_handler() {
    let all = notifications_of(&server(), Revision::V2025_11_25, "slow", 1_500).await;
    assert_eq!(all.len(), 1_002);
    assert_eq!(all[1_000].as_f64(), Some(1_500.0), "sent while the handler rests");
    assert_eq!(all[1_001], "rested");
}
