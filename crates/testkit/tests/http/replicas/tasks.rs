//! Tasks that one replica runs and others answer for.

use std::sync::atomic::{AtomicUsize, Ordering};

use tsugite::protocol::TaskSupport;
use tsugite::store::{Store, Write};
use tsugite_core::revision::Revision;
use tsugite_testkit::log::Warnings;
use tsugite_testkit::raw_client::RawClient;

use super::*;

/// Starts a server whose tool `report` asks in a task.
async fn start(cluster: &Cluster) -> Replica {
    start_with(cluster, report()).await
}

pub(super) async fn start_with(cluster: &Cluster, tool: Tool) -> Replica {
    let (server, faults) = cluster.server();
    let server = server.tool(tool);
    let at = TestServer::start(&server).await;
    Replica { server, at, faults }
}

fn report() -> Tool {
    Tool::new("report").task(TaskSupport::Required).handler(|cx: Context| async move {
        let name = cx.ask::<Name>("Who are you?").await?.name;
        Ok::<_, AskError>(format!("a report for {name}"))
    })
}

/// Calls a tool whose calls are tasks, and returns the id of the task.
pub(super) async fn start_task(replica: &Replica, tool: &str) -> String {
    let started = replica.send(stateless("tools/call", json!({"name": tool, "arguments": {}}))).await;
    started.json()["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{started:?}")).to_owned()
}

/// Answers the question of a task.
async fn answer_question(replica: &Replica, id: &str) {
    let asked = replica.send(stateless("tasks/get", json!({"taskId": id}))).await.json();
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answers = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
    let update = stateless("tasks/update", json!({"taskId": id, "inputResponses": answers}));
    assert_eq!(replica.send(update).await.status, 200);
}

