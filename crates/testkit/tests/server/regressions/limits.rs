//! Locks that are not held, and memory that stays bounded.

use super::*;
use tsugite::server::ListKind;

fn ends(work: impl FnOnce() + Send + 'static) -> bool {
    let (done, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        work();
        done.send(()).ok();
    });
    heard.recv_timeout(Duration::from_secs(60)).is_ok()
}

#[test]
fn a_change_inside_a_change_does_not_hang() {
    let server = Server::new("s", "1").tool(tool("a"));
    assert!(
        ends(move || {
            let again = server.clone();
            server.change(|_| again.disable(ListKind::Tool, "a"));
        }),
        "deadlock"
    );
}

#[test]
fn a_rule_may_change_the_server() {
    let server = Server::new("s", "1").tool(tool("a")).tool(tool("b"));
    let inside = server.clone();
    let server = server.visible(move |_, item| {
        if item.name == "a" {
            inside.disable(ListKind::Tool, "b");
        }
        true
    });
    assert!(
        ends(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut peer = plain(&server, STATELESS).await;
                peer.call("a", json!({})).await;
            });
        }),
        "deadlock"
    );
}

#[test]
fn mounting_both_ways_at_once_does_not_hang() {
    assert!(
        ends(|| {
            for _ in 0..300 {
                let (a, b) = (Server::new("a", "1"), Server::new("b", "1"));
                let (a2, b2) = (a.clone(), b.clone());
                let gate = Arc::new(std::sync::Barrier::new(2));
                let gate2 = gate.clone();
                let one = std::thread::spawn(move || {
                    gate.wait();
                    a.mount("x", b)
                });
                gate2.wait();
                let _two = b2.mount("y", a2);
                one.join().unwrap();
            }
        }),
        "deadlock or a very long time"
    );
}

#[tokio::test(start_paused = true)]
async fn answers_wait_for_a_peer_that_does_not_read() {
    let finished = Arc::new(AtomicUsize::new(0));
    let count = finished.clone();
    let heavy = Tool::new("heavy").handler(move || {
        let count = count.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            count.fetch_add(1, Ordering::SeqCst);
            "x".repeat(100_000)
        }
    });
    let server = Server::new("s", "1").tool(heavy).max_concurrent_handlers(16);
    let mut peer = plain(&server, rev("2025-06-18")).await;
    for _ in 0..1000 {
        peer.send_request("tools/call", json!({"name": "heavy"}));
    }
    // The client does not read for a long time.
    tokio::time::sleep(Duration::from_secs(600)).await;
    let done = finished.load(Ordering::SeqCst);
    assert!(done < 100, "{done} answers of 100 kB wait for a peer that does not read; the mark is 256 KiB");
}

