//! `tasks/list` (2025-11-25): the tasks of a caller, oldest first.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tsugite_core::protocol::Method;
use tsugite_core::protocol::tasks::{List, ListResult};
use tsugite_core::revision::RpcError;

use super::{TaskAccess, answer, unavailable};
use crate::server::Config;
use crate::server::connection::ServerConnection;
use crate::server::incoming_request::IncomingRequest;
use crate::server::pending::PendingRequest;
use crate::server::task_state::StoredCaller;

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
            let is_last = listed.len() < page_size;
            for (position, id) in listed {
                if tasks.len() == page_size {
                    return page(&config, tasks, Some(&after));
                }
                match access.find(&id).await {
                    Ok(stored) => tasks.push(stored.task()),
                    Err(RpcError::InvalidParams(_)) => {
                        store.unlist(&caller, &position).await.map_err(|error| unavailable(&error))?;
                    }
                    Err(error) => return Err(error),
                }
                after = position;
            }
            if is_last {
                return page(&config, tasks, None);
            }
        }
    }))
}

fn page(
    config: &Config,
    tasks: Vec<tsugite_core::protocol::Task>,
    next: Option<&str>,
) -> Result<ListResult, RpcError> {
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
