//! The scopes of a stream hold at every replica.

use super::*;
use crate::protected::{Issuer, open_session, with_token};

#[tokio::test]
async fn stream_of_a_call_done_at_once_needs_its_scopes() {
    let cluster = Cluster::with_long_leases();
    let brief = Tool::new("brief").scope("read").handler(|cx: Context| async move {
        cx.progress(1).await;
        "secret"
    });
    let start = async || {
        let server = cluster.server().0.tool(brief.clone()).authorize(Issuer::unnamed());
        TestServer::start(&server).await
    };
    let (first, second) = (start().await, start().await);
    let (able, unable) = ("sub=ann;scope=read", "sub=ann");
    let session = open_session(&first, "2025-11-25", able).await;
    let mut stream = first.connect().await;
    let asked = Request::post(&call(1, "brief")).session(&session);
    assert_eq!(within(stream.send(with_token(asked, able))).await.status, 200);
    let after = next_event(&mut stream).await.id.unwrap();
    let resume = || Request::get_stream(&session).header("Last-Event-ID", &after);
    for replica in [&second, &first] {
        let refused = within(replica.send(with_token(resume(), unable))).await;
        assert!(refused.status == 403 && !refused.body.contains("secret"), "{refused:?}");
    }
    let mut resumed = second.connect().await;
    assert_eq!(within(resumed.send(with_token(resume(), able))).await.status, 200);
    assert_eq!(text(&next(&mut resumed).await.unwrap()), "secret");
}

#[tokio::test]
async fn resumed_stream_needs_the_scopes_of_its_tool_anywhere() {
    let cluster = Cluster::with_long_leases();
    let stage = cluster.stage.clone();
    let report = Tool::new("report").scope("read").handler(move |cx: Context| {
        let stage = stage.clone();
        async move {
            cx.progress(1).await;
            stage.wait().await;
            "secret"
        }
    });
    let start = async || {
        let server = cluster.server().0.tool(report.clone()).authorize(Issuer::unnamed());
        TestServer::start(&server).await
    };
    let (first, second) = (start().await, start().await);
    let (able, unable) = ("sub=ann;scope=read", "sub=ann");
    let session = open_session(&first, "2025-11-25", able).await;
    let mut stream = first.connect().await;
    let asked = Request::post(&call(1, "report")).session(&session);
    assert_eq!(within(stream.send(with_token(asked, able))).await.status, 200);
    let after = next_event(&mut stream).await.id.unwrap();
    drop(stream);
    cluster.let_go(1);
    let resume = || Request::get_stream(&session).header("Last-Event-ID", &after);
    for replica in [&second, &first] {
        let refused = within(replica.send(with_token(resume(), unable))).await;
        assert!(refused.status == 403 && !refused.body.contains("secret"), "{refused:?}");
        let mut resumed = replica.connect().await;
        assert_eq!(within(resumed.send(with_token(resume(), able))).await.status, 200);
        assert_eq!(text(&next(&mut resumed).await.unwrap()), "secret");
    }
}
