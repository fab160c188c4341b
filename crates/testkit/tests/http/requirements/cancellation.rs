//! Cancellations on another connection than their request, which may arrive in any order.

use std::sync::{Arc, OnceLock};

use serde_json::json;
use tokio::sync::mpsc;
use tsugite::prelude::*;
use tsugite_testkit::http::{Request, TestServer, initialize_request, open_session};

use crate::attacks::guard::Direct;

use super::{End, FeatureServer, HANDSHAKES, call, feature_server, send, within};

fn cancelled(id: u64) -> Request {
    let params = json!({"requestId": id});
    Request::post(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
}

#[tokio::test]
async fn cancellation_before_its_request_takes_effect() {
    for revision in HANDSHAKES {
        let FeatureServer { server, mut ended, .. } = feature_server();
        let serving = TestServer::start(&server).await;
        let session = open_session(&serving, revision, json!({})).await;
        assert_eq!(send(&serving, cancelled(1).session(&session)).await.status, 202);
        let answer = send(&serving, Request::post(&call(1, "waits")).session(&session)).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{revision}");
        assert!(ended.try_recv().is_err(), "{revision}: the handler ran");
        // It cancels one request, and none of another session.
        let other = open_session(&serving, revision, json!({})).await;
        assert_eq!(send(&serving, cancelled(2).session(&other)).await.status, 202);
        for id in [1, 2] {
            let answer = send(&serving, Request::post(&call(id, "echo")).session(&session)).await;
            assert_eq!(answer.json()["id"], id, "{revision}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cancellation_during_the_first_poll_takes_effect() {
    let (tell, mut ended) = mpsc::unbounded_channel();
    let service: Arc<OnceLock<(Direct, String)>> = Arc::default();
    let cancels = {
        let service = service.clone();
        Tool::new("cancels").handler(move || {
            let (service, end) = (service.clone(), End { tell: tell.clone(), done: false });
            async move {
                let mut end = end;
                let (service, session) = service.get().unwrap();
                // It is accepted in the first poll: nothing in it has to wait.
                assert_eq!(service.send(&cancelled(1).session(session)).await.status, 202);
                tokio::task::yield_now().await;
                end.done = true;
                "went on"
            }
        })
    };
    let direct = Direct::new(&Server::new("s", "1").tool(cancels));
    let opened = direct.send(&Request::post(&initialize_request("2025-11-25", json!({})))).await;
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    assert!(service.set((direct, session)).is_ok());
    let (direct, session) = service.get().unwrap();
    let answer = direct.send(&Request::post(&call(1, "cancels")).session(session)).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    assert_eq!(within(ended.recv()).await, Some(false), "the handler continued");
}
