//! A client and a server over byte streams that the application opens.

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex, split};
use tokio::net::{TcpListener, TcpStream};
use tsugite::client::{ChangeFilter, ErrorKind};
use tsugite::prelude::*;

fn server() -> Server {
    let slow = Tool::new("slow").handler(|| async {
        tokio::task::yield_now().await;
        "done"
    });
    Server::new("s", "1").tool(slow)
}

async fn uses(client: Client, revision: Revision) {
    assert_eq!(client.revision(), revision);
    for _ in 0..3 {
        assert_eq!(client.call::<String>("slow", json!({})).await.unwrap(), "done", "{revision}");
    }
    client.close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn calls_work_over_unix_sockets() {
    for revision in Revision::ALL {
        let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
        let (reader, writer) = theirs.into_split();
        let serving = tokio::spawn(server().serve_on(reader, writer));
        let (reader, writer) = ours.into_split();
        uses(Client::over(reader, writer).revision(revision).await.unwrap(), revision).await;
        serving.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn client_and_server_meet_over_any_streams() {
    for revision in Revisions::ALL.newest_first() {
        let (ours, theirs) = duplex(64);
        let (reader, writer) = split(theirs);
        let serving = tokio::spawn(server().serve_on(reader, writer));
        let (reader, writer) = split(ours);
        uses(Client::over(reader, writer).revision(revision).await.unwrap(), revision).await;
        // The server ends with its client.
        serving.await.unwrap().unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (reader, writer) = listener.accept().await.unwrap().0.into_split();
    let serving = tokio::spawn(server().serve_on(reader, writer));
    let (reader, writer) = ours.into_split();
    uses(Client::over(reader, writer).await.unwrap(), Revision::NEWEST).await;
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn streams_connect_once() {
    let (ours, theirs) = duplex(1 << 16);
    let (reader, writer) = split(theirs);
    let serving = tokio::spawn(server().serve_on(reader, writer));
    let (reader, writer) = split(ours);
    let builder = Client::over(reader, writer);
    let client = builder.clone().await.unwrap();
    let again = builder.await.unwrap_err();
    assert!(matches!(again.kind(), ErrorKind::Config(_)), "{again:?}");
    serving.abort();
    // The connection is lost, and cannot be opened again.
    assert!(client.call::<String>("slow", json!({})).await.is_err());
    let lost = client.call::<String>("slow", json!({})).await.unwrap_err();
    assert!(lost.to_string().contains("connects once"), "{lost}");
}

#[tokio::test]
async fn last_line_is_answered_and_the_stream_ends() {
    let (mut ours, theirs) = duplex(1 << 16);
    let (reader, writer) = split(theirs);
    let serving = tokio::spawn(server().serve_on(reader, writer));
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "slow", "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }}});
    ours.write_all(format!("{{oops\n{request}").as_bytes()).await.unwrap();
    ours.shutdown().await.unwrap();
    let mut lines = BufReader::new(ours).lines();
    assert!(lines.next_line().await.unwrap().unwrap().contains("-32700"));
    assert!(lines.next_line().await.unwrap().unwrap().contains("done"));
    assert_eq!(lines.next_line().await.unwrap(), None);
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn listeners_hear_that_the_streams_have_ended() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let (ours, theirs) = duplex(1 << 16);
        let (reader, writer) = split(theirs);
        let serving = tokio::spawn(server().serve_on(reader, writer));
        let (reader, writer) = split(ours);
        let client = Client::over(reader, writer).revision(revision).await.unwrap();
        let mut changes = client.listen(ChangeFilter::new().tools()).await.unwrap();
        serving.abort();
        let told = async {
            loop {
                // On 2026-07-28 the listen stream is tried again first.
                match changes.next().await {
                    Some(Ok(_)) => {}
                    other => return other,
                }
            }
        };
        let told = tokio::time::timeout(std::time::Duration::from_secs(60), told).await.unwrap();
        assert!(told.unwrap().is_err(), "{revision}");
        assert!(changes.next().await.is_none());
    }
}
