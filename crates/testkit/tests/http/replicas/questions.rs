//! Questions to the client: an answer reaches the question it belongs to, whichever replica receives it.

use serde_json::json;
use tsugite::store::Store;
use tsugite_testkit::http::open_session;

use super::*;

#[tokio::test]
async fn answers_reach_only_their_own_question() {
    let cluster = Cluster::with_long_leases();
    let replicas = cluster.start_three().await;
    let session = open_session(&replicas[0].at, "2025-11-25", json!({"elicitation": {}})).await;
    let mut asked = Vec::new();
    for (id, replica) in replicas.iter().enumerate() {
        let mut stream = replica.call_stream(&session, &call(id + 1, "greet")).await;
        let question = next(&mut stream).await.unwrap();
        asked.push((stream, question));
    }
    let mut ids: Vec<_> = asked.iter().map(|(_, question)| question["id"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3, "{ids:?}");
    // Each answer arrives at the replica after the one that asked.
    for (at, (stream, question)) in asked.iter_mut().enumerate() {
        let name = format!("name {at}");
        let other = &replicas[(at + 1) % 3];
        assert_eq!(other.post(&session, &answer(question, &name)).await.status, 202);
        assert_eq!(text(&next(stream).await.unwrap()), format!("Hello, {name}!"));
    }
}

#[tokio::test]
async fn answer_from_another_session_is_dropped() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {}})).await;
    let stranger = open_session(&second.at, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.call_stream(&session, &call(1, "greet")).await;
    let question = next(&mut stream).await.unwrap();
    for replica in [&first, &second] {
        assert_eq!(replica.post(&stranger, &answer(&question, "Mallory")).await.status, 202);
    }
    assert_eq!(second.post(&session, &answer(&question, "Ann")).await.status, 202);
    assert_eq!(text(&next(&mut stream).await.unwrap()), "Hello, Ann!");
}

#[tokio::test]
async fn answer_that_cannot_be_stored_is_not_accepted() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.call_stream(&session, &call(1, "greet")).await;
    let question = next(&mut stream).await.unwrap();
    second.faults.refuse(|operation| operation.sends());
    assert_unavailable(&second.post(&session, &answer(&question, "Ann")).await);
    second.faults.connect();
    assert_eq!(second.post(&session, &answer(&question, "Ann")).await.status, 202);
    assert_eq!(text(&next(&mut stream).await.unwrap()), "Hello, Ann!");
}

#[tokio::test]
async fn answer_is_accepted_when_its_call_is_stored() {
    let cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.call_stream(&session, &call(1, "greet")).await;
    let question = next(&mut stream).await.unwrap();
    first.faults.refuse(|operation| matches!(operation, store::Operation::Commit(_)));
    assert_unavailable(&first.post(&session, &answer(&question, "Ann")).await);
    first.faults.connect();
    assert_eq!(text(&next(&mut stream).await.unwrap()), "Hello, Ann!");
}

#[tokio::test]
async fn answer_that_its_call_has_not_taken_is_stored() {
    let cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.call_stream(&session, &call(1, "greet")).await;
    let question = next(&mut stream).await.unwrap();
    first.faults.refuse(|operation| operation.writes_field("request/"));
    assert_eq!(first.post(&session, &answer(&question, "Ann")).await.status, 202);
    let name = &question["id"].as_str().unwrap()[..16];
    assert_eq!(Store::inbox(&*cluster.store, name).await.unwrap().len(), 1);
}

impl Cluster {
    /// Waits until another replica has claimed the calls of this one.
    pub(super) async fn wait_for_claim_of(&self, replica: &str) {
        let key = format!("waiting/{replica}");
        while !self.store.list(&key, "", 1).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn invented_question_id_stores_no_message() {
    // S-17
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {}})).await;
    let batches = open_session(&first.at, "2025-03-26", json!({})).await;
    let mut stream = first.call_stream(&session, &call(1, "greet")).await;
    let mut forged = next(&mut stream).await.unwrap()["id"].as_str().unwrap().to_owned();
    // The name of a replica that does not exist, with the proof of one that does.
    forged.replace_range(..16, "0123456789abcdef");
    let commits = second.faults.seen().commits;
    for id in [forged.as_str(), "0123456789abcdef-1", "0123456789abcdef0123456789abcdef-1"] {
        let answer = answer(&json!({"id": id}), "Mallory");
        assert_eq!(second.post(&session, &answer).await.status, 202);
        assert_eq!(second.post(&batches, &json!([answer])).await.status, 202);
    }
    assert_eq!(second.faults.seen().commits, commits, "nothing is stored");
    assert!(Store::inbox(&*cluster.store, "0123456789abcdef").await.unwrap().is_empty());
}

