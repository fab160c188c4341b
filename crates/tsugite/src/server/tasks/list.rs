//! `tasks/list` (2025-11-25): the tasks of a caller, oldest first.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tsugite_core::protocol::tasks::{List, ListResult};
use tsugite_core::protocol::{Method, Task};
use tsugite_core::revision::RpcError;

use super::{TaskAccess, answer, unavailable};
use crate::server::Config;
use crate::server::connection::ServerConnection;
use crate::server::incoming_request::IncomingRequest;
use crate::server::pending::PendingRequest;
use crate::server::task_state::{IndexEntry, StoredCaller, is_unreadable};
use crate::store::StoreError;

/// Returns one page of the caller's tasks.
pub(crate) fn list(
    connection: &Arc<ServerConnection>,
    request: IncomingRequest<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let access = TaskAccess::new(connection, request)?;
    let caller = access.principal.as_ref().map(StoredCaller::new).ok_or(RpcError::Internal)?;
    let cursor =
        request.meta.cursor().map_err(|error| RpcError::invalid_params(&error).with("path", "cursor"))?;
    let after = match cursor {
        Some(cursor) => open_cursor(&connection.config, &cursor)?,
        None => String::new(),
    };
    let config = connection.config.clone();
    Ok(answer::<List>(connection, request, async move {
        let page_size = config.page_size.min(MAX_PAGE);
        let (mut tasks, mut after) = (Vec::new(), after);
        loop {
            let store = &access.table.hub.store;
            let listed = store.list(&caller, &after, page_size).await.map_err(|error| unavailable(&error))?;
            let (is_last, mut expired, mut is_full) = (listed.len() < page_size, Vec::new(), false);
            for entry in listed {
                is_full = tasks.len() == page_size;
                if is_full {
                    break;
                }
                after.clone_from(&entry.position);
                match find(&access, &entry).await.map_err(|error| unavailable(&error))? {
                    Listed::Visible(task) => tasks.push(task),
                    Listed::Hidden => {}
                    Listed::Expired => expired.push(entry.position),
                }
            }
            store.unlist(&caller, &expired).await.map_err(|error| unavailable(&error))?;
            if is_full || is_last {
                return page(&config, tasks, is_full.then_some(&*after));
            }
        }
    }))
}

/// An entry of the list.
enum Listed {
    Visible(Task),
    /// The caller may not see its tool now, or this process cannot read the task.
    Hidden,
    Expired,
}

async fn find(access: &TaskAccess, entry: &IndexEntry) -> Result<Listed, StoreError> {
    if entry.has_expired() {
        return Ok(Listed::Expired);
    }
    let Some(id) = &entry.id else { return Ok(Listed::Hidden) };
    Ok(match access.table.hub.store.read(id).await {
        Ok(Some(stored)) if stored.call.remaining_ttl().is_none() => Listed::Expired,
        Ok(Some(stored)) if access.may_see(&stored) => Listed::Visible(access.summary(&stored)),
        Ok(Some(_)) => Listed::Hidden,
        Ok(None) => Listed::Expired,
        Err(error) if is_unreadable(&error) => Listed::Hidden,
        Err(error) => return Err(error),
    })
}

fn page(config: &Config, tasks: Vec<Task>, next: Option<&str>) -> Result<ListResult, RpcError> {
    let mut result = ListResult::new(tasks);
    if let Some(next) = next {
        let sealed = config
            .key_ring
            .ring()
            .and_then(|ring| ring.seal(next.as_bytes(), &cursor_binding(), SystemTime::now() + CURSOR_TTL));
        result.next_cursor = Some(sealed.map_err(|_| RpcError::Internal)?);
    }
    Ok(result)
}

fn open_cursor(config: &Config, cursor: &str) -> Result<String, RpcError> {
    let ring = config.key_ring.ring().map_err(|_| RpcError::Internal)?;
    let opened = ring.open(cursor, &cursor_binding(), SystemTime::now(), MAX_CURSOR_BYTES).ok();
    opened.and_then(|plain| String::from_utf8(plain).ok()).ok_or_else(|| {
        RpcError::InvalidParams("Invalid params: `cursor` does not belong to this list".into())
            .with("path", "cursor")
    })
}

fn cursor_binding() -> [&'static [u8]; 2] {
    [b"cursor", List::NAME.as_bytes()]
}

const MAX_PAGE: usize = 100;
const MAX_CURSOR_BYTES: usize = 1 << 10;
const CURSOR_TTL: Duration = Duration::from_secs(24 * 60 * 60);
