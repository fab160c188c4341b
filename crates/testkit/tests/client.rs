//! Our client against our server, over every transport and on every revision.

use serde_json::json;
use tsugite::client::{Client, Command, Verdict};
use tsugite::core::session::probe::Transport;
use tsugite::prelude::*;
use tsugite_testkit::fixture;
use tsugite_testkit::http::Serving;

async fn tour(client: &Client, revision: Revision) -> tsugite::Result<()> {
    assert_eq!(client.revision(), revision);
    let tools = client.list_tools().await?;
    assert!(tools.iter().any(|tool| tool.name == "add"), "{tools:?}");
    let sum: i64 = client.call("add", json!({"a": 1, "b": 2})).await?;
    assert_eq!(sum, 3);
    Ok(())
}

#[tokio::test]
async fn in_memory_on_every_revision() {
    for revision in Revision::ALL {
        let client = Client::of(&fixture::server()).revision(revision).await.unwrap();
        tour(&client, revision).await.unwrap();
        client.close().await;
    }
    let client = Client::of(&fixture::server()).await.unwrap();
    tour(&client, Revision::NEWEST).await.unwrap();
}

#[tokio::test]
async fn over_http_on_every_revision() {
    let serving = Serving::start(&fixture::server()).await;
    let url = format!("http://{}/mcp", serving.address);
    for revision in Revision::ALL {
        let client = Client::connect(&*url).revision(revision).await.unwrap();
        tour(&client, revision).await.unwrap();
        client.close().await;
    }
    let client = Client::connect(&*url).await.unwrap();
    tour(&client, Revision::NEWEST).await.unwrap();
    serving.stop().await.unwrap();
}

fn fixture_command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fixture"))
}

#[tokio::test]
async fn over_stdio_on_every_revision() {
    for revision in Revision::ALL {
        let client = Client::spawn(fixture_command()).revision(revision).await.unwrap();
        tour(&client, revision).await.unwrap();
        client.close().await;
    }
    let client = Client::spawn(fixture_command()).await.unwrap();
    tour(&client, Revision::NEWEST).await.unwrap();
    assert_eq!(client.verdict(), Some(Verdict::new(Revision::NEWEST, Transport::Stdio)));
}

#[tokio::test]
async fn the_newest_that_both_speak_is_found() {
    for revision in Revision::ALL {
        let server = fixture::server().revisions(Revisions::from_iter([revision]));
        let client = Client::of(&server).await.unwrap();
        tour(&client, revision).await.unwrap();
        let serving = Serving::start(&server).await;
        let client = Client::connect(format!("http://{}/mcp", serving.address)).await.unwrap();
        tour(&client, revision).await.unwrap();
        client.close().await;
        serving.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_verdict_saves_the_probe_and_a_stale_one_does_no_harm() {
    let old = fixture::server().revisions(Revisions::ALL.handshake());
    let verdict = Client::of(&old).await.unwrap().verdict().unwrap();
    assert_eq!(verdict.revision, Revision::NEWEST_HANDSHAKE);
    // It was right.
    let client = Client::of(&old).verdict(verdict).await.unwrap();
    tour(&client, Revision::NEWEST_HANDSHAKE).await.unwrap();
    // The server has learnt something since: what was agreed then still works.
    let client = Client::of(&fixture::server()).verdict(verdict).await.unwrap();
    tour(&client, Revision::NEWEST_HANDSHAKE).await.unwrap();
    // The server was set back.
    for serving in [None, Some(Serving::start(&old).await)] {
        let connecting = match &serving {
            None => Client::of(&old).verdict(Verdict::new(Revision::NEWEST, Transport::Stdio)),
            Some(serving) => Client::connect(format!("http://{}/mcp", serving.address))
                .verdict(Verdict::new(Revision::NEWEST, Transport::StreamableHttp)),
        };
        let client = connecting.await.unwrap();
        assert_eq!(client.revision(), Revision::NEWEST);
        let sum: i64 = client.call("add", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!((sum, client.revision()), (3, Revision::NEWEST_HANDSHAKE));
        assert_eq!(client.verdict().unwrap().revision, Revision::NEWEST_HANDSHAKE);
    }
}

#[tokio::test]
async fn nothing_in_common_is_said_so() {
    let old = fixture::server().revisions(Revisions::ALL.handshake());
    let new = fixture::server().revisions(Revisions::ALL.stateless());
    let error = Client::of(&old).modern_only().await.unwrap_err();
    assert!(error.to_string().contains("2025-11-25"), "{error}");
    let error = Client::of(&new).legacy_only().await.unwrap_err();
    assert!(error.to_string().contains("2026-07-28"), "{error}");
}
