//! Both sides of the bridge over HTTP, where questions arrive on the stream of a request.

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite::client::FormResponse;
use tsugite::jsonrpc::RawJson;
use tsugite::prelude::*;
use tsugite_testkit::http::TestServer;

use super::{CORE, EXTENSION, server, within};

async fn connect(server: &TestServer, revision: Revision) -> Client {
    let client = Client::connect(format!("http://{}/mcp", server.address)).revision(revision).tasks();
    within(client.on_elicit_form(async |_| FormResponse::accept(json!({"name": "Ada"})))).await.unwrap()
}

#[tokio::test]
async fn task_is_taken_up_again_across_the_bridge() {
    for (near, far) in [(EXTENSION, CORE), (CORE, EXTENSION)] {
        let upstream = TestServer::start(&server()).await;
        let bridge = Bridge::to(Client::connect(format!("http://{}/mcp", upstream.address)).revision(far));
        let front = TestServer::start(&bridge.server()).await;
        let client = connect(&front, near).await;
        let params = json!({"name": "greets", "arguments": {}, "task": {}});
        let params = RawJson::from_value(&params).unwrap();
        let created = within(client.request_raw("tools/call", Some(params))).await.unwrap();
        let created: Value = created.read().unwrap();
        let id = created["taskId"].as_str().or(created["task"]["taskId"].as_str()).unwrap().to_owned();
        client.close().await;
        let later = connect(&front, near).await;
        let result = within(later.follow_task(id)).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("Hello, Ada!"), "{near} to {far}");
        later.close().await;
        bridge.close().await;
        front.stop().await.unwrap();
        upstream.stop().await.unwrap();
    }
}
