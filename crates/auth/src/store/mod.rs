//! Where registrations and tokens are kept: in memory, in a file, in the keychain of the operating system (feature
//! `keyring`), or in a store of the application.

mod file;
#[cfg(feature = "keyring")]
mod keyring;
mod memory;
mod private;
mod vault;

pub use file::FileStore;
#[cfg(feature = "keyring")]
pub use keyring::KeyringStore;
pub use memory::MemoryStore;
pub use vault::{Registration, StoredToken, Vault};

use std::future::Future;
use std::pin::Pin;

use crate::error::Result;

/// The future that a method of a store returns.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A place for credentials, which several tasks and processes may share.
pub trait Store: Send + Sync + 'static {
    /// Reads everything, without waiting for a lock.
    fn read(&self) -> StoreFuture<'_, Vault>;

    /// Waits until no other task or process holds the lock, and takes it. It is released when the guard is dropped.
    ///
    /// A refresh token may be used once, so the lock is held while it is read, used and replaced.
    fn lock(&self) -> StoreFuture<'_, Box<dyn LockedStore>>;
}

/// A store that no other task or process can change.
pub trait LockedStore: Send {
    /// Reads everything.
    fn read(&mut self) -> StoreFuture<'_, Vault>;

    /// Replaces everything, or nothing if it fails.
    fn write<'a>(&'a mut self, vault: &'a Vault) -> StoreFuture<'a, ()>;
}
