//! `initialize` and `server/discover`: a client learns what the servers behind the bridge say of themselves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::capabilities::{ListCapability, ResourcesCapability};
use tsugite_core::protocol::discover::{Discover, DiscoverResult};
use tsugite_core::protocol::lifecycle::{Initialize, InitializeResult};
use tsugite_core::protocol::{Implementation, Method, Object, ServerCapabilities};
use tsugite_core::revision::{RpcError, read_initialize_params};

use super::bridge_errors::unsupported_error;
use super::bridge_session::BridgeSession;
use super::bridge_state::BridgeState;
use super::client_identity::ClientIdentity;
use super::kept_subscription::{Begin, keep_listening};
use super::pairing;
use super::upstream::{Downstream, Upstream};
use super::upstream_events::UpstreamEvents;
use crate::client::Client;
use crate::lock::lock;
use crate::server::encode_result;
use crate::server::layer::RequestParts;
use crate::server::limits::CallerKey;

/// Answers `initialize`: opens a session here and at the servers.
pub(super) async fn initialize(bridge: &BridgeState, job: &RequestParts) -> Result<RawJson, RpcError> {
    let params = read_initialize_params(Raw::from(&job.params), job.revision)?;
    let face = ClientIdentity { info: params.client_info, capabilities: params.capabilities };
    let session = open_session(bridge, job, face).await?;
    let result = match session.upstreams.as_slice() {
        [only] if bridge.is_single() => single_initialize_result(only, job).await?,
        all => merged_initialize_result(all, job)?,
    };
    job.connection.initialize_forwarded(&job.params, job.revision)?;
    bridge.insert_session(&job.connection, &session);
    bridge.disconnect_if_unused(&job.connection, &session);
    listen_to_lists(&session).await;
    Ok(result)
}

/// Opens a session for a request without a handshake here: it stands alone, its session began on another replica, or its
/// session was disconnected because it was not used.
pub(super) async fn open_session_without_handshake(
    bridge: &BridgeState,
    job: &RequestParts,
) -> Result<Arc<BridgeSession>, RpcError> {
    let disconnected = bridge.disconnected_session(&job.connection);
    let _connecting = match &disconnected {
        Some(connecting) => Some(connecting.lock().await),
        None => None,
    };
    // Another request may have connected it meanwhile.
    if let Some(session) = bridge.use_session(&job.connection) {
        return Ok(session);
    }
    let (_, capabilities, info) = job.connection.session_info();
    let face =
        ClientIdentity { info: info.unwrap_or_else(|| Implementation::new("unknown", "0")), capabilities };
    let session = open_session(bridge, job, face).await?;
    session.mark_used();
    bridge.insert_session(&job.connection, &session);
    if disconnected.is_some() {
        listen_to_lists(&session).await;
    }
    Ok(session)
}

/// Opens the connections of a client. Waits for the only server, but not long for one among several.
async fn open_session(
    bridge: &BridgeState,
    job: &RequestParts,
    identity: ClientIdentity,
) -> Result<Arc<BridgeSession>, RpcError> {
    let caller = CallerKey::of_caller(&job.caller);
    let mut upstreams = Vec::with_capacity(bridge.targets.len());
    for target in &bridge.targets {
        let downstream = Downstream::Session(Arc::downgrade(&job.connection), job.revision);
        upstreams.push(bridge.open_upstream(target, downstream, identity.clone(), caller.clone())?);
    }
    match upstreams.as_slice() {
        [only] if bridge.is_single() => drop(only.connected_client().await?),
        all => {
            for upstream in all {
                upstream.wait_while_connecting().await;
            }
        }
    }
    Ok(Arc::new(BridgeSession::new(upstreams)))
}

/// Subscribes to the lists of servers that do not push their changes. Does not wait long for a slow one.
async fn listen_to_lists(session: &Arc<BridgeSession>) {
    let mut begun = Vec::new();
    for upstream in &session.upstreams {
        let upstream = Arc::clone(upstream);
        let (done, listens) = oneshot::channel();
        // A server that is away is asked when it connects.
        if upstream.client_if_connected().is_some() {
            begun.push(listens);
        }
        session.spawn(async move {
            upstream.wait_connected().await;
            let Some(filter) = pairing::session_list_filter(&upstream) else { return };
            let (weak, done) = (Arc::downgrade(&upstream), Mutex::new(Some(done)));
            drop(upstream);
            keep_listening(
                weak,
                None,
                |_, _| filter.clone(),
                |upstream, _, begin| {
                    if begin == Begin::Again {
                        UpstreamEvents(Arc::downgrade(upstream)).notify_all_changed();
                    }
                    // The receiver may have timed out.
                    let _ = lock(&done).take().map(|done| done.send(()));
                },
            )
            .await;
        });
    }
    let deadline = Instant::now() + LISTEN_ACK_TIMEOUT;
    for one in begun {
        let _ = tokio::time::timeout_at(deadline, one).await;
    }
}