/// A request of a client that declares tasks.
pub(super) fn stateless(method: &str, mut params: Value) -> Request {
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
pub(super) async fn wait_for_status(replica: &Replica, id: &str, wanted: &str) {
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

/// Waits until the processes that run tasks, as the store says, are as wanted. `replica` changes them.
async fn wait_for_runners(cluster: &Cluster, replica: &Replica, wanted: impl Fn(&[String]) -> bool) {
    loop {
        let seen = replica.faults.seen().commits;
        if wanted(&runners(cluster).await) {
            return;
        }
        within(replica.faults.wait_for(|now| now.commits > seen)).await;
    }
}

/// The processes that run tasks, as the store says.
async fn runners(cluster: &Cluster) -> Vec<String> {
    let mut runners = Vec::new();
    for (runner, _) in cluster.store.list("tasks/runners", "", 10).await.unwrap() {
        if !cluster.store.list(&format!("tasks/at/{runner}"), "", 10).await.unwrap().is_empty() {
            runners.push(runner);
        }
    }
    runners
}

/// A tool whose calls are tasks that may run again at any time. Counts its runs.
fn counted(runs: &Arc<AtomicUsize>) -> Tool {
    let runs = runs.clone();
    Tool::new("counted").task(TaskSupport::Required).restartable(true).handler(move || {
        let runs = runs.clone();
        async move {
            runs.fetch_add(1, Ordering::SeqCst);
            "done"
        }
    })
}

#[tokio::test]
async fn task_without_a_confirmed_creation_never_runs() {
    for is_killed in [false, true] {
        let (cluster, runs) = (Cluster::new(), Arc::new(AtomicUsize::new(0)));
        let first = start_with(&cluster, counted(&runs)).await;
        first.faults.lose_confirmation(|operation| operation.writes_field("call"));
        let call = stateless("tools/call", json!({"name": "counted", "arguments": {}}));
        assert_eq!(first.send(call).await.json()["error"]["code"], -32803);
        if is_killed {
            first.faults.cut_off();
            let second = start_with(&cluster, counted(&runs)).await;
            wait_for_runners(&cluster, &second, <[String]>::is_empty).await;
        } else {
            wait_for_runners(&cluster, &first, <[String]>::is_empty).await;
        }
        assert_eq!(runs.load(Ordering::SeqCst), 0, "killed: {is_killed}");
    }
}

#[tokio::test]
async fn take_over_without_a_confirmation_goes_on() {
    let cluster = Cluster::new();
    let [first, second] = [start(&cluster).await, start(&cluster).await];
    let id = start_task(&first, "report").await;
    wait_for_status(&first, &id, "input_required").await;
    second.faults.lose_confirmation(|operation| operation.writes_field("state"));
    let before = runners(&cluster).await;
    first.faults.cut_off();
    wait_for_runners(&cluster, &second, |runners| runners != before).await;
    answer_question(&second, &id).await;
    within(wait_for_status(&second, &id, "completed")).await;
}

#[tokio::test]
async fn effects_after_an_answer_do_not_happen_again() {
    let (cluster, effects) = (Cluster::new(), Arc::new(AtomicUsize::new(0)));
    let acts = || {
        let (effects, stage) = (effects.clone(), cluster.stage.clone());
        Tool::new("acts").task(TaskSupport::Required).handler(move |cx: Context| {
            let (effects, stage) = (effects.clone(), stage.clone());
            async move {
                let name = cx.ask::<Name>("Who are you?").await?.name;
                effects.fetch_add(1, Ordering::SeqCst);
                stage.wait().await;
                Ok::<_, AskError>(name)
            }
        })
    };
    let [first, other] = [start_with(&cluster, acts()).await, start(&cluster).await];
    let id = start_task(&first, "acts").await;
    wait_for_status(&first, &id, "input_required").await;
    first.faults.cut_off();
    answer_question(&other, &id).await;
    let second = start_with(&cluster, acts()).await;
    cluster.started(1).await;
    second.faults.cut_off();
    let third = start_with(&cluster, acts()).await;
    within(wait_for_status(&third, &id, "failed")).await;
    assert_eq!(effects.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn replica_that_cannot_run_a_task_leaves_it() {
    for has_other_keys in [false, true] {
        let cluster = Cluster::new();
        let other = match has_other_keys {
            false => start_with(&cluster, counted(&Arc::default())).await,
            true => {
                let (server, faults) = cluster.server();
                let server = server.tool(report()).seal_keys(SealKey::new([8; 32]));
                let at = TestServer::start(&server).await;
                Replica { server, at, faults }
            }
        };
        let first = start(&cluster).await;
        let id = start_task(&first, "report").await;
        wait_for_status(&first, &id, "input_required").await;
        first.faults.cut_off();
        // It has looked at the tasks of the ended process by then.
        let seen = other.faults.seen().task_lists;
        within(other.faults.wait_for(|now| now.task_lists > seen + 8)).await;
        let second = start(&cluster).await;
        answer_question(&second, &id).await;
        within(wait_for_status(&second, &id, "completed")).await;
    }
}

#[tokio::test]
async fn task_that_lacks_a_scope_elsewhere_says_so() {
    let cluster = Cluster::new();
    let first = start(&cluster).await;
    let id = start_task(&first, "report").await;
    wait_for_status(&first, &id, "input_required").await;
    first.faults.cut_off();
    let second = start_with(&cluster, report().scope("admin")).await;
    within(wait_for_status(&second, &id, "failed")).await;
    let failed = second.send(stateless("tasks/get", json!({"taskId": id}))).await.json();
    let reason = failed["result"]["error"]["message"].as_str().unwrap_or_default();
    assert!(reason.contains("requires a scope"), "{failed}");
}

#[tokio::test]
async fn tasks_of_a_server_that_is_mounted_late_go_on() {
    let cluster = Cluster::new();
    let reports = || Server::new("reports", "1").tool(report());
    let (server, faults) = cluster.server();
    let server = server.mount("n", reports());
    let first = Replica { at: TestServer::start(&server).await, server, faults };
    let second = cluster.start().await;
    let _mounted = second.server.clone().mount("n", reports());
    let id = start_task(&first, "n_report").await;
    wait_for_status(&first, &id, "input_required").await;
    first.faults.cut_off();
    answer_question(&second, &id).await;
    within(wait_for_status(&second, &id, "completed")).await;
}

fn declared() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

#[tokio::test(start_paused = true)]
async fn tasks_that_can_move_need_no_store_to_stop() {
    let cluster = Cluster::with_long_leases();
    let (server, faults) = cluster.server();
    let stage = cluster.stage.clone();
    let moves = Tool::new("moves").task(TaskSupport::Required).restartable(true).handler(move || {
        let stage = stage.clone();
        async move { stage.wait().await }
    });
    let stays = Tool::new("stays").task(TaskSupport::Required).handler(std::future::pending::<()>);
    let server = server.tool(moves).tool(stays);
    let service = server.http_service().unwrap();
    let mut client = RawClient::connect(&server, Revision::V2026_07_28, declared()).await;
    for tool in ["stays", "stays", "stays", "stays", "moves", "stays", "stays", "stays"] {
        let started = client.call(tool, json!({})).await;
        assert_eq!(started["result"]["resultType"], "task", "{started}");
    }
    cluster.started(1).await;
    faults.cut_off();
    service.close();
    service.drain().await;
    cluster.ended(1).await;
}

#[tokio::test]
async fn lost_record_of_a_running_task_is_logged() {
    let logged = Warnings::capture();
    let cluster = Cluster::with_long_leases();
    let (server, _faults) = cluster.server();
    let stage = cluster.stage.clone();
    let works = Tool::new("works").task(TaskSupport::Required).handler(move |cx: Context| {
        let stage = stage.clone();
        async move {
            stage.wait().await;
            cx.status("half done").await;
            std::future::pending::<()>().await;
        }
    });
    let server = server.tool(works);
    let mut client = RawClient::connect(&server, Revision::V2026_07_28, declared()).await;
    client.call("works", json!({})).await;
    cluster.started(1).await;
    for runner in runners(&cluster).await {
        for (name, _) in cluster.store.list(&format!("tasks/at/{runner}"), "", 10).await.unwrap() {
            let lost = Write::Delete { key: &format!("task/{name}") };
            cluster.store.commit(&[lost]).await.unwrap().unwrap();
        }
    }
    cluster.let_go(1);
    for _ in 0..10_000 {
        if logged.take().iter().any(|event| event.contains("lost the record of a task")) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("nothing was logged");
}

#[tokio::test]
async fn expired_tasks_leave_the_list_in_one_commit() {
    let cluster = Cluster::with_long_leases();
    let (server, faults) = cluster.server();
    let server = server.tool(counted(&Arc::default())).task_ttl(Duration::from_millis(1));
    let ann = Principal::new("ann");
    let mut client = RawClient::connect_as(&server, ann, Revision::V2025_11_25, json!({})).await;
    let params = json!({"name": "counted", "arguments": {}, "task": {}});
    for _ in 0..5 {
        let created = client.request_once("tools/call", params.clone()).await;
        let id = created["result"]["task"]["taskId"].clone();
        while client.request_once("tasks/get", json!({"taskId": id})).await["error"].is_null() {}
    }
    let before = faults.seen();
    let listed = client.request_once("tasks/list", json!({})).await;
    assert_eq!(listed["result"]["tasks"], json!([]), "{listed}");
    let after = faults.seen();
    assert_eq!((after.reads - before.reads, after.commits - before.commits), (0, 1));
}
