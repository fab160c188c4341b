//! Questions that a handler asks in other words when another replica runs it again: an answer belongs to the question that
//! the user saw.

use std::sync::atomic::{AtomicUsize, Ordering};

use tsugite::protocol::TaskSupport;
use tsugite_testkit::http::open_session;

use super::tasks::{start_task, start_with, stateless, wait_for_status};
use super::*;

/// A price that changes while a question about it is open.
#[derive(Clone)]
struct Price(Arc<AtomicUsize>);

impl Price {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(10)))
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn set(&self, price: usize) {
        self.0.store(price, Ordering::SeqCst);
    }
}

/// Asks with a key and the price of the moment, and waits for the test after the answer.
fn pay(cluster: &Cluster, price: &Price, reuses_answer: bool) -> Tool {
    let (stage, price) = (cluster.stage.clone(), price.clone());
    Tool::new("pay").task(TaskSupport::Optional).restartable(true).handler(move |cx: Context| {
        let (stage, price) = (stage.clone(), price.get());
        async move {
            cx.start_task().await?;
            let question = cx.ask::<Name>(format!("Pay {price} euros?"));
            let name = question.key("confirm").reuse_answer(reuses_answer).await?.name;
            stage.wait().await;
            Ok::<_, HandlerError>(format!("{name} pays {price}"))
        }
    })
}

/// The questions of a task: key and message.
async fn questions(replica: &Replica, id: &str) -> Vec<(String, String)> {
    let got = replica.send(stateless("tasks/get", json!({"taskId": id}))).await.json();
    let asked = got["result"]["inputRequests"].as_object().cloned().unwrap_or_default();
    let message = |question: &Value| question["params"]["message"].as_str().unwrap().to_owned();
    asked.iter().map(|(key, question)| (key.clone(), message(question))).collect()
}

/// Waits until a task asks about this price, and nothing else. Returns the key of the question.
async fn wait_for_question(replica: &Replica, id: &str, price: usize) -> String {
    for _ in 0..10_000 {
        let asked = questions(replica, id).await;
        if let [(key, message)] = &asked[..]
            && *message == format!("Pay {price} euros?")
        {
            return key.clone();
        }
        tokio::task::yield_now().await;
    }
    panic!("not asked: {:?}", questions(replica, id).await);
}

async fn answer_task(replica: &Replica, id: &str, key: &str, name: &str) {
    let answers = json!({key: {"action": "accept", "content": {"name": name}}});
    let update = stateless("tasks/update", json!({"taskId": id, "inputResponses": answers}));
    assert_eq!(replica.send(update).await.status, 200);
}

async fn result(replica: &Replica, id: &str) -> String {
    wait_for_status(replica, id, "completed").await;
    let ended = replica.send(stateless("tasks/get", json!({"taskId": id}))).await.json();
    text(&ended["result"]).to_owned()
}

#[tokio::test]
async fn continued_task_replaces_an_open_question_with_other_words() {
    let (cluster, price) = (Cluster::new(), Price::new());
    let tool = || pay(&cluster, &price, false);
    let [first, second] = [start_with(&cluster, tool()).await, start_with(&cluster, tool()).await];
    let id = start_task(&first, "pay").await;
    assert_eq!(wait_for_question(&first, &id, 10).await, "confirm");
    price.set(1_000);
    first.faults.cut_off();
    let key = wait_for_question(&second, &id, 1_000).await;
    // TASK-056: a client skips keys that it has answered.
    assert_ne!(key, "confirm");
    answer_task(&second, &id, "confirm", "Eve").await;
    answer_task(&second, &id, &key, "Ada").await;
    cluster.let_go(1);
    assert_eq!(result(&second, &id).await, "Ada pays 1000");
}

#[tokio::test]
async fn continued_task_uses_no_answer_to_other_words() {
    let (cluster, price) = (Cluster::new(), Price::new());
    let tool = || pay(&cluster, &price, false);
    let [first, second] = [start_with(&cluster, tool()).await, start_with(&cluster, tool()).await];
    let id = start_task(&first, "pay").await;
    let key = wait_for_question(&first, &id, 10).await;
    answer_task(&first, &id, &key, "Ada").await;
    cluster.started(1).await;
    price.set(1_000);
    first.faults.cut_off();
    let key = wait_for_question(&second, &id, 1_000).await;
    assert_ne!(key, "confirm");
    // The words of the first question again: its answer counts.
    price.set(10);
    let third = start_with(&cluster, tool()).await;
    second.faults.cut_off();
    cluster.started(2).await;
    cluster.let_go(2);
    assert_eq!(result(&third, &id).await, "Ada pays 10");
}

#[tokio::test]
async fn continued_task_may_use_an_answer_to_other_words() {
    let (cluster, price) = (Cluster::new(), Price::new());
    let tool = || pay(&cluster, &price, true);
    let [first, second] = [start_with(&cluster, tool()).await, start_with(&cluster, tool()).await];
    let id = start_task(&first, "pay").await;
    let key = wait_for_question(&first, &id, 10).await;
    answer_task(&first, &id, &key, "Ada").await;
    cluster.started(1).await;
    price.set(1_000);
    first.faults.cut_off();
    cluster.started(2).await;
    cluster.let_go(2);
    assert_eq!(result(&second, &id).await, "Ada pays 1000");
}

