//! [`KeyringStore`]: credentials in the keychain of the operating system.

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::fs::File;

use keyring::Entry;

use super::{FileStore, LockedStore, Store, StoreFuture, Vault};
use crate::error::{AuthError, Result};
use crate::private_file::{PrivateFile, blocking};

/// Keeps credentials in the keychain of the operating system: the Secret Service on Linux, the Keychain on macOS.
///
/// A keychain has no lock for several processes, so the lock is a file beside that of [`FileStore::in_home`]. It holds no
/// secret.
#[derive(Debug, Clone)]
pub struct KeyringStore {
    service: String,
    lock: PrivateFile,
}

impl KeyringStore {
    /// Keeps the credentials under the name of the application.
    pub fn new(service: impl Into<String>) -> Result<Self> {
        Ok(Self { service: service.into(), lock: PrivateFile::new(FileStore::in_home()?.path()) })
    }

    fn entry(&self) -> Result<Entry> {
        Entry::new(&self.service, ACCOUNT).map_err(|error| keychain_error(&error))
    }

    fn read_entry(&self) -> Result<Vault> {
        let secret = match self.entry()?.get_secret() {
            Ok(secret) => secret,
            Err(keyring::Error::NoEntry) => return Ok(Vault::default()),
            Err(error) => return Err(keychain_error(&error)),
        };
        // The error of serde would show a part of the text.
        serde_json::from_slice(&secret).map_err(|_| {
            AuthError::store(format!("the entry {:?} of the keychain is malformed", self.service))
        })
    }

    fn write_entry(&self, vault: &Vault) -> Result<()> {
        let text = serde_json::to_vec(vault).map_err(|error| AuthError::store(error.to_string()))?;
        self.entry()?.set_secret(&text).map_err(|error| keychain_error(&error))
    }
}

fn keychain_error(error: &keyring::Error) -> AuthError {
    let reason = match error {
        // It contains the secret.
        keyring::Error::BadEncoding(_) => "the secret is malformed".to_owned(),
        error => error.to_string(),
    };
    AuthError::store(format!("the keychain of the operating system: {reason}"))
}

impl Store for KeyringStore {
    fn read(&self) -> StoreFuture<'_, Vault> {
        let store = self.clone();
        Box::pin(blocking(move || store.read_entry()))
    }

    fn lock(&self) -> StoreFuture<'_, Box<dyn LockedStore>> {
        Box::pin(async {
            let lock = self.lock.take_lock().await?;
            Ok(Box::new(LockedKeyring { store: self.clone(), _lock: lock }) as Box<dyn LockedStore>)
        })
    }
}

struct LockedKeyring {
    store: KeyringStore,
    /// Closing it releases the lock.
    _lock: File,
}

impl LockedStore for LockedKeyring {
    fn read(&mut self) -> StoreFuture<'_, Vault> {
        self.store.read()
    }

    fn write<'a>(&'a mut self, vault: &'a Vault) -> StoreFuture<'a, ()> {
        let (store, vault) = (self.store.clone(), vault.clone());
        Box::pin(blocking(move || store.write_entry(&vault)))
    }
}

/// The account of the entry, which holds everything.
const ACCOUNT: &str = "credentials";
