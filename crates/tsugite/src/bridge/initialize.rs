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
use tsugite_core::revision::{Revision, RpcError, read_initialize_params};

use super::bridge_errors::{malformed_result_error, unsupported_error};
use super::bridge_session::{Announced, BridgeSession};
use super::bridge_state::BridgeState;
use super::client_identity::ClientIdentity;
use super::client_request::parse_request_meta;
use super::description::{CapabilitySet, ServerDescription};
use super::kept_subscription::{Begin, keep_listening};
use super::pairing;
use super::upstream::{Downstream, Upstream};
use super::upstream_events::UpstreamEvents;
use crate::client::Client;
use crate::lock::lock;
use crate::server::encode_result;
use crate::server::layer::RequestParts;
use crate::server::limits::CallerKey;

/// Answers `initialize`: opens a session here. Only the first client opens connections for that; for later ones it is
/// known how the servers describe themselves, and their first request opens the connections.
pub(super) async fn initialize(bridge: &BridgeState, job: &RequestParts) -> Result<RawJson, RpcError> {
    let params = read_initialize_params(Raw::from(&job.params), job.revision)?;
    let identity = ClientIdentity { info: params.client_info, capabilities: params.capabilities };
    let declared = CapabilitySet::from(&identity.capabilities);
    bridge.check_open()?;
    if let Some(known) = bridge.descriptions(declared) {
        return initialize_disconnected(bridge, job, known);
    }
    let attempt = bridge.describe_locks.acquire(declared).await?;
    if let Some(known) = bridge.descriptions(declared) {
        return initialize_disconnected(bridge, job, known);
    }
    let upstreams = open_upstreams(bridge, job, &identity)?;
    let described = describe(bridge, &upstreams, job).await;
    attempt.end(described.as_ref().err());
    let announced = described?;
    let result = initialize_result(bridge, &announced, job)?;
    job.connection.initialize_forwarded(&job.params, job.revision)?;
    let session = Arc::new(BridgeSession::new(upstreams, announced));
    session.mark_ready();
    bridge.insert_session(&job.connection, &session);
    bridge.disconnect_if_unused(&job.connection, &session);
    listen_to_lists(&session).await;
    Ok(result)
}

/// Opens a session without connections.
fn initialize_disconnected(
    bridge: &BridgeState,
    job: &RequestParts,
    known: Announced,
) -> Result<RawJson, RpcError> {
    let result = initialize_result(bridge, &known, job)?;
    job.connection.initialize_forwarded(&job.params, job.revision)?;
    bridge.insert_disconnected_session(&job.connection, known);
    Ok(result)
}

/// The session of a request, with its connections. They are opened if the session has none yet, if the request stands
/// alone, or if its session began on another replica. Waits for them if the request is `for_all` servers, or for the only
/// one.
pub(super) async fn connect_session(
    bridge: &BridgeState,
    job: &RequestParts,
    for_all: bool,
) -> Result<Arc<BridgeSession>, RpcError> {
    let session = bridge.connect_session(&job.connection, || {
        let (_, capabilities, info) = job.connection.session_info();
        let info = info.unwrap_or_else(|| Implementation::new("unknown", "0"));
        open_upstreams(bridge, job, &ClientIdentity { info, capabilities })
    })?;
    if !for_all && !bridge.is_single() {
        return Ok(session);
    }
    if let Err(error) = wait_connected(bridge, &session.upstreams).await {
        bridge.disconnect_session(&job.connection, &session);
        return Err(error);
    }
    if session.mark_ready() && !session.announced.is_empty() {
        listen_to_lists(&session).await;
        report_changed_descriptions(&session);
    }
    Ok(session)
}

/// Opens the connections of a client.
fn open_upstreams(
    bridge: &BridgeState,
    job: &RequestParts,
    identity: &ClientIdentity,
) -> Result<Vec<Arc<Upstream>>, RpcError> {
    let caller = CallerKey::of_caller(&job.caller);
    let open = |target| {
        let downstream = Downstream::Session(Arc::downgrade(&job.connection), job.revision);
        bridge.open_upstream(target, downstream, identity.clone(), caller.clone())
    };
    bridge.targets.iter().map(open).collect()
}

/// Waits for the only server, but not long for one among several.
async fn wait_connected(bridge: &BridgeState, upstreams: &[Arc<Upstream>]) -> Result<(), RpcError> {
    match upstreams {
        [only] if bridge.is_single() => drop(only.connected_client().await?),
        all => {
            for upstream in all {
                upstream.wait_while_connecting().await;
            }
        }
    }
    Ok(())
}

/// Learns from new connections how the servers describe themselves. One among several may be away.
async fn describe(
    bridge: &BridgeState,
    upstreams: &[Arc<Upstream>],
    job: &RequestParts,
) -> Result<Announced, RpcError> {
    wait_connected(bridge, upstreams).await?;
    if let [only] = upstreams
        && bridge.is_single()
    {
        let client = only.connected_client().await?;
        let description = match ServerDescription::from_client(client) {
            Some(description) => description,
            None => discover_description(only, client, job.revision).await?,
        };
        return Ok(vec![Some(only.target.set_description(only.declared, description))]);
    }
    Ok(upstreams.iter().map(|upstream| known_description(upstream)).collect())
}

