//! A child process that offers its tools otherwise after a restart.

use serde_json::json;
use tsugite_testkit::script::ScriptFile;

use super::script::spawn;
use super::within;

/// A server that ends after its first call. The next process, which does not make $MARK, wants each call as a task.
const REPLACED: &str = r#"
set support required
set task '"taskId":"1","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null,"pollInterval":50'
once $MARK { set support forbidden }
repeat forever {
    read_line
    if_line '"initialize"' {
        result '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}'
    }
    if_line '"ping"' { result '{}' }
    if_line tools/list {
        result '{"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"$support"}}]}'
    }
    if_line tools/call {
        if_line '"task":' {
            result '{"task":{$task,"status":"working"}}'
        } else {
            answer $id 'as a call'
            exit 0
        }
    }
    if_line tasks/get { result '{$task,"status":"completed"}' }
    if_line tasks/result { answer $id 'as a task' }
}
"#;

#[tokio::test]
async fn tools_of_a_restarted_child_are_read_again() {
    let mark = ScriptFile::new();
    let client = within(spawn(&REPLACED.replace("$MARK", &mark.to_string())).tasks()).await.unwrap();
    assert_eq!(within(client.call::<String>("t", json!({}))).await.unwrap(), "as a call");
    // It is sent to the new process, or again to it.
    within(client.ping()).await.unwrap();
    assert_eq!(within(client.call::<String>("t", json!({}))).await.unwrap(), "as a task");
}
