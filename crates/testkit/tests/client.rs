//! Our client against our server, over every transport and on every revision.

use serde_json::json;
use tsugite::client::Client;
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
