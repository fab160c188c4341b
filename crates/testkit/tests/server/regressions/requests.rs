//! What ends: answers, panics, cancellations, and ids that are used again.

use super::*;

#[tokio::test(start_paused = true)]
async fn nothing_is_said_about_a_request_that_was_cancelled_or_timed_out() {
    let spawns = Tool::new("spawns").handler(|cx: Context| async move {
        let inner = cx.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            inner.progress(1).message("still here").await;
            inner.log(Level::Error, "late").await;
        });
        std::future::pending::<()>().await;
        "never"
    });
    // Cancelled.
    let server = Server::new("s", "1").tool(spawns.clone());
    let mut peer = plain(&server, rev("2025-06-18")).await;
    let id = peer.send_request("tools/call", json!({"name": "spawns", "_meta": {"progressToken": "t"}}));
    tokio::time::sleep(Duration::from_secs(1)).await;
    peer.notify("notifications/cancelled", json!({"requestId": id}));
    tokio::time::sleep(Duration::from_secs(10)).await;
    peer.request("ping", json!({})).await;
    let after_cancel = std::mem::take(&mut peer.notifications);
    // Timed out by a layer.
    let server = Server::new("s", "1").tool(spawns).layer(Timeout::new(Duration::from_secs(1)));
    let mut peer = plain(&server, rev("2025-06-18")).await;
    let late = peer.request("tools/call", json!({"name": "spawns", "_meta": {"progressToken": "t"}})).await;
    assert!(late.get("error").is_some());
    tokio::time::sleep(Duration::from_secs(10)).await;
    peer.request("ping", json!({})).await;
    assert!(
        after_cancel.is_empty() && peer.notifications.is_empty(),
        "after cancel: {after_cancel:?}; after time limit: {:?}",
        peer.notifications
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_logs_to_a_peer_that_is_gone_ends() {
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let logs = Tool::new("logs").handler(move |cx: Context| {
        let told = told.clone();
        async move {
            tokio::spawn(async move {
                for _ in 0..100 {
                    cx.log(Level::Error, &"x".repeat(10_000)).await;
                }
                told.send(()).unwrap();
            });
            std::future::pending::<()>().await;
            "never"
        }
    });
    let server = Server::new("s", "1").tool(logs);
    let mut peer = plain(&server, rev("2025-06-18")).await;
    peer.send_request("tools/call", json!({"name": "logs"}));
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(peer);
    assert!(tokio::time::timeout(Duration::from_secs(60), heard.recv()).await.is_ok(), "it waits for ever");
}

struct Panics;
impl FromCall for Panics {
    fn from_call(_: &CallParts<'_>) -> Result<Self, InvocationError> {
        panic!("a parameter panics")
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_the_first_await_is_an_answer() {
    let sync_part = Tool::new("sync").handler(|| {
        if true {
            panic!("before the future")
        }
        async { "x" }
    });
    let param = Tool::new("param").handler(|_: Panics| async { "x" });
    let server = Server::new("s", "1").tool(sync_part).tool(param).tool(tool("hidden")).visible(|_, item| {
        if item.name == "boom" {
            panic!("a rule panics")
        }
        true
    });
    let mut escaped = Vec::new();
    for name in ["sync", "param", "boom"] {
        let server = server.clone();
        if name == "boom" {
            server.add(tool("boom")).unwrap();
        }
        let mut wire = memory::connect(&server).unwrap();
        let line = json!({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":name,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}).to_string();
        if catch_unwind(AssertUnwindSafe(|| wire.send(line))).is_err() {
            escaped.push(name);
        }
    }
    assert!(escaped.is_empty(), "these panics reach the transport loop: {escaped:?}");
}

#[tokio::test(start_paused = true)]
async fn odd_settings_do_not_panic() {
    let mut bad = Vec::new();
    let server = Server::new("s", "1").tool(tool("t")).max_concurrent_handlers(usize::MAX);
    if catch_unwind(AssertUnwindSafe(|| memory::connect(&server).unwrap())).is_err() {
        bad.push("concurrency(usize::MAX)");
    }
    let server = Server::new("s", "1").tool(tool("t")).layer(RateLimit::new(1, Duration::MAX));
    let mut peer = plain(&server, STATELESS).await;
    let a = peer.call("t", json!({})).await;
    if a.get("result").is_none() {
        bad.push("RateLimit(1, MAX)");
    }
    let _tiny = Server::new("s", "1").tool(tool("t")).layer(RateLimit::new(1000, Duration::from_nanos(999)));
    let server2 = Server::new("s", "1").tool(tool("t").timeout(Duration::MAX)).shutdown_grace(Duration::MAX);
    let mut peer = plain(&server2, STATELESS).await;
    assert!(peer.call("t", json!({})).await.get("result").is_some());
    assert!(bad.is_empty(), "{bad:?}");
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_counts_a_caller_once_whatever_its_scopes() {
    let server = Server::new("s", "1")
        .tool(tool("t"))
        .layer(RateLimit::new(1, Duration::from_secs(60)).per_principal());
    let mut served = 0;
    for scope in ["a", "b", "c", "d"] {
        let mut peer = RawClient::connect_as(
            &server,
            Principal::new("eve").with_issuer("issuer").with_scopes([scope]),
            STATELESS,
            json!({}),
        )
        .await;
        served += usize::from(peer.call("t", json!({})).await.get("result").is_some());
    }
    assert_eq!(served, 1);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_cancels_and_reuses_an_id_is_served_right() {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let slow = Tool::new("slow").handler(move || {
        let run = count.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::time::sleep(Duration::from_secs(1 + run as u64)).await;
            format!("run {run}")
        }
    });
    let server = Server::new("s", "1").tool(slow);
    let mut peer = plain(&server, rev("2025-03-26")).await;
    let call = json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {"name": "slow"}});
    peer.send(&json!([call, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}, call]));
    let array = peer.next().await;
    assert_eq!(array[0]["result"]["content"][0]["text"], "run 1", "{array}");
}

#[test]
fn an_id_used_again_after_a_cancellation_gets_its_own_answer() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let runs = Arc::new(AtomicUsize::new(0));
        let (inside, mut is_inside) = tokio::sync::mpsc::unbounded_channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (released, second) =
            (Arc::new(std::sync::Mutex::new(released)), Arc::new(tokio::sync::Notify::new()));
        let go_on = second.clone();
        let busy = Tool::new("busy").handler(move || {
            let run = runs.fetch_add(1, Ordering::SeqCst);
            let (inside, released, second) = (inside.clone(), released.clone(), second.clone());
            async move {
                tokio::task::yield_now().await;
                inside.send(run).unwrap();
                match run {
                    // Work that does not yield, and so cannot be aborted.
                    0 => released.lock().unwrap().recv().unwrap(),
                    _ => second.notified().await,
                }
                format!("run {run}")
            }
        });
        let server = Server::new("s", "1").tool(busy);
        let mut peer = plain(&server, rev("2025-06-18")).await;
        let call = json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {"name": "busy"}});
        peer.send(&call);
        assert_eq!(is_inside.recv().await, Some(0));
        peer.notify("notifications/cancelled", json!({"requestId": 77}));
        peer.send(&call);
        assert_eq!(is_inside.recv().await, Some(1));
        release.send(()).unwrap();
        go_on.notify_one();
        let answer = tokio::time::timeout(Duration::from_secs(60), peer.next()).await.expect("no answer");
        assert_eq!(answer["result"]["content"][0]["text"], "run 1", "{answer}");
    });
}

