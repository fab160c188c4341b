//! [`MemoryStore`]: credentials that end with the process.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use super::{LockedStore, Store, StoreFuture, Vault};

/// Keeps credentials in memory. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    vault: Arc<Mutex<Vault>>,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn snapshot(&self) -> Vault {
        self.vault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Store for MemoryStore {
    fn read(&self) -> StoreFuture<'_, Vault> {
        let vault = self.snapshot();
        Box::pin(async { Ok(vault) })
    }

    fn lock(&self) -> StoreFuture<'_, Box<dyn LockedStore>> {
        Box::pin(async {
            let guard = Arc::clone(&self.lock).lock_owned().await;
            Ok(Box::new(LockedMemory { store: self.clone(), _guard: guard }) as Box<dyn LockedStore>)
        })
    }
}

struct LockedMemory {
    store: MemoryStore,
    _guard: OwnedMutexGuard<()>,
}

impl LockedStore for LockedMemory {
    fn read(&mut self) -> StoreFuture<'_, Vault> {
        let vault = self.store.snapshot();
        Box::pin(async { Ok(vault) })
    }

    fn write<'a>(&'a mut self, vault: &'a Vault) -> StoreFuture<'a, ()> {
        *self.store.vault.lock().unwrap_or_else(PoisonError::into_inner) = vault.clone();
        Box::pin(async { Ok(()) })
    }
}
