//! The walk of a request across the bridge.
//!
//! A client with a session has connections of its own ([`Session`]); one without borrows them (`lend`). Where both sides
//! are of one era a request is sent on and its answer sent back. A server without sessions asks in its results: a client
//! with a session is then asked directly (`rounds`). The other way round the call is parked (`parked`).

use std::borrow::Cow;
use std::sync::{Arc, Mutex, Weak};

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::discover::Discover;
use tsugite_core::protocol::lifecycle::Initialize;
use tsugite_core::protocol::logging::SetLevel;
use tsugite_core::protocol::ping::Ping;
use tsugite_core::protocol::resources::{Subscribe, Unsubscribe};
use tsugite_core::protocol::subscriptions::Listen;
use tsugite_core::protocol::tools::Call;
use tsugite_core::protocol::{Implementation, Method};
use tsugite_core::revision::{RpcError, Revision, translate_raw_result, read_params};
use tsugite_core::session::RequestMeta;

use super::far::{Far, InFlight, Place, unsaid};
use super::lend::{self, Pool};
use super::parked::{self, Earlier, ParkedCalls};
use super::session::Session;
use super::target::Target;
use super::together::together;
use super::{Settings, hello, listening, names, rounds};
use crate::client::forwarded_request::ForwardedRequest;
use crate::lock::lock;
use crate::server::layer::{LayerFuture, NotificationHandler, RequestParts, DynService, LayerRequest, LayerResponse};
use crate::server::connection::ServerConnection;

/// The bridge, as a server sees it.
pub(super) struct Relay {
    pub(super) targets: Vec<Arc<Target>>,
    pub(super) settings: Settings,
    pub(super) pools: Vec<Arc<Pool>>,
    pub(super) parked: Arc<ParkedCalls>,
    /// Every connection there is; none, and none to come, when the bridge is closed.
    open: Mutex<Option<Vec<Weak<Far>>>>,
}

/// What a server is, around the bridge.
pub(super) struct Plugged(pub(super) Arc<Relay>);

impl DynService for Plugged {
    fn call(&self, request: LayerRequest) -> LayerFuture {
        let relay = Arc::clone(&self.0);
        Box::pin(async move {
            let (method, job) = request.into_parts();
            relay.answer(&method, &job).await.map(|result| LayerResponse { result })
        })
    }
}

impl NotificationHandler for Plugged {
    /// What a client with a session says goes to its servers.
    fn handle_notification(&self, link: &Arc<ServerConnection>, method: &str, params: Option<Raw<'_>>) {
        let (Some(session), Some(revision)) = (self.0.session(link), link.revision()) else { return };
        let (method, params) = (method.to_owned(), params.map(Raw::to_owned));
        // Behind what was said before it.
        session.say(Box::pin({
            let fars = session.fars.clone();
            async move {
                for far in fars {
                    let Some(client) = far.up_now() else { continue };
                    if let Err(error) =
                        client.forward_notification(&method, params.as_ref().map(Raw::from), revision).await
                    {
                        tracing::debug!(method, %error, "a notification does not cross");
                    }
                }
            }
        }));
    }
}

impl Relay {
    pub(super) fn new(targets: Vec<Arc<Target>>, settings: Settings) -> Arc<Self> {
        let pools = targets.iter().map(|_| Arc::new(Pool::default())).collect();
        let parked = Arc::new(ParkedCalls::new(settings.parked, settings.park_time));
        Arc::new(Self { targets, settings, pools, parked, open: Mutex::new(Some(Vec::new())) })
    }

    /// Whether there is one server, whose names are its own.
    pub(super) fn is_single(&self) -> bool {
        matches!(self.targets.as_slice(), [target] if target.prefix.is_none())
    }

    /// Remembers a connection, so that it can be ended politely. Fails if there are too many.
    pub(super) fn admit(&self, opening: impl FnOnce() -> Arc<Far>) -> Result<Arc<Far>, RpcError> {
        let mut open = lock(&self.open);
        let Some(open) = &mut *open else { return Err(RpcError::internal_with_message("the bridge is closed")) };
        open.retain(|far| far.strong_count() > 0);
        if open.len() >= self.settings.connections {
            return Err(RpcError::internal_with_message(format!(
                "the bridge has {} connections open, as many as it may; try again later",
                open.len()
            )));
        }
        let far = opening();
        open.push(Arc::downgrade(&far));
        Ok(far)
    }

