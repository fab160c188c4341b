//! A child process that offers its tools otherwise after a restart. It answers what arrives, so it is a shell script.

use serde_json::json;
use tsugite::client::Client;
use tsugite_testkit::script::ScriptFile;

use super::shell::sh;
use super::{HANDSHAKE, within};

/// A server that ends after its first call, and then wants each call as a task.
const REPLACED: &str = r#"
id() { id=${line#*'"id":'}; id=${id%%[,\}]*}; }
result() { send_line '{"jsonrpc":"2.0","id":'$id',"result":'"$1"'}'; }
task() { echo '{"taskId":"1","status":"'$1'","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null,"pollInterval":50}'; }
content() { result '{"content":[{"type":"text","text":"'"$1"'"}]}'; }
support=forbidden
[ -e $MARK ] && support=required
while read_line; do
    id
    case "$line" in
        *'"initialize"'*) result '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}';;
        *'"ping"'*) result '{}';;
        *tools/list*) result '{"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"'$support'"}}]}';;
        *tools/call*'"task":'*) result '{"task":'"$(task working)"'}';;
        *tools/call*) touch $MARK; content "as a call"; exit;;
        *tasks/get*) result "$(task completed)";;
        *tasks/result*) content "as a task";;
    esac
done
"#;

#[tokio::test]
async fn tools_of_a_restarted_child_are_read_again() {
    let mark = ScriptFile::new();
    let server = sh(&REPLACED.replace("$MARK", &mark.to_string()));
    let client = within(Client::spawn(server).revision(HANDSHAKE).tasks()).await.unwrap();
    assert_eq!(within(client.call::<String>("t", json!({}))).await.unwrap(), "as a call");
    // It is sent to the new process, or again to it.
    within(client.ping()).await.unwrap();
    assert_eq!(within(client.call::<String>("t", json!({}))).await.unwrap(), "as a task");
}
