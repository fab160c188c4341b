//! Where credentials are kept between logins.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use serde_json::json;
use tsugite::client::Client;
use tsugite::prelude::Revision;
use tsugite_auth::{FileStore, MemoryStore, Store};

use super::world::{Changes, Clicks, World};
use super::{call, within};

/// A folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tsugite-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn store(&self) -> FileStore {
        FileStore::new(self.0.join("deep/credentials.json"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn file_is_private_and_replaced_as_a_whole() {
    // ACL-038, ACL-057, C-21
    let world = World::start(Changes::default()).await;
    let folder = Folder::new("file");
    let store = folder.store();
    let client = within(world.client(&Clicks::default().login().store(store.clone()))).await.unwrap();
    call(&client).await.unwrap();
    let before = std::fs::metadata(store.path()).unwrap();
    assert_eq!(before.permissions().mode() & 0o777, 0o600);
    assert_eq!(
        std::fs::metadata(store.path().parent().unwrap()).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let old = std::fs::File::open(store.path()).unwrap();
    world.expire_tokens();
    call(&client).await.unwrap();
    let after = std::fs::metadata(store.path()).unwrap();
    assert_ne!(before.ino(), after.ino(), "a reader never sees half of a file");
    assert_eq!(old.metadata().unwrap().len(), before.len());
    assert_eq!(after.permissions().mode() & 0o777, 0o600);
    let files: Vec<_> = std::fs::read_dir(store.path().parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(files.len(), 2, "only the file and its lock: {files:?}");
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
async fn file_that_others_can_read_is_refused() {
    // C-21
    let folder = Folder::new("open");
    let store = FileStore::new(folder.0.join("credentials.json"));
    std::fs::write(store.path(), "{}").unwrap();
    std::fs::set_permissions(store.path(), PermissionsExt::from_mode(0o644)).unwrap();
    let error = store.read().await.unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
    std::fs::set_permissions(store.path(), PermissionsExt::from_mode(0o600)).unwrap();
    assert!(store.read().await.is_ok());
    // A link in its place is not followed.
    let link = FileStore::new(folder.0.join("link.json"));
    std::os::unix::fs::symlink(store.path(), link.path()).unwrap();
    assert!(link.read().await.is_err());
}

#[tokio::test]
async fn error_of_a_malformed_file_shows_nothing_of_it() {
    let folder = Folder::new("malformed");
    let store = FileStore::new(folder.0.join("credentials.json"));
    std::fs::write(store.path(), r#"{"tokens": ["hunter2"]}"#).unwrap();
    std::fs::set_permissions(store.path(), PermissionsExt::from_mode(0o600)).unwrap();
    let error = store.read().await.unwrap_err().to_string();
    assert!(error.contains("line 1") && !error.contains("hunter2"), "{error}");
}