    /// Ends every connection politely.
    pub(super) async fn close(&self) {
        let open = lock(&self.open).take();
        self.parked.end();
        let open = open.into_iter().flatten().filter_map(|far| far.upgrade());
        let closing: Vec<_> = open.map(|far| tokio::spawn(async move { far.close().await })).collect();
        for far in closing {
            let _ = far.await;
        }
        for target in &self.targets {
            target.left().await;
        }
    }

    async fn answer(self: &Arc<Self>, method: &str, job: &RequestParts) -> Result<RawJson, RpcError> {
        match method {
            // What comes rarely has a place of its own, so that every request need not have room for it.
            Initialize::NAME => Box::pin(hello::initialize(self, job)).await,
            Discover::NAME if job.revision.is_stateless() => Box::pin(hello::discover(self, job)).await,
            Ping::NAME if !job.revision.is_stateless() => Ok(RawJson::empty_object()),
            // A method of another era; what no era has may be the server's own.
            _ if job.revision.is_unavailable_method(method) => {
                Err(RpcError::MethodNotFound { method: method.to_owned() })
            }
            Listen::NAME => Box::pin(listening::listen(self, job, place(job)?)).await,
            _ if job.revision.is_stateless() => Box::pin(self.without_session(method, job)).await,
            _ => self.in_session(method, job).await,
        }
    }

    /// The session of a client, made when it is first needed: a request that stands alone has had no handshake.
    pub(super) fn session(&self, link: &Arc<ServerConnection>) -> Option<Arc<Session>> {
        link.extension()
    }

    async fn in_session(self: &Arc<Self>, method: &str, job: &RequestParts) -> Result<RawJson, RpcError> {
        let session = match self.session(&job.connection) {
            Some(session) => session,
            None => Box::pin(hello::begin_without_handshake(self, job)).await?,
        };
        match method {
            SetLevel::NAME => {
                let level = read_params::<SetLevel>(Raw::from(&job.params), job.revision)?.level;
                session.set_level(level);
                return Box::pin(self.set_level(&session, job)).await;
            }
            _ if names::is_list(method) && !self.is_single() => {
                return Box::pin(names::merged(&session.fars, method, job, session.level())).await;
            }
            _ => {}
        }
        let (index, params) = names::inward(&self.targets, method, &job.params, job.revision)?;
        let far = session.fars.get(index).ok_or(RpcError::Internal)?;
        if far.up().await?.revision().is_stateless() {
            match method {
                Subscribe::NAME => return Box::pin(session.watch(far, &params, job)).await,
                Unsubscribe::NAME => return session.unwatch(far, &params, job),
                _ => {}
            }
        }
        let request = match &params {
            Cow::Borrowed(_) => ForwardedRequest::from_parsed(method, job),
            Cow::Owned(params) => ForwardedRequest::new(method, params, job.revision),
        };
        let flight = InFlight::new(job.revision, place(job)?);
        let (result, from) = rounds::followed(far, request, &session, job, &flight).await?;
        far.told.note(method, &params, job.revision);
        back(far, method, &result, from, job.revision)
    }

    /// Tells every server which logs are wanted. One that is told with each request is not told now.
    async fn set_level(&self, session: &Session, job: &RequestParts) -> Result<RawJson, RpcError> {
        let flight = InFlight::new(job.revision, place(job)?);
        let mut wanting = session.fars.iter().filter(|far| match far.up_now() {
            Some(client) if client.revision().is_stateless() => false,
            Some(client) => self.is_single() || logs(client.server_capabilities().as_ref()),
            None => false,
        });
        let tell = |far: &Arc<Far>| {
            let (far, flight) = (Arc::clone(far), &flight);
            async move {
                let told = far.send(ForwardedRequest::new(SetLevel::NAME, &job.params, job.revision), flight).await?;
                far.told.note(SetLevel::NAME, &job.params, job.revision);
                Ok(told)
            }
        };
        if !self.is_single() {
            // What one of them says to it is of no interest to the client.
            together(wanting.map(|far| far.in_time(tell(far)))).await;
            return Ok(RawJson::empty_object());
        }
        let Some(far) = wanting.next() else { return Ok(RawJson::empty_object()) };
        let (result, from) = tell(far).await?;
        back(far, SetLevel::NAME, &result, from, job.revision)
    }