#[tokio::test(start_paused = true)]
async fn initialize_and_ping_do_not_reuse_an_id_under_way() {
    let slow = Tool::new("slow").handler(|| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        "done"
    });
    let server = Server::new("s", "1").tool(slow);
    let mut peer = plain(&server, rev("2025-06-18")).await;
    peer.send(&json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {"name": "slow"}}));
    peer.send(&json!({"jsonrpc": "2.0", "id": 77, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}));
    let first = peer.next().await;
    assert!(first.get("error").is_some(), "{first}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_refused_for_lack_of_room_did_nothing() {
    let effects = Arc::new(AtomicUsize::new(0));
    let count = effects.clone();
    let acts = Tool::new("acts").handler(move || {
        let count = count.clone();
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            "done"
        }
    });
    let server = Server::new("s", "1").tool(acts).max_pending_requests(1);
    let mut peer = plain(&server, STATELESS).await;
    peer.send_request("tools/call", json!({"name": "acts"}));
    let refused = peer.request("tools/call", json!({"name": "acts"})).await;
    assert!(refused.get("error").is_some());
    assert_eq!(effects.load(Ordering::SeqCst), 1, "the refused call has begun");
}

#[test]
fn cancelled_blocking_calls_still_count() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = std::sync::Mutex::new(released);
        let blocks = Tool::new("blocks").blocking_handler(move || {
            begun.send(()).unwrap();
            // Until the test lets go of the other end.
            let _ = released.lock().unwrap().recv();
            "done"
        });
        let server = Server::new("s", "1").tool(blocks).max_concurrent_handlers(2);
        let mut peer = plain(&server, rev("2025-06-18")).await;
        for call in 0..40 {
            let id = peer.send_request("tools/call", json!({"name": "blocks"}));
            match call {
                0 | 1 => begins.recv().await.unwrap(),
                _ => tokio::task::yield_now().await,
            }
            peer.notify("notifications/cancelled", json!({"requestId": id}));
        }
        drop(release);
        // Only the two that had begun ever do; the others were cancelled while they waited for a place.
        assert_eq!(text(&peer.call("blocks", json!({})).await), "done");
        let mut later = 0;
        while begins.try_recv().is_ok() {
            later += 1;
        }
        assert_eq!(later, 1, "more than the last call has begun");
    });
}
