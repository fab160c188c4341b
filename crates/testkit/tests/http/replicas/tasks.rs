//! Tasks that one replica runs and others answer for.

use std::sync::atomic::{AtomicUsize, Ordering};

use tsugite::protocol::TaskSupport;

use super::*;

/// Starts a server whose tool `report` asks in a task.
async fn start(cluster: &Cluster) -> Replica {
    let (server, faults) = cluster.server();
    let report = Tool::new("report").task(TaskSupport::Required).handler(|cx: Context| async move {
        let name = cx.ask::<Name>("Who are you?").await?.name;
        Ok::<_, AskError>(format!("a report for {name}"))
    });
    let server = server.tool(report);
    let at = TestServer::start(&server).await;
    Replica { server, at, faults }
}

/// A request of a client that declares tasks.
fn stateless(method: &str, mut params: Value) -> Request {
    let extensions = json!({"io.modelcontextprotocol/tasks": {}});
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"elicitation": {}, "extensions": extensions});
    let task = params["taskId"].as_str().map(str::to_owned);
    let request = Request::stateless(request(1, method, params));
    match task {
        Some(task) => request.header("Mcp-Name", &task),
        None => request,
    }
}

/// Waits until a task has a status.
async fn wait_for_status(replica: &Replica, id: &str, wanted: &str) {
    for _ in 0..10_000 {
        let got = replica.send(stateless("tasks/get", json!({"taskId": id}))).await;
        match got.json()["result"]["status"].as_str() {
            Some(status) if status == wanted => return,
            Some(_) => tokio::task::yield_now().await,
            None => panic!("no status: {got:?}"),
        }
    }
    panic!("the task is not {wanted}");
}

#[tokio::test]
async fn known_state_of_a_task_is_not_sent_again() {
    let cluster = Cluster::with_long_leases();
    let [first, second] = [start(&cluster).await, start(&cluster).await];
    let started = first.send(stateless("tools/call", json!({"name": "report", "arguments": {}}))).await;
    let id = started.json()["result"]["taskId"].as_str().unwrap().to_owned();
    wait_for_status(&first, &id, "input_required").await;
    let wanted = json!({"notifications": {"taskIds": [id], "toolsListChanged": true}});
    let mut stream = second.stream(stateless("subscriptions/listen", wanted)).await;
    let acknowledged = next(&mut stream).await.unwrap();
    assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([id]));
    // Everything may have changed, and nothing has.
    second.faults.miss_messages();
    first.server.notify_resource_updated("test://other");
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(first.send(stateless("tasks/cancel", json!({"taskId": id}))).await.status, 200);
    let changed = next(&mut stream).await.unwrap();
    assert_eq!(changed["method"], "notifications/tasks");
    assert_eq!(changed["params"]["status"], "cancelled");
}

/// A server whose tool `late` asks at once when it runs first, and after a while when it runs again.
async fn start_late(cluster: &Cluster, runs: &Arc<AtomicUsize>) -> Replica {
    let (server, faults) = cluster.server();
    let (runs, stage) = (runs.clone(), cluster.stage.clone());
    let late = Tool::new("late").task(TaskSupport::Required).handler(move |cx: Context| {
        let (runs, stage) = (runs.clone(), stage.clone());
        async move {
            if runs.fetch_add(1, Ordering::SeqCst) > 0 {
                // When it is stored, what the handler asks so far is stored, too.
                cx.status("again").await;
                stage.wait().await;
            }
            let name = cx.ask::<Name>("Who are you?").await?.name;
            Ok::<_, AskError>(format!("a report for {name}"))
        }
    });
    let server = server.tool(late);
    let at = TestServer::start(&server).await;
    Replica { server, at, faults }
}

#[tokio::test]
async fn question_stays_open_until_a_continued_task_asks_again() {
    // TASK-056
    let (cluster, runs) = (Cluster::new(), Arc::new(AtomicUsize::new(0)));
    let [first, second] = [start_late(&cluster, &runs).await, start_late(&cluster, &runs).await];
    let started = first.send(stateless("tools/call", json!({"name": "late", "arguments": {}}))).await;
    let id = started.json()["result"]["taskId"].as_str().unwrap().to_owned();
    wait_for_status(&first, &id, "input_required").await;
    let asked = first.send(stateless("tasks/get", json!({"taskId": id}))).await.json();
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    first.faults.cut_off();
    cluster.stage.started.subscribe().wait_for(|started| *started == 1).await.unwrap();
    // The handler runs again and has not asked yet.
    let answers = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
    let update = stateless("tasks/update", json!({"taskId": id, "inputResponses": answers}));
    assert_eq!(second.send(update).await.status, 200);
    cluster.stage.go.add_permits(1);
    wait_for_status(&second, &id, "completed").await;
    let ended = second.send(stateless("tasks/get", json!({"taskId": id}))).await.json();
    assert_eq!(ended["result"]["result"]["content"][0]["text"], "a report for Ada", "{ended}");
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}