    async fn without_session(self: &Arc<Self>, method: &str, job: &RequestParts) -> Result<RawJson, RpcError> {
        if names::is_list(method) && !self.is_single() {
            let lent = Box::pin(lend::all(self, job)).await?;
            let fars: Vec<_> = lent.iter().map(|lent| Arc::clone(&lent.far)).collect();
            return Box::pin(names::merged(&fars, method, job, None)).await;
        }
        let foreign = match parked::taken_up(self, method, job)? {
            Earlier::Call(parked) => return Box::pin(parked::go_on(self, parked, method, job)).await,
            Earlier::State(refusal) => Some(refusal),
            Earlier::None => None,
        };
        let (index, params) = names::inward(&self.targets, method, &job.params, job.revision)?;
        let lent = lend::one(self, index, method, job).await?;
        let place = place(job)?;
        if method == Call::NAME && job.caller.headers.is_present() {
            Box::pin(mirrored(&lent.far, &params, job)).await?;
        }
        if lent.far.up().await?.revision().is_stateless() {
            let flight = InFlight::new(job.revision, place);
            let (result, from) = lent.far.send(ForwardedRequest::new(method, &params, job.revision), &flight).await?;
            return back(&lent.far, method, &result, from, job.revision);
        }
        if let Some(refusal) = foreign {
            return Err(refusal);
        }
        let parked = parked::begin(lent, method, params.into_owned(), job, place)?;
        parked::go_on(self, parked, method, job).await
    }
}

/// What a server gave, as the client reads it.
pub(super) fn back(
    far: &Far,
    method: &str,
    result: &RawJson,
    from: Revision,
    to: Revision,
) -> Result<RawJson, RpcError> {
    let named = names::outward_result(&far.target, method, result);
    let result = named.as_ref().unwrap_or(result);
    let server: Option<Implementation> = match to.is_stateless() && !from.is_stateless() {
        true => far.up_now().and_then(|client| client.server_info()),
        false => None,
    };
    translate_raw_result(method, Raw::from(result), from, to, server.as_ref())
        .map_err(|unsayable| unsaid(&unsayable, method))
}

/// Fails unless the headers of a call repeat what its arguments say, where the tool wants that.
async fn mirrored(far: &Far, params: &RawJson, job: &RequestParts) -> Result<(), RpcError> {
    let peek = looked_at(params)?;
    let Some(Some(name)) = peek.mcp_name(Call::NAME) else { return Ok(()) };
    let arguments = match peek.arguments() {
        Some(arguments) => arguments,
        None => Raw::empty_object(),
    };
    let headers = &job.caller.headers;
    let lookup = |name: &str| headers.single(&format!("mcp-param-{name}"));
    far.up().await?.check_param_headers(name, arguments, lookup).await
}

/// Where what is said before an answer goes.
pub(super) fn place(job: &RequestParts) -> Result<Place, RpcError> {
    let logs = match job.revision.is_stateless() {
        true => looked_at(&job.params)?.declared_client()?.log_level,
        false => None,
    };
    Ok(Place { id: job.id.clone(), outbox: job.outbox.clone(), token: job.progress_token.clone(), logs })
}

fn looked_at(params: &RawJson) -> Result<RequestMeta<'_>, RpcError> {
    RequestMeta::from_params(Raw::from(params)).map_err(|error| RpcError::invalid_params(&error))
}

fn logs(offered: Option<&tsugite_core::protocol::ServerCapabilities>) -> bool {
    offered.is_none_or(|offered| offered.logging.is_some())
}
