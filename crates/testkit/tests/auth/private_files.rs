//! Files for their owner alone, on Unix: their modes, and links in their place.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use tsugite_auth::authorization_server::UserFile;
use tsugite_auth::{FileStore, Store};

use super::stores::Folder;
use super::world::{Changes, Clicks, World};
use super::{call, within};

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
    assert_eq!(folder.files().len(), 2, "only the file and its lock: {:?}", folder.files());
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
async fn only_its_owner_can_read_a_file_of_users() {
    let folder = std::env::temp_dir().join(format!("tsugite-private-users-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let path = folder.join("auth.json");
    assert!(UserFile::new(&path).set_password("ann", "annann-long".into()).await.unwrap());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::remove_dir_all(&folder).unwrap();
}
