//! Where credentials are kept between logins.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::json;
use tsugite::client::Client;
use tsugite::prelude::Revision;
use tsugite_auth::store::Vault;
use tsugite_auth::{FileStore, MemoryStore, Store};

use super::world::{Changes, Clicks, World};
use super::{call, within};

/// A folder that is removed at the end of a test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tsugite-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn store(&self) -> FileStore {
        FileStore::new(self.0.join("deep/credentials.json"))
    }

    /// The names of the file of [`Folder::store`] and of those beside it.
    pub(crate) fn files(&self) -> Vec<OsString> {
        let files = std::fs::read_dir(self.0.join("deep")).unwrap();
        files.map(|entry| entry.unwrap().file_name()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn replaced_file_leaves_only_its_lock_behind() {
    let world = World::start(Changes::default()).await;
    let folder = Folder::new("replaced");
    let store = folder.store();
    let client = within(world.client(&Clicks::default().login().store(store.clone()))).await.unwrap();
    call(&client).await.unwrap();
    let before = store.read().await.unwrap();
    world.expire_tokens();
    call(&client).await.unwrap();
    let after = store.read().await.unwrap();
    assert_ne!(before.tokens[0].access_token, after.tokens[0].access_token);
    assert_eq!(folder.files().len(), 2, "only the file and its lock: {:?}", folder.files());
}

#[tokio::test]
async fn stored_token_goes_with_the_first_request() {
    let world = World::start(Changes::default()).await;
    let folder = Folder::new("stored");
    for round in 1..=2 {
        let clicks = Clicks::default();
        assert_eq!(world.try_login(&clicks.login().store(folder.store())).await.unwrap(), "in");
        assert_eq!(clicks.pages().len(), 2 - round);
    }
    let sent: Vec<String> =
        world.messages().iter().map(|message| message.header("authorization").to_owned()).collect();
    assert_eq!(sent, ["", "Bearer access-2", "Bearer access-2"]);
}

#[tokio::test]
async fn servers_of_one_resource_share_a_token() {
    let world = World::start(Changes {
        resource: Box::new(|world, document| document["resource"] = json!(world.origin())),
        ..Changes::default()
    })
    .await;
    let (clicks, store) = (Clicks::default(), MemoryStore::new());
    let login = clicks.login().store(store.clone());
    assert_eq!(world.try_login(&login).await.unwrap(), "in");
    let other = format!("{}?other", world.mcp);
    let client = within(Client::connect(other.as_str()).revision(Revision::NEWEST).login(login.clone()))
        .await
        .unwrap();
    assert_eq!(call(&client).await.unwrap(), "in");
    assert_eq!(clicks.pages().len(), 1);
    let tokens = store.read().await.unwrap().tokens;
    assert_eq!((tokens.len(), tokens[0].servers.len()), (1, 2));
    // Both use the token that replaces it.
    world.expire_tokens();
    assert_eq!(call(&client).await.unwrap(), "in");
    assert_eq!(world.try_login(&clicks.login().store(store)).await.unwrap(), "in");
    assert_eq!((world.grants("refresh_token").len(), world.reuses()), (1, 0));
}

#[tokio::test]
async fn error_of_a_malformed_file_shows_nothing_of_it() {
    let folder = Folder::new("malformed");
    let store = FileStore::new(folder.0.join("credentials.json"));
    // Written first, so that others cannot read the file.
    store.lock().await.unwrap().write(&Vault::default()).await.unwrap();
    std::fs::write(store.path(), r#"{"tokens": ["hunter2"]}"#).unwrap();
    let error = store.read().await.unwrap_err().to_string();
    assert!(error.contains("line 1") && !error.contains("hunter2"), "{error}");
}