/// The `initialize` result with the only server's name and capabilities.
async fn single_initialize_result(upstream: &Arc<Upstream>, job: &RequestParts) -> Result<RawJson, RpcError> {
    let client = upstream.connected_client().await?;
    let (from, to) = (client.revision(), job.revision);
    let result = match client.handshake_result() {
        Some(result) => result,
        None => fetch_discover_result(upstream, client, job).await?,
    };
    let mut result = pairing::initialize_result(upstream, &result, from, job)?;
    result.insert("protocolVersion", RawJson::from_value(to.as_str()).map_err(|_| RpcError::Internal)?);
    RawJson::from_value(&result).map_err(|_| RpcError::Internal)
}

/// Asks a server for its capabilities, which it has not been asked for yet.
async fn fetch_discover_result(
    upstream: &Arc<Upstream>,
    client: &Client,
    job: &RequestParts,
) -> Result<RawJson, RpcError> {
    let found = client.request_raw(Discover::NAME, None).await;
    found.map_err(|error| upstream.to_rpc_error(error, Discover::NAME, job.revision))
}

/// The `initialize` result for several servers: the capabilities of all of them.
fn merged_initialize_result(upstreams: &[Arc<Upstream>], job: &RequestParts) -> Result<RawJson, RpcError> {
    let (capabilities, instructions) = merge_capabilities(upstreams);
    let info = job.connection.config.info.clone();
    let mut answer = InitializeResult::new(job.revision.as_str(), capabilities, info);
    answer.instructions = instructions;
    encode_result::<Initialize>(answer, job.revision, &job.connection.config.stamp)
        .map_err(|error| unsupported_error(&error, Initialize::NAME))
}

/// Answers `server/discover`.
pub(super) async fn discover(bridge: &BridgeState, job: &RequestParts) -> Result<RawJson, RpcError> {
    let served: Vec<String> =
        job.connection.config.revisions.names().into_iter().map(str::to_owned).collect();
    if !bridge.is_single() {
        let lent = bridge.acquire_all(job).await?;
        let upstreams: Vec<_> = lent.iter().map(|lent| Arc::clone(&lent.upstream)).collect();
        let (capabilities, instructions) = merge_capabilities(&upstreams);
        let mut found = DiscoverResult::new(served, capabilities);
        found.instructions = instructions;
        return pairing::encode_discover_result(found, job.revision, &job.connection.config.stamp);
    }
    let lent = bridge.acquire(0, Discover::NAME, job).await?;
    let client = lent.upstream.connected_client().await?;
    pairing::discover_result(&lent.upstream, client, served, job).await
}

/// The capabilities and instructions of several servers together.
fn merge_capabilities(upstreams: &[Arc<Upstream>]) -> (ServerCapabilities, Option<String>) {
    // A server that is away may return and offer any of these.
    let list = || ListCapability::new().list_changed(true);
    let mut all = ServerCapabilities::new()
        .tools(list())
        .prompts(list())
        .resources(ResourcesCapability::new().subscribe(true).list_changed(true))
        .logging(Object::new());
    let mut instructions = String::new();
    for upstream in upstreams {
        let Some(client) = upstream.client_if_connected() else { continue };
        if client.server_capabilities().is_some_and(|offered| offered.completions.is_some()) {
            all.completions = Some(Object::new());
        }
        if let (Some(text), Some(prefix)) = (client.instructions(), &upstream.target.prefix) {
            instructions.push_str(&format!("## {prefix}\n\n{}\n\n", quote(text.trim_end())));
        }
    }
    (all, (!instructions.is_empty()).then(|| instructions.trim_end().to_owned()))
}

/// Quotes every line in Markdown, so that only the bridge writes headings: a server could imitate the one of another.
fn quote(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    // Everything that a reader may take for the end of a line.
    let lines = text.split(['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}']);
    let lines = lines.map(|line| if line.is_empty() { ">".to_owned() } else { format!("> {line}") });
    lines.collect::<Vec<_>>().join("\n")
}

/// How long `initialize` waits for subscriptions to be acknowledged.
const LISTEN_ACK_TIMEOUT: Duration = Duration::from_secs(1);
