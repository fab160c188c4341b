//! Questions in spawned tasks, `once`, and the end of rounds.

use super::*;

#[tokio::test(start_paused = true)]
async fn once_in_a_spawned_task_does_not_hang_the_round() {
    let spawning = Tool::new("spawning").handler(|cx: Context| async move {
        let inner = cx.clone();
        let _task = tokio::spawn(async move {
            inner
                .once("k", async {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Ok::<_, HandlerError>(1)
                })
                .await
        });
        tokio::task::yield_now().await;
        cx.ask::<Name>("?").await.map(|n| n.name)
    });
    let server = Server::new("s", "1").tool(spawning);
    let mut peer = RawClient::connect(&server, STATELESS, elicits()).await.on_request(host);
    let asked = tokio::time::timeout(Duration::from_secs(60), peer.call("spawning", json!({}))).await;
    assert_eq!(text(&asked.expect("the round never ends")), "Ada");
}

#[tokio::test(start_paused = true)]
async fn an_answer_used_in_a_spawned_task_counts_at_once() {
    let spawning = Tool::new("spawning").handler(|cx: Context| async move {
        let inner = cx.clone();
        let task = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            inner.ask::<Name>("a").key("a").await.map(|n| n.name)
        });
        // `b` is only asked once `a` was seen in an earlier round.
        cx.once("wait", async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, HandlerError>(1)
        })
        .await?;
        let b = cx.ask::<Name>("b").key("b").await?;
        let a = task.await.unwrap()?;
        Ok::<_, HandlerError>(format!("{a} {}", b.name))
    });
    let server = Server::new("s", "1").tool(spawning);
    let mut peer = RawClient::connect(&server, STATELESS, elicits()).await;
    let first = peer.request_once("tools/call", json!({"name": "spawning", "arguments": {}})).await;
    let state = first["result"]["requestState"].clone();
    // The client answers only `a`.
    let began = tokio::time::Instant::now();
    let again = peer
        .request_once(
            "tools/call",
            json!({"name": "spawning", "arguments": {}, "requestState": state,
        "inputResponses": {"a": {"action": "accept", "content": {"name": "A"}}}}),
        )
        .await;
    assert_eq!(again["result"]["resultType"], "input_required", "{again}");
    assert!(began.elapsed() < Duration::from_secs(1), "took {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_nothing_can_wake_diverges_at_once() {
    let runs = Arc::new(AtomicUsize::new(0));
    let fickle = Tool::new("fickle").handler(move |cx: Context| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        async move { cx.ask::<Name>(format!("question {run}")).await.map(|name| name.name) }
    });
    let server = Server::new("s", "1").tool(fickle);
    let mut peer = RawClient::connect(&server, STATELESS, elicits()).await.on_request(host);
    let began = tokio::time::Instant::now();
    let refused = peer.call("fickle", json!({})).await;
    assert_eq!(refused["error"]["code"], -32603);
    assert!(began.elapsed() < Duration::from_secs(1), "took {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn tool_timeout_does_not_delay_a_divergence_error() {
    let runs = Arc::new(AtomicUsize::new(0));
    let fickle = Tool::new("fickle").timeout(Duration::from_secs(3600)).handler(move |cx: Context| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        async move { cx.ask::<Name>(format!("question {run}")).await.map(|name| name.name) }
    });
    let server = Server::new("s", "1").tool(fickle);
    let mut peer = RawClient::connect(&server, STATELESS, elicits()).await.on_request(host);
    let began = tokio::time::Instant::now();
    let refused = peer.call("fickle", json!({})).await;
    assert_eq!(refused["error"]["code"], -32603);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn diverging_handler_that_waits_on_a_timer_is_waited_for() {
    for timeout in [None, Some(Duration::from_secs(3600))] {
        let runs = Arc::new(AtomicUsize::new(0));
        let mut late = Tool::new("late");
        if let Some(timeout) = timeout {
            late = late.timeout(timeout);
        }
        let late = late.handler(move |cx: Context| {
            let run = runs.fetch_add(1, Ordering::Relaxed);
            async move {
                if run == 0 {
                    return cx.ask::<Name>("a").key("a").await.map(|name| name.name);
                }
                let a = async {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    cx.ask::<Name>("a").key("a").await
                };
                let (a, b) = tokio::join!(a, cx.ask::<Name>("b").key("b"));
                Ok(format!("{} {}", a?.name, b?.name))
            }
        });
        let (again, took) = second_round(late, "late").await;
        assert_eq!(again["result"]["resultType"], "input_required", "{again}");
        assert_eq!(took, Duration::from_secs(5), "{timeout:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn call_waits_until_spawned_tasks_drop_the_context() {
    for asks in [true, false] {
        let runs = Arc::new(AtomicUsize::new(0));
        let spawning = Tool::new("spawning").handler(move |cx: Context| {
            let asks = asks || runs.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                let inner = cx.clone();
                drop(tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    if asks {
                        drop(inner.ask::<Name>("a").key("a").await);
                    }
                }));
                // The first round asks both questions.
                cx.once("wait", async {
                    tokio::time::sleep(Duration::from_secs(20)).await;
                    Ok::<_, HandlerError>(1)
                })
                .await?;
                Ok::<_, HandlerError>(cx.ask::<Name>("b").key("b").await?.name)
            }
        });
        let (again, took) = second_round(spawning, "spawning").await;
        match asks {
            true => assert_eq!(again["result"]["resultType"], "input_required", "{again}"),
            false => assert_eq!(again["error"]["code"], -32603, "{again}"),
        }
        assert_eq!(took, Duration::from_secs(5));
    }
}