#[tokio::test]
async fn continued_call_cancels_an_open_question_with_other_words() {
    let (cluster, price) = (Cluster::new(), Price::new());
    let tool = || {
        let price = price.clone();
        Tool::new("buy").handler(move |cx: Context| {
            let price = price.get();
            async move {
                let question = cx.ask::<Name>(format!("Pay {price} euros?")).key("confirm");
                let (buyer, other) = tokio::join!(question, cx.ask::<Name>("Who else?"));
                Ok::<_, HandlerError>(format!("{} and {} pay {price}", buyer?.name, other?.name))
            }
        })
    };
    let [first, second] = [start_with(&cluster, tool()).await, start_with(&cluster, tool()).await];
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.call_stream(&session, &call(1, "buy")).await;
    let replaced = next_event(&mut stream).await.json();
    assert_eq!(replaced["params"]["message"], "Pay 10 euros?");
    let event = next_event(&mut stream).await;
    let other = event.json();
    price.set(1_000);
    first.faults.cut_off();
    drop(stream);
    let mut resumed = second.resume(&session, event.id.as_ref().unwrap()).await;
    assert_eq!(second.post(&session, &answer(&other, "Bob")).await.status, 202);
    let cancelled = next(&mut resumed).await.unwrap();
    assert_eq!(cancelled["method"], "notifications/cancelled", "{cancelled}");
    assert_eq!(cancelled["params"]["requestId"], replaced["id"]);
    let question = next(&mut resumed).await.unwrap();
    assert_eq!(question["params"]["message"], "Pay 1000 euros?");
    assert_eq!(second.post(&session, &answer(&question, "Ada")).await.status, 202);
    assert_eq!(text(&next(&mut resumed).await.unwrap()), "Ada and Bob pay 1000");
}

#[tokio::test]
async fn question_that_changes_twice_is_cancelled_twice() {
    let (cluster, price) = (Cluster::new(), Price::new());
    let tool = || {
        let price = price.clone();
        Tool::new("buy").handler(move |cx: Context| {
            let price = price.get();
            async move {
                let question = cx.ask::<Name>(format!("Pay {price} euros?")).key("confirm");
                let others = (cx.ask::<Name>("Who else?"), cx.ask::<Name>("Who at last?"));
                let (buyer, other, last) = tokio::join!(question, others.0, others.1);
                Ok::<_, HandlerError>(format!("{}, {}, {} pay {price}", buyer?.name, other?.name, last?.name))
            }
        })
    };
    let first = start_with(&cluster, tool()).await;
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.call_stream(&session, &call(1, "buy")).await;
    let mut replaced = next_event(&mut stream).await.json();
    let mut event = next_event(&mut stream).await;
    let mut open = vec![event.json()];
    event = next_event(&mut stream).await;
    open.push(event.json());
    let mut dead = first;
    for (amount, other) in [(1_000, &open[0]), (2_000, &open[1])] {
        let replica = start_with(&cluster, tool()).await;
        price.set(amount);
        dead.faults.cut_off();
        stream = replica.resume(&session, event.id.as_ref().unwrap()).await;
        assert_eq!(replica.post(&session, &answer(other, "Bob")).await.status, 202);
        let cancelled = next_event(&mut stream).await.json();
        assert_eq!(cancelled["params"]["requestId"], replaced["id"], "{cancelled}");
        event = next_event(&mut stream).await;
        replaced = event.json();
        assert_eq!(replaced["params"]["message"], format!("Pay {amount} euros?"));
        dead = replica;
    }
    assert_eq!(dead.post(&session, &answer(&replaced, "Ada")).await.status, 202);
    assert_eq!(text(&next(&mut stream).await.unwrap()), "Ada, Bob, Bob pay 2000");
}

#[tokio::test]
async fn continued_call_uses_no_answer_to_other_words() {
    let (cluster, price) = (Cluster::new(), Price::new());
    let tool = || {
        let price = price.clone();
        Tool::new("buy").handler(move |cx: Context| {
            let price = price.get();
            async move {
                let name = cx.ask::<Name>(format!("Pay {price} euros?")).key("confirm").await?.name;
                cx.progress(1).await;
                Ok::<_, HandlerError>(format!("{name} pays {price}"))
            }
        })
    };
    let [first, second] = [start_with(&cluster, tool()).await, start_with(&cluster, tool()).await];
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.call_stream(&session, &call(1, "buy")).await;
    let event = next_event(&mut stream).await;
    let question: Value = event.json();
    assert_eq!(question["params"]["message"], "Pay 10 euros?");
    price.set(1_000);
    first.faults.cut_off();
    drop(stream);
    let mut resumed = second.resume(&session, event.id.as_ref().unwrap()).await;
    assert_eq!(second.post(&session, &answer(&question, "Eve")).await.status, 202);
    let question = next(&mut resumed).await.unwrap();
    assert_eq!(question["params"]["message"], "Pay 1000 euros?", "{question}");
    assert_eq!(second.post(&session, &answer(&question, "Ada")).await.status, 202);
    assert_eq!(next(&mut resumed).await.unwrap()["params"]["progress"], 1);
    assert_eq!(text(&next(&mut resumed).await.unwrap()), "Ada pays 1000");
}
