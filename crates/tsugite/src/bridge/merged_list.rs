//! The lists of several servers as one.

use std::sync::Arc;

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::OrderedMap;
use tsugite_core::protocol::logging::Level;
use tsugite_core::revision::{Revision, RpcError, translate_raw_result};

use super::bridge_errors::unsupported_error;
use super::client_request::reply_target;
use super::in_flight::InFlightCall;
use super::join_all::join_all;
use super::name_mapping::{is_reachable, list_shape, prefix_member};
use super::pairing::translate_result;
use super::upstream::Upstream;
use crate::client::forwarded_request::ForwardedRequest;
use crate::era::Era;
use crate::server::layer::RequestParts;

/// The lists of all servers as one. One that is away, or fails, is left out.
pub(super) async fn merged_list(
    upstreams: &[Arc<Upstream>],
    method: &str,
    job: &RequestParts,
    level: Option<Level>,
) -> Result<RawJson, RpcError> {
    let Some((member, kind, name)) = list_shape(method) else { return Err(RpcError::Internal) };
    let given: OrderedMap<RawJson> = job.params.read().map_err(|error| RpcError::invalid_params(&error))?;
    if given.get("cursor").is_some_and(|cursor| cursor.text() != "null") {
        // All is in one page, and each server would take it for one of its own.
        let error = RpcError::InvalidParams("Invalid params: this cursor was not given out here".into());
        return Err(error.with("path", "cursor"));
    }
    let targets: Vec<_> = upstreams.iter().map(|upstream| Arc::clone(&upstream.target)).collect();
    let mut all: Vec<RawJson> = Vec::new();
    // All at once: one that is there and says nothing takes the others no time but its own.
    let lists = join_all(
        upstreams
            .iter()
            .map(|upstream| upstream.with_timeout(read_all_pages(upstream, method, member, job, level))),
    )
    .await;
    for (upstream, list) in upstreams.iter().zip(lists) {
        let Some(prefix) = upstream.target.prefix.as_deref() else { continue };
        match list {
            Ok(items) => all.extend(items.into_iter().filter_map(|item| {
                let mut item: OrderedMap<RawJson> = item.read().ok()?;
                let outer = prefix_member(&mut item, name, kind, prefix)?;
                // A call would reach the server with the longer prefix.
                if !is_reachable(&targets, &upstream.target, kind, &outer) {
                    return None;
                }
                RawJson::from_value(&item).ok()
            })),
            Err(error) => {
                tracing::debug!(server = upstream.target.display_name(), %error, method, "a list is left out")
            }
        }
    }
    let mut result: OrderedMap<RawJson> = OrderedMap::new();
    result.insert(member, RawJson::from_value(&all).map_err(|_| RpcError::Internal)?);
    let result = RawJson::from_value(&result).map_err(|_| RpcError::Internal)?;
    // The items are in the client's revision already, but a result of the stateless era has more members than its items.
    let from = match Era::from(job.revision) {
        Era::Handshake => job.revision,
        Era::Stateless => Revision::NEWEST_HANDSHAKE,
    };
    let info = Some(&job.connection.config.info);
    translate_raw_result(method, Raw::from(&result), from, job.revision, info)
        .map_err(|error| unsupported_error(&error, method))
}

/// All pages of one server's list.
async fn read_all_pages(
    upstream: &Arc<Upstream>,
    method: &str,
    member: &str,
    job: &RequestParts,
    level: Option<Level>,
) -> Result<Vec<RawJson>, RpcError> {
    // Does not wait for a server that is away.
    if upstream.client_if_connected().is_none() {
        return Err(RpcError::internal_with_message("it is not there"));
    }
    let flight = InFlightCall::new(job.revision, reply_target(job)?);
    let mut params: OrderedMap<RawJson> =
        job.params.read().map_err(|error| RpcError::invalid_params(&error))?;
    let (mut items, mut bytes) = (Vec::new(), 0);
    for _ in 0..MAX_PAGES {
        let page = RawJson::from_value(&params).map_err(|_| RpcError::Internal)?;
        let (result, from) = upstream
            .send(ForwardedRequest::new(method, &page, job.revision).log_level(level), &flight)
            .await?;
        bytes += result.text().len();
        if bytes > MAX_LIST_BYTES {
            return Err(RpcError::internal_with_message("its list is too long"));
        }
        let result = translate_result(upstream, method, &result, from, job.revision)?;
        let mut members: OrderedMap<RawJson> = result.read().map_err(|_| RpcError::Internal)?;
        if let Some(list) = members.remove(member) {
            items.extend(list.read::<Vec<RawJson>>().map_err(|_| RpcError::Internal)?);
        }
        match members.remove("nextCursor").filter(|cursor| cursor.text() != "null") {
            Some(cursor) => drop(params.insert("cursor", cursor)),
            None => break,
        }
    }
    Ok(items)
}

/// Pages of one list that are read, and how many bytes they may be.
const MAX_PAGES: usize = 1_000;
const MAX_LIST_BYTES: usize = 64 << 20;
