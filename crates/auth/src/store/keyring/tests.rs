//! The store with the keychain of GNOME, as a desktop runs it: on a session bus of its own, and unlocked by a password.
//!
//! The test starts itself again below `dbus-run-session`, with folders of its own, so that no keychain of the user is used.

use std::path::Path;
use std::process::Command;

use super::KeyringStore;
use crate::secret::Secret;
use crate::store::{Registration, Store, Vault};

#[test]
fn keychain_keeps_credentials() {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(keep_and_read());
    }
    let folder = std::env::temp_dir().join(format!("tsugite-keychain-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let script =
        r#"printf password | gnome-keyring-daemon --unlock --components=secrets >&2 && exec "$0" "$@""#;
    let mut command = Command::new("dbus-run-session");
    command.args(["--", "sh", "-c", script]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "store::keyring::tests::keychain_keeps_credentials", "--nocapture"]);
    command.env(INSIDE, "1").env("HOME", &folder);
    for name in ["XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"] {
        command.env(name, &folder);
    }
    let output = command.output().expect("install dbus and gnome-keyring (Debian's packages) for this test");
    let plain = contains(&folder, b"hunter2");
    std::fs::remove_dir_all(&folder).unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    assert!(!plain, "the secret is in a file");
}

async fn keep_and_read() {
    let store = || KeyringStore::new("tsugite-test").unwrap();
    assert_eq!(store().read().await.unwrap(), Vault::default());
    let mut vault = Vault::default();
    for number in 1..=2 {
        let registration = Registration {
            client_id: format!("client {number}"),
            client_secret: Some(Secret::new("hunter2".repeat(1_000))),
            auth_method: "client_secret_basic".to_owned(),
            redirect_uri: "http://127.0.0.1/callback".to_owned(),
            scopes: Vec::new(),
            expires_at: None,
        };
        vault.registrations.insert("https://as.example.com".to_owned(), registration);
        let mut locked = store().lock().await.unwrap();
        locked.write(&vault).await.unwrap();
        drop(locked);
        assert_eq!(store().read().await.unwrap(), vault);
    }
    // A keychain has one entry for each name.
    assert_eq!(KeyringStore::new("other").unwrap().read().await.unwrap(), Vault::default());
}

/// Whether a file below the folder contains some bytes.
fn contains(folder: &Path, wanted: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => contains(&path, wanted),
            false => {
                std::fs::read(&path).is_ok_and(|found| found.windows(wanted.len()).any(|part| part == wanted))
            }
        }
    })
}

const INSIDE: &str = "TSUGITE_TEST_KEYCHAIN";