/// Calls a tool, answers its question `a` alone, and returns the result of the second round with the time it took.
async fn second_round(tool: Tool, name: &str) -> (Value, Duration) {
    let server = Server::new("s", "1").tool(tool);
    let mut peer = RawClient::connect(&server, STATELESS, elicits()).await;
    let first = peer.request_once("tools/call", json!({"name": name, "arguments": {}})).await;
    let state = first["result"]["requestState"].clone();
    let answers = json!({"a": {"action": "accept", "content": {"name": "A"}}});
    let began = tokio::time::Instant::now();
    let params = json!({"name": name, "arguments": {}, "requestState": state, "inputResponses": answers});
    (peer.request_once("tools/call", params).await, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn question_of_a_task_that_outlives_its_handler_ends() {
    for late in [false, true] {
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let leaves = Tool::new("leaves").handler(move |cx: Context| {
            let told = told.clone();
            async move {
                tokio::spawn(async move {
                    if late {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                    let answer = cx.ask::<Name>("?").await.map(|n| n.name);
                    told.send(format!("{answer:?}")).unwrap();
                });
                if late {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                "done"
            }
        });
        let server = Server::new("s", "1").tool(leaves);
        let mut peer = RawClient::connect(&server, STATELESS, elicits()).await.on_request(host);
        assert_eq!(text(&peer.call("leaves", json!({})).await), "done");
        let said = tokio::time::timeout(Duration::from_secs(60), heard.recv()).await;
        assert!(said.is_ok(), "late {late}: the task waits for ever");
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_state_age_still_lets_handlers_ask() {
    let asks =
        Tool::new("asks").handler(|cx: Context| async move { cx.ask::<Name>("?").await.map(|n| n.name) });
    let server = Server::new("s", "1").tool(asks).state_ttl(Duration::MAX);
    let mut peer = RawClient::connect(&server, STATELESS, elicits()).await.on_request(host);
    let answer = peer.call("asks", json!({})).await;
    assert!(answer.get("result").is_some(), "{answer}");
}

#[test]
fn questions_are_asked_by_many_threads_at_once() {
    use futures_util::stream::{FuturesUnordered, StreamExt};
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let mixed = Tool::new("mixed").handler(|cx: Context| async move {
            let mut set = tokio::task::JoinSet::new();
            for n in 0..3 {
                let inner = cx.clone();
                set.spawn(async move {
                    for _ in 0..n {
                        tokio::task::yield_now().await;
                    }
                    inner.ask::<Name>("?").key(format!("task {n}")).await.map(|x| x.name)
                });
            }
            let mut many = FuturesUnordered::new();
            for n in 0..3 {
                let cx = cx.clone();
                many.push(async move {
                    if n == 1 {
                        tokio::task::spawn_blocking(|| ()).await.unwrap();
                    }
                    cx.ask::<Name>("?").key(format!("many {n}")).await.map(|x| x.name)
                });
            }
            let once = cx.once("k", async {
                tokio::task::spawn_blocking(std::thread::yield_now).await.unwrap();
                Ok::<_, HandlerError>(1)
            });
            let all = async {
                let mut k = 0;
                while let Some(x) = many.next().await {
                    x?;
                    k += 1;
                }
                Ok::<_, AskError>(k)
            };
            let tasks = async {
                let mut k = 0;
                while let Some(x) = set.join_next().await {
                    x.unwrap()?;
                    k += 1;
                }
                Ok::<_, AskError>(k)
            };
            let (once, all, tasks) = tokio::join!(once, all, tasks);
            Ok::<_, HandlerError>(format!("{} {} {}", once?, all?, tasks?))
        });
        for layered in [false, true] {
            let mut server = Server::new("s", "1").tool(mixed.clone());
            if layered {
                server = server.layer(ConcurrencyLimit::new(8));
            }
            let mut peer = RawClient::connect(&server, STATELESS, elicits()).await.on_request(host);
            for n in 0..100 {
                let done = tokio::time::timeout(Duration::from_secs(60), peer.call("mixed", json!({}))).await;
                let done = done.unwrap_or_else(|_| panic!("call {n} hangs"));
                assert_eq!(done["result"]["content"][0]["text"], "1 3 3", "{done}");
            }
        }
    });
}

#[tokio::test(start_paused = true)]
async fn answer_is_not_reused_for_a_changed_question() {
    let runs = Arc::new(AtomicUsize::new(0));
    let deletes = Tool::new("deletes").handler(move |cx: Context| {
        let file = if runs.fetch_add(1, Ordering::Relaxed) == 0 { "a.txt" } else { "everything" };
        async move {
            let sure = cx.ask::<Name>(format!("Delete {file}?")).key("sure").await?.name;
            Ok::<_, HandlerError>(format!("{sure} {file}"))
        }
    });
    let server = Server::new("s", "1").tool(deletes);
    let mut peer = RawClient::connect(&server, STATELESS, elicits()).await;
    let question = |asked: &Value| asked["result"]["inputRequests"]["sure"]["params"]["message"].clone();
    let answer = |asked: &Value, name: &str| {
        json!({"name": "deletes", "arguments": {}, "requestState": asked["result"]["requestState"],
            "inputResponses": {"sure": {"action": "accept", "content": {"name": name}}}})
    };
    let first = peer.request_once("tools/call", json!({"name": "deletes", "arguments": {}})).await;
    assert_eq!(question(&first), "Delete a.txt?", "{first}");
    let again = peer.request_once("tools/call", answer(&first, "yes")).await;
    assert_eq!(question(&again), "Delete everything?", "{again}");
    let done = peer.request_once("tools/call", answer(&again, "never")).await;
    assert_eq!(text(&done), "never everything");
}

#[tokio::test(start_paused = true)]
async fn answer_to_a_changed_question_can_be_reused() {
    let runs = Arc::new(AtomicUsize::new(0));
    let asks = Tool::new("asks").handler(move |cx: Context| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        async move {
            let question = cx.ask::<Name>(format!("Who? ({run})")).key("who").reuse_answer(true);
            question.await.map(|name| name.name)
        }
    });
    let server = Server::new("s", "1").tool(asks);
    let mut peer = RawClient::connect(&server, STATELESS, elicits()).await.on_request(host);
    assert_eq!(text(&peer.call("asks", json!({})).await), "Ada");
}
