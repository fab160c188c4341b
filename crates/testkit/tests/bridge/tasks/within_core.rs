//! Tasks between a client and a server that both speak 2025-11-25.

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite::client::{ClientError, ErrorKind};
use tsugite::prelude::*;
use tsugite::server::Principal;

use super::{CORE, server, within};

/// The requests of tasks that a server declares to a client, and its response to `tasks/list`.
async fn offered(server: &Server, who: Option<&str>) -> (Value, Result<Value, ClientError>) {
    let builder = Client::in_process(server).revision(CORE).tasks();
    let client = match who {
        Some(name) => within(builder.principal(Principal::new(name))).await.unwrap(),
        None => within(builder).await.unwrap(),
    };
    let declared = json!(client.server_capabilities().unwrap().tasks);
    let listed = within(client.request_raw("tasks/list", None)).await;
    let listed = listed.map(|result| result.read().unwrap());
    client.close().await;
    (declared, listed)
}

/// A bridge with one login for all of its clients.
fn bridge_with_login() -> Bridge {
    Bridge::to(Client::in_process(&server()).principal(Principal::new("bridge")).revision(CORE))
}

#[tokio::test(start_paused = true)]
async fn shared_bridge_does_not_list_tasks_of_other_clients() {
    let bridge = bridge_with_login();
    for who in ["ann", "ben"] {
        let (declared, listed) = offered(&bridge.server(), Some(who)).await;
        assert!(
            declared["requests"]["tools"]["call"].is_object() && declared["cancel"].is_object(),
            "{declared}"
        );
        assert!(declared["list"].is_null(), "{declared}");
        let refused = listed.unwrap_err();
        assert!(
            matches!(refused.kind(), ErrorKind::ErrorResponse { error, .. } if error.code == -32601),
            "{who}: {refused}"
        );
    }
    bridge.close().await;
}

#[tokio::test(start_paused = true)]
async fn only_client_of_a_bridge_lists_its_tasks() {
    let bridge = bridge_with_login();
    let (declared, listed) = offered(&bridge.server(), None).await;
    assert!(declared["list"].is_object(), "{declared}");
    assert_eq!(listed.unwrap()["tasks"], json!([]));
    bridge.close().await;
}
