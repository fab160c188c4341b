//! A shared store is a store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{
    Committed, Conflict, Field, LogRead, Position, Received, SpendLimit, Store, StoreResult, StoreScope,
    Write,
};

impl<S: Store + ?Sized> Store for Arc<S> {
    fn scope(&self) -> StoreScope {
        (**self).scope()
    }

    fn read(&self, key: &str, fields: &[&str]) -> StoreResult<Option<Vec<Option<Field>>>> {
        (**self).read(key, fields)
    }

    fn list(&self, key: &str, after: &str, max: usize) -> StoreResult<Vec<(String, Field)>> {
        (**self).list(key, after, max)
    }

    fn commit(&self, writes: &[Write<'_>]) -> StoreResult<Result<Committed, Conflict>> {
        (**self).commit(writes)
    }

    fn take(&self, key: &str) -> StoreResult<Option<Vec<(String, Bytes)>>> {
        (**self).take(key)
    }

    fn spend(&self, key: &str, cost: u32, limit: SpendLimit) -> StoreResult<Result<(), Duration>> {
        (**self).spend(key, cost, limit)
    }

    fn read_log(&self, log: &str, after: u64) -> StoreResult<Option<LogRead>> {
        (**self).read_log(log, after)
    }

    fn receive(&self, replica: &str, position: &Position) -> StoreResult<Received> {
        (**self).receive(replica, position)
    }

    fn inbox(&self, replica: &str) -> StoreResult<Vec<Bytes>> {
        (**self).inbox(replica)
    }

    fn renew_lease(&self, replica: &str, ttl: Duration, handled: &Position) -> StoreResult<()> {
        (**self).renew_lease(replica, ttl, handled)
    }

    fn has_lease(&self, replica: &str) -> StoreResult<bool> {
        (**self).has_lease(replica)
    }

    fn end_lease(&self, replica: &str) -> StoreResult<()> {
        (**self).end_lease(replica)
    }

    fn purge_expired(&self) {
        (**self).purge_expired();
    }
}
