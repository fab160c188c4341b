//! Tasks of callers that are not authenticated are counted by network address.

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::TaskSupport;
use tsugite_testkit::http::{Connection, Request, TestServer};

use super::request;

const GREEDY: [u8; 4] = [127, 0, 0, 1];
const OTHER: [u8; 4] = [127, 0, 0, 2];

async fn call(source: [u8; 4], serving: &TestServer, tool: &str) -> Value {
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    let call = request(1, "tools/call", json!({"name": tool, "arguments": {}, "_meta": meta}));
    let mut connection = Connection::connect_from(source, serving.address).await;
    connection.send_and_read(Request::stateless(call)).await.json()
}

#[tokio::test]
async fn address_leaves_tasks_to_others() {
    // F-34
    let server = || {
        let waits = Tool::new("waits").handler(std::future::pending::<()>);
        let tools = [waits, Tool::new("done").handler(|| async { "done" })];
        tools.into_iter().fold(Server::new("s", "1"), |s, tool| s.tool(tool.task(TaskSupport::Required)))
    };
    for (server, tool, limit) in [
        (server().max_running_tasks(4), "waits", "max_running_tasks_per_caller"),
        (server().max_tasks_per_caller(2), "done", "max_tasks_per_caller"),
    ] {
        let serving = TestServer::start(&server).await;
        let mut last = Value::Null;
        for _ in 0..3 {
            last = call(GREEDY, &serving, tool).await;
        }
        assert_eq!(last["error"]["code"], -32803, "{last}");
        assert!(last["error"]["message"].as_str().unwrap().contains(limit), "{last}");
        let created = call(OTHER, &serving, tool).await;
        assert_eq!(created["result"]["resultType"], "task", "{created}");
    }
}
