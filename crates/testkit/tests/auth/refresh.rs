//! Tokens that expire are renewed once, whoever notices first.

use std::process::{Command, Stdio};

use serde_json::json;
use tsugite_auth::{FileStore, MemoryStore, Store};

use super::world::{Changes, Clicks, World};
use super::{call, within};

#[tokio::test]
async fn rejected_token_is_refreshed_with_the_resource() {
    let world = World::start(Changes::default()).await;
    let clicks = Clicks::default();
    let client = within(world.client(&clicks.login())).await.unwrap();
    call(&client).await.unwrap();
    world.expire_tokens();
    assert_eq!(call(&client).await.unwrap(), "in");
    let refreshes = world.grants("refresh_token");
    assert_eq!((refreshes.len(), clicks.pages().len()), (1, 1));
    assert_eq!(refreshes[0].form("resource").unwrap(), world.mcp);
    assert_eq!(refreshes[0].form("client_id").unwrap(), "registered");
    // The next one uses the token that replaced the first.
    world.expire_tokens();
    assert_eq!(call(&client).await.unwrap(), "in");
    assert_eq!(world.reuses(), 0);
}

#[tokio::test]
async fn expired_token_is_refreshed_before_it_is_sent() {
    let world = World::start(Changes { expires_in: Some(1), ..Changes::default() }).await;
    let client = within(world.client(&Clicks::default().login())).await.unwrap();
    call(&client).await.unwrap();
    call(&client).await.unwrap();
    // Each request has a fresh token, and none but the first is rejected.
    let rejected =
        world.messages().iter().filter(|message| message.header("authorization").is_empty()).count();
    assert_eq!((rejected, world.messages().len()), (1, 3));
    assert!(!world.grants("refresh_token").is_empty());
    assert_eq!(world.reuses(), 0);
}

#[tokio::test]
async fn client_works_without_refresh_tokens() {
    // ACL-060
    let world = World::start(Changes { refresh: false, ..Changes::default() }).await;
    let clicks = Clicks::default();
    let client = within(world.client(&clicks.login())).await.unwrap();
    call(&client).await.unwrap();
    world.expire_tokens();
    assert_eq!(call(&client).await.unwrap(), "in");
    assert_eq!((clicks.pages().len(), world.grants("refresh_token").len()), (2, 0));
}

#[tokio::test]
async fn revoked_refresh_token_leads_to_a_login() {
    let world = World::start(Changes::default()).await;
    let clicks = Clicks::default();
    let client = within(world.client(&clicks.login())).await.unwrap();
    call(&client).await.unwrap();
    world.expire_tokens();
    world.revoke_refresh_tokens();
    assert_eq!(call(&client).await.unwrap(), "in");
    assert_eq!((clicks.pages().len(), world.grants("refresh_token").len()), (2, 1));
}

#[tokio::test]
async fn tasks_share_one_refresh() {
    let world = World::start(Changes::default()).await;
    let store = MemoryStore::new();
    let login = Clicks::default().login().store(store.clone());
    // Two clients of one login, and one of another login on the same store.
    let clients = [
        within(world.client(&login)).await.unwrap(),
        within(world.client(&login)).await.unwrap(),
        within(world.client(&Clicks::default().login().store(store))).await.unwrap(),
    ];
    for client in &clients {
        call(client).await.unwrap();
    }
    world.expire_tokens();
    let calls: Vec<_> = (0..12).map(|number| tokio::spawn(call(&clients[number % 3]))).collect();
    for call in calls {
        assert_eq!(within(call).await.unwrap().unwrap(), "in");
    }
    assert_eq!((world.grants("refresh_token").len(), world.reuses()), (1, 0));
}

#[tokio::test]
async fn processes_share_one_refresh() {
    let world = World::start(Changes::default()).await;
    world.add_refresh_token("refresh-of-the-file");
    let folder = std::env::temp_dir().join(format!("tsugite-refresh-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("credentials.json");
    let vault = json!({
        "registrations": {world.issuer.clone(): {
            "client_id": "registered", "auth_method": "none", "redirect_uri": "http://127.0.0.1:1/callback",
        }},
        "tokens": [{
            "servers": [world.mcp], "issuer": world.issuer, "resource": world.mcp, "client_id": "registered",
            "token_endpoint": format!("{}/token", world.issuer), "auth_method": "none",
            "access_token": "expired", "refresh_token": "refresh-of-the-file", "expires_at": 1, "login_id": "x",
        }],
    });
    let mut store = FileStore::new(&file).lock().await.unwrap();
    store.write(&serde_json::from_value(vault).unwrap()).await.unwrap();
    drop(store);
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_protected-call"));
        command.arg(&world.mcp).arg(&file).stdout(Stdio::piped()).spawn().unwrap()
    };
    let children = [start(), start(), start(), start()];
    for child in children {
        let output = tokio::task::spawn_blocking(|| child.wait_with_output()).await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "in\n");
    }
    assert_eq!((world.grants("refresh_token").len(), world.reuses()), (1, 0));
    std::fs::remove_dir_all(&folder).unwrap();
}