#[tokio::test(start_paused = true)]
async fn a_batch_cannot_blow_up() {
    let mut server = Server::new("s", "1");
    for n in 0..1000 {
        server = server.tool(tool(&format!("t{n}")).description("d".repeat(200)));
    }
    let mut wire = memory::connect(&server).unwrap();
    wire.send(json!({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}).to_string());
    wire.next().await;
    wire.send(json!({"jsonrpc":"2.0","method":"notifications/initialized"}).to_string());
    let batch: Vec<Value> =
        (0..1024).map(|id| json!({"jsonrpc":"2.0","id":id,"method":"tools/list"})).collect();
    let line = json!(batch).to_string();
    let sent = line.len();
    wire.send(line);
    let got = wire.next().await.len();
    assert!(got < 16 << 20, "{sent} bytes in, {got} bytes out, all in memory at once");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_as_bounded_as_a_read() {
    #[derive(Deserialize, JsonSchema)]
    struct V {
        name: String,
    }
    let server = Server::new("s", "1")
        .resource(Resource::template("db://{name}").handler(|Args(v): Args<V>| async move { v.name }));
    let mut peer = plain(&server, rev("2025-06-18")).await;
    let uri = format!("db://{}", "x".repeat(1 << 20));
    let read = peer.request("resources/read", json!({"uri": uri})).await;
    assert!(read.get("error").is_some());
    let began = std::time::Instant::now();
    let answer = peer.request("resources/subscribe", json!({"uri": uri})).await;
    assert!(answer.get("error").is_some(), "a URI of 1 MiB is kept ({:?})", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_state_is_bound_to_large_numbers_too() {
    let asks = Tool::new("asks").input_schema(Schema::from(json!({"type": "object"}))).raw_handler(
        |raw: RawJson, cx: Context| async move {
            cx.ask::<Name>("?").await?;
            Ok::<_, HandlerError>(raw.text().to_owned())
        },
    );
    let server = Server::new("s", "1").tool(asks);
    let mut wire = memory::connect(&server).unwrap();
    let call = |id: u64, n: &str, extra: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"asks","arguments":{{"account":{n}}},{extra}"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{"elicitation":{{}}}}}}}}}}"#
        )
    };
    wire.send(call(1, "100000000000000000000001", ""));
    let first: Value = serde_json::from_str(&wire.next().await).unwrap();
    let key = first["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let extra = format!(
        r#""requestState":{},"inputResponses":{{"{key}":{{"action":"accept","content":{{"name":"A"}}}}}},"#,
        first["result"]["requestState"]
    );
    wire.send(call(2, "100000000000000000000002", &extra));
    let second: Value = serde_json::from_str(&wire.next().await).unwrap();
    assert!(second.get("error").is_some(), "{second}");
}

#[tokio::test(start_paused = true)]
async fn layered_streams_end_as_others_do() {
    for layered in [false, true] {
        let mut server = Server::new("s", "1").tool(tool("t"));
        if layered {
            server = server.layer(ConcurrencyLimit::new(8));
        }
        let mut peer = plain(&server, STATELESS).await;
        let one =
            peer.send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        let ack = peer.next().await;
        assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
        peer.notify("notifications/cancelled", json!({"requestId": one}));
        server.add(tool("u")).unwrap();
        let two =
            peer.send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        assert_eq!(peer.next().await["method"], "notifications/subscriptions/acknowledged");
        server.add(tool("v")).unwrap();
        let news = peer.next().await;
        assert_eq!(news["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], two, "{news}");
        peer.close();
        let end = peer.wait_for_response(two).await;
        assert_eq!(end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], two, "{end}");
    }
}

#[test]
fn an_answer_and_its_cancellation_may_meet() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let quick = Tool::new("quick").handler(|| async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            "done"
        });
        for layered in [false, true] {
            let mut server = Server::new("s", "1").tool(quick.clone());
            if layered {
                server = server.layer(ConcurrencyLimit::new(64));
            }
            let mut peer = plain(&server, rev("2025-06-18")).await;
            let mut seen = std::collections::HashMap::<u64, usize>::new();
            let mut kept = Vec::new();
            for n in 0..400 {
                let id = peer.send_request("tools/call", json!({"name": "quick"}));
                if n % 2 == 0 {
                    peer.notify("notifications/cancelled", json!({"requestId": id}));
                } else {
                    kept.push(id);
                }
            }
            let mut left: std::collections::HashSet<u64> = kept.iter().copied().collect();
            while !left.is_empty() {
                let m = tokio::time::timeout(Duration::from_secs(60), peer.next())
                    .await
                    .unwrap_or_else(|_| panic!("{} answers missing", left.len()));
                let id = m["id"].as_u64().unwrap();
                *seen.entry(id).or_default() += 1;
                left.remove(&id);
            }
            assert!(seen.values().all(|n| *n == 1));
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_wrapped_ask_error_keeps_its_meaning() {
    #[derive(Debug)]
    struct Mine(AskError);
    impl std::fmt::Display for Mine {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("mine")
        }
    }
    impl std::error::Error for Mine {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let asks = Tool::new("asks")
        .handler(|cx: Context| async move { cx.ask::<Name>("?").await.map(|n| n.name).map_err(Mine) });
    let server = Server::new("s", "1").tool(asks);
    let mut peer = plain(&server, STATELESS).await;
    let refused = peer.call("asks", json!({})).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
}