/// The description of a server among several that was waited for. One that did not answer is not waited for again.
fn known_description(upstream: &Upstream) -> Option<Arc<ServerDescription>> {
    upstream.target.mark_undescribed(upstream.declared);
    upstream.target.description(upstream.declared)?
}

/// Tells a client that all lists may have changed, if a server describes itself in another way than the client was told.
/// The client cannot be told the rest: a session has one `initialize`.
fn report_changed_descriptions(session: &BridgeSession) {
    for (upstream, announced) in session.upstreams.iter().zip(&session.announced) {
        let (Some(announced), Some(client)) = (announced, upstream.client_if_connected()) else { continue };
        if let Some(current) = ServerDescription::from_client(client) {
            report_if_changed(upstream, announced, &current);
            continue;
        }
        // The connection was opened without asking the server.
        let (upstream, announced, client) = (Arc::clone(upstream), Arc::clone(announced), client.clone());
        session.spawn(async move {
            match discover_description(&upstream, &client, announced.revision).await {
                Ok(current) => {
                    let current = upstream.target.set_description(upstream.declared, current);
                    report_if_changed(&upstream, &announced, &current);
                }
                Err(error) => tracing::debug!(%error, "a server was not asked again how it describes itself"),
            }
        });
    }
}

fn report_if_changed(upstream: &Arc<Upstream>, announced: &ServerDescription, current: &ServerDescription) {
    if !announced.is_equivalent(current) {
        UpstreamEvents(Arc::downgrade(upstream)).notify_all_changed();
    }
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

/// The `initialize` result: the name and capabilities of the only server, or the capabilities of all of them.
fn initialize_result(
    bridge: &BridgeState,
    announced: &Announced,
    job: &RequestParts,
) -> Result<RawJson, RpcError> {
    if let ([target], [Some(description)]) = (bridge.targets.as_slice(), announced.as_slice())
        && bridge.is_single()
    {
        let mut result = pairing::initialize_result(target, description, job)?;
        let version = RawJson::from_value(job.revision.as_str()).map_err(|_| RpcError::Internal)?;
        result.insert("protocolVersion", version);
        return RawJson::from_value(&result).map_err(|_| RpcError::Internal);
    }
    let (capabilities, instructions) = merge_descriptions(bridge, announced);
    let info = job.connection.config.info.clone();
    let mut answer = InitializeResult::new(job.revision.as_str(), capabilities, info);
    answer.instructions = instructions;
    encode_result::<Initialize>(answer, job.revision, &job.connection.config.stamp)
        .map_err(|error| unsupported_error(&error, Initialize::NAME))
}

/// Asks a server for its description, which it has not been asked for yet. Errors are for a client of revision `to`.
async fn discover_description(
    upstream: &Upstream,
    client: &Client,
    to: Revision,
) -> Result<ServerDescription, RpcError> {
    let found = client.request_raw(Discover::NAME, None).await;
    let found = found.map_err(|error| upstream.to_rpc_error(error, Discover::NAME, to))?;
    ServerDescription::from_discover_result(found, client.revision())
        .ok_or_else(|| malformed_result_error(&upstream.target))
}

/// Answers `server/discover`.
pub(super) async fn discover(bridge: &BridgeState, job: &RequestParts) -> Result<RawJson, RpcError> {
    let served: Vec<String> =
        job.connection.config.revisions.names().into_iter().map(str::to_owned).collect();
    let declared = CapabilitySet::from(&parse_request_meta(&job.params)?.declared_client()?.capabilities);
    bridge.check_open()?;
    if !bridge.is_single() {
        let described = match bridge.descriptions(declared) {
            Some(known) => known,
            None => {
                let lent = bridge.acquire_all(job).await?;
                lent.iter().map(|lent| known_description(&lent.upstream)).collect()
            }
        };
        let (capabilities, instructions) = merge_descriptions(bridge, &described);
        let mut found = DiscoverResult::new(served, capabilities);
        found.instructions = instructions;
        return pairing::encode_discover_result(found, job.revision, &job.connection.config.stamp);
    }
    if let Some([Some(description)]) = bridge.descriptions(declared).as_deref()
        && let Some(result) = pairing::described_discover_result(description, &served, job)
    {
        return result;
    }
    let lent = bridge.acquire(0, Discover::NAME, job).await?;
    let client = lent.upstream.connected_client().await?;
    pairing::discover_result(&lent.upstream, client, served, job).await
}

/// The capabilities and instructions of several servers together.
fn merge_descriptions(bridge: &BridgeState, described: &Announced) -> (ServerCapabilities, Option<String>) {
    // A server that is away may return and offer any of these.
    let list = || ListCapability::new().list_changed(true);
    let mut all = ServerCapabilities::new()
        .tools(list())
        .prompts(list())
        .resources(ResourcesCapability::new().subscribe(true).list_changed(true))
        .logging(Object::new());
    let mut instructions = String::new();
    for (target, described) in bridge.targets.iter().zip(described) {
        let Some(described) = described else { continue };
        if described.capabilities.as_ref().is_some_and(|offered| offered.completions.is_some()) {
            all.completions = Some(Object::new());
        }
        if let (Some(text), Some(prefix)) = (&described.instructions, &target.prefix) {
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