#[tokio::test]
async fn answer_for_a_call_that_moved_is_passed_on() {
    let cluster = Cluster::new();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {}})).await;
    for replica in [&second, &third] {
        assert_eq!(replica.post(&session, &list(1)).await.status, 200);
    }
    second.faults.hide_inboxes();
    let mut stream = first.call_stream(&session, &call(2, "greet")).await;
    let asked = next_event(&mut stream).await;
    let (question, last) = (asked.json(), asked.id.unwrap());
    // The third replica reads that the first one has the call. Then the first one seems dead, the second one claims its
    // call, and the first one is back before the third one sends it the answer.
    let (gate, reads) = (third.faults.stall_reads(), third.faults.seen().reads);
    let claimed = async {
        within(third.faults.wait_for(|seen| seen.reads > reads)).await;
        first.faults.cut_off();
        cluster.wait_for_claim_of(&question["id"].as_str().unwrap()[..16]).await;
        first.faults.connect();
        gate.add_permits(1_000);
    };
    let answer = answer(&question, "Ann");
    let (answered, ()) = tokio::join!(third.post(&session, &answer), within(claimed));
    assert_eq!(answered.status, 202);
    let mut resumed = second.resume(&session, &last).await;
    assert_eq!(text(&next(&mut resumed).await.unwrap()), "Hello, Ann!");
}

#[tokio::test]
async fn replica_takes_back_a_call_that_it_lost() {
    let cluster = Cluster::new();
    let (first, second) = (cluster.start().await, cluster.start().await);
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {}})).await;
    assert_eq!(second.post(&session, &list(1)).await.status, 200);
    let mut stream = first.call_stream(&session, &call(2, "greet")).await;
    let asked = next_event(&mut stream).await;
    let (question, last) = (asked.json(), asked.id.unwrap());
    let name = &question["id"].as_str().unwrap()[..16];
    first.faults.cut_off();
    within(cluster.wait_for_claim_of(name)).await;
    // The handler still waits at the first replica, which is back when the second one seems dead.
    let replicas = cluster.store.list("replicas", "", 10).await.unwrap();
    let other = replicas.into_iter().map(|(other, _)| other).find(|other| other != name).unwrap();
    second.faults.cut_off();
    first.faults.connect();
    within(cluster.wait_for_claim_of(&other)).await;
    assert_eq!(first.post(&session, &answer(&question, "Ann")).await.status, 202);
    let mut resumed = first.resume(&session, &last).await;
    assert_eq!(text(&next(&mut resumed).await.unwrap()), "Hello, Ann!");
}

#[tokio::test]
async fn call_that_was_stored_without_confirmation_ends_once() {
    let cluster = Cluster::new();
    let (first, second) = (cluster.start().await, cluster.start().await);
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {}})).await;
    assert_eq!(second.post(&session, &list(1)).await.status, 200);
    first.faults.lose_confirmation(|operation| operation.writes_field("session/"));
    let mut stream = first.call_stream(&session, &call(2, "greet")).await;
    let asked = next_event(&mut stream).await;
    let (question, last) = (asked.json(), asked.id.unwrap());
    // The call is stored, which the first replica does not know. The second one claims it.
    first.faults.cut_off();
    within(cluster.wait_for_claim_of(&question["id"].as_str().unwrap()[..16])).await;
    first.faults.connect();
    assert_eq!(first.post(&session, &answer(&question, "Ann")).await.status, 202);
    // The stream of the first replica ends without a response; the second one has it.
    assert_eq!(next(&mut stream).await, None);
    let mut resumed = second.resume(&session, &last).await;
    assert_eq!(text(&next(&mut resumed).await.unwrap()), "Hello, Ann!");
    assert_eq!(next(&mut resumed).await, None);
}

#[tokio::test]
async fn call_that_was_not_stored_goes_on_with_its_answer() {
    let cluster = Cluster::with_long_leases();
    let (first, second) = (cluster.start().await, cluster.start().await);
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {}})).await;
    first.faults.refuse(|operation| operation.writes_field("session/"));
    let mut stream = first.call_stream(&session, &call(2, "greet")).await;
    let question = next(&mut stream).await.unwrap();
    first.faults.connect();
    assert_eq!(second.post(&session, &answer(&question, "Ann")).await.status, 202);
    assert_eq!(text(&next(&mut stream).await.unwrap()), "Hello, Ann!");
}

#[tokio::test]
async fn call_that_was_claimed_without_confirmation_is_continued() {
    let cluster = Cluster::new();
    let (first, second) = (cluster.start().await, cluster.start().await);
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {}})).await;
    assert_eq!(second.post(&session, &list(1)).await.status, 200);
    let mut stream = first.call_stream(&session, &call(2, "greet")).await;
    let asked = next_event(&mut stream).await;
    let (question, last) = (asked.json(), asked.id.unwrap());
    second.faults.lose_confirmation(|operation| operation.writes_field("session/"));
    first.faults.cut_off();
    within(cluster.wait_for_claim_of(&question["id"].as_str().unwrap()[..16])).await;
    assert_eq!(second.post(&session, &answer(&question, "Ann")).await.status, 202);
    let mut resumed = second.resume(&session, &last).await;
    assert_eq!(text(&next(&mut resumed).await.unwrap()), "Hello, Ann!");
}
