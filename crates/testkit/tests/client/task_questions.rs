//! Questions of a task that are closed while the client puts them to the user. The clock of the tests is paused.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::client::{ErrorKind, FormResponse};
use tsugite::revision::Revision;

use super::task_failures::{done, serve, task};

/// Longer than a task of these tests lasts.
const LIMIT: Duration = Duration::from_secs(600);

/// A task with these open questions.
fn asking(keys: &[&str]) -> Value {
    let form = |key: &str| {
        let schema = json!({"type": "object", "properties": {}});
        let params = json!({"mode": "form", "message": key, "requestedSchema": schema});
        (key.to_owned(), json!({"method": "elicitation/create", "params": params}))
    };
    let questions: serde_json::Map<_, _> = keys.iter().map(|key| form(key)).collect();
    task("input_required", json!({"inputRequests": questions}))
}

/// Follows a task whose states are `states`, the last of them forever. The user answers all questions but those named
/// `open`. Returns the outcome, the answers that were sent, and how many prompts were left.
async fn follow(states: Vec<Value>) -> (Result<String, ErrorKind>, Vec<Value>, usize) {
    let (client, server) = serve(Revision::V2026_07_28, move |request, earlier| {
        Some(Ok(match request["method"].as_str().unwrap() {
            "tasks/get" => states.get(earlier).or(states.last()).unwrap().clone(),
            _ => json!({"resultType": "complete"}),
        }))
    });
    let prompts = Arc::new(());
    let held = Arc::clone(&prompts);
    let messages = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&messages);
    let client = client.on_elicit_form(move |form| {
        let prompt = Arc::clone(&held);
        asked.lock().unwrap().push(form.message.clone());
        async move {
            if form.message.starts_with("open") {
                pending::<()>().await;
            }
            drop(prompt);
            FormResponse::accept(json!({}))
        }
    });
    let client = client.await.unwrap();
    let idle = Arc::strong_count(&prompts);
    let outcome = client.follow_task("t1").timeout(LIMIT).await;
    let left = Arc::strong_count(&prompts) - idle;
    client.close().await;
    drop(client);
    let requests = server.await.unwrap();
    let updates = requests.into_iter().filter(|request| request["method"] == "tasks/update");
    let answers = updates.map(|mut request| request["params"]["inputResponses"].take()).collect();
    let asked = messages.lock().unwrap().clone();
    assert!(
        asked.iter().all(|message| asked.iter().filter(|other| *other == message).count() == 1),
        "{asked:?}"
    );
    let text = |result: tsugite::protocol::tools::CallResult| {
        result.content[0].as_text().unwrap_or_default().to_owned()
    };
    (outcome.map(text).map_err(|error| error.into_kind()), answers, left)
}

#[tokio::test(start_paused = true)]
async fn prompt_ends_when_the_task_is_cancelled() {
    let asked = asking(&["open"]);
    let states = vec![asked.clone(), asked, task("cancelled", json!({}))];
    let (outcome, answers, left) = follow(states).await;
    assert!(matches!(outcome, Err(ErrorKind::TaskCancelled)), "{outcome:?}");
    assert_eq!((answers.len(), left), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn prompt_ends_when_another_client_answers() {
    let asked = asking(&["open"]);
    let states = vec![asked.clone(), asked, task("working", json!({})), task("completed", done())];
    let (outcome, answers, left) = follow(states).await;
    assert_eq!((outcome.ok().as_deref(), answers.len(), left), (Some("done"), 0, 0));
}

#[tokio::test(start_paused = true)]
async fn closed_question_leaves_the_others() {
    let states = vec![
        asking(&["open 1", "two"]),
        asking(&["open 1", "two"]),
        asking(&["two"]),
        task("completed", done()),
    ];
    let (outcome, answers, left) = follow(states).await;
    assert_eq!((outcome.ok().as_deref(), left), (Some("done"), 0));
    assert_eq!(answers, [json!({"two": {"action": "accept", "content": {}}})]);
}

#[tokio::test(start_paused = true)]
async fn open_question_survives_polls() {
    let states = vec![asking(&["open"]); 3];
    let (outcome, answers, left) = follow(states).await;
    assert!(matches!(outcome, Err(ErrorKind::TimedOut { .. })), "{outcome:?}");
    assert_eq!((answers.len(), left), (0, 0));
}
