//! Requests of another client, forwarded unchanged except where the server's revision writes them differently.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tsugite_core::jsonrpc::{Id, Raw, RawJson, write};
use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::raw_tasks::has_task_request;
use tsugite_core::protocol::{Meta, Method, OrderedMap, TaskSupport, tools};
use tsugite_core::revision::{Revision, RpcError, translate_raw_notification, translate_raw_params};
use tsugite_core::session::http::OptionalHeader;
use tsugite_core::session::{ClientMetaPresence, RequestMeta};

use super::Client;
use super::client_error::{ClientError, Result};
use super::connection::{ClientConnection, OutboundRequest};
use super::era::Era;
use super::forwarded_sender::ForwardedSender;
use super::options::Options;
use super::request_id_observer::RequestIdObserver;

/// Keeps the connection of a client closed; see [`Client::hold_closed`].
pub(crate) struct ConnectHold(
    #[allow(dead_code, reason = "held for its drop")] OwnedMutexGuard<Option<ClientError>>,
);

/// A received request, with the parts of its params that were found when it was scanned.
pub(crate) struct ScannedRequest<'a> {
    pub(crate) params: &'a RawJson,
    /// The revision it is written in.
    pub(crate) from: Revision,
    /// The tool, prompt, resource or task it is about.
    pub(crate) name: Option<&'a str>,
    pub(crate) meta_presence: ClientMetaPresence,
    pub(crate) wants_progress: bool,
}

/// A request of a client that speaks `from`.
pub(crate) struct ForwardedRequest<'a> {
    pub(crate) method: &'a str,
    params: Cow<'a, RawJson>,
    from: Revision,
    name: Option<Cow<'a, str>>,
    sender: ForwardedSender,
    /// Whether the original sender wants progress notifications.
    wants_progress: bool,
    /// The `Mcp-Param-*` headers of the original request.
    param_headers: Vec<(String, String)>,
}

impl<'a> ForwardedRequest<'a> {
    pub(crate) fn new(method: &'a str, params: &'a RawJson, from: Revision) -> Self {
        let meta = RequestMeta::from_params(Raw::from(params)).ok();
        let name = meta.as_ref().and_then(|meta| meta.mcp_name(method).flatten());
        let name = name.map(|name| Cow::Owned(name.to_owned()));
        let meta_presence =
            meta.as_ref().map_or(ClientMetaPresence::Partial, RequestMeta::client_meta_presence);
        let wants_progress = meta.is_some_and(|meta| meta.progress_token().is_some());
        let mut request = Self::from_scanned(
            method,
            ScannedRequest { params, from, name: None, meta_presence, wants_progress },
        );
        request.name = name;
        request
    }

    /// A request whose params were scanned when it was received.
    pub(crate) fn from_scanned(method: &'a str, request: ScannedRequest<'a>) -> Self {
        let ScannedRequest { params, from, name, meta_presence, wants_progress } = request;
        let name = name.map(Cow::Borrowed);
        Self {
            method,
            params: Cow::Borrowed(params),
            from,
            name,
            sender: ForwardedSender::new(meta_presence),
            wants_progress,
            param_headers: Vec::new(),
        }
    }

    /// Says whether the connection also carries requests of other senders.
    pub(crate) fn shared_connection(mut self, shared: bool) -> Self {
        self.sender.shared_connection = shared;
        self
    }

    /// Sets the `Mcp-Param-*` headers of the original request. Those that the tool does not define are forwarded unchanged.
    pub(crate) fn param_headers(mut self, headers: Vec<(String, String)>) -> Self {
        self.param_headers = headers;
        self
    }

    pub(crate) fn log_level(mut self, level: Option<Level>) -> Self {
        self.sender.log_level = level;
        self
    }
}

impl OutboundRequest for ForwardedRequest<'_> {
    fn method(&self) -> &str {
        self.method
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn encode(
        &self,
        out: &mut Vec<u8>,
        id: &Id<'_>,
        connection: &ClientConnection,
        options: &Options,
    ) -> Result<()> {
        let to = connection.revision();
        let invalid = |error| ClientError::config(format!("request params must be a JSON object: {error}"));
        let params = translate_raw_params(self.method, Raw::from(&*self.params), self.from, to)?;
        if let Some(member) = self.extra_member(id, connection, options) {
            let members = [member.as_str()];
            let members = if member.is_empty() { &[] } else { members.as_slice() };
            return write::raw_request(out, id, self.method, members, Raw::from(&params)).map_err(invalid);
        }
        let mut params: OrderedMap<RawJson> = params.read().map_err(invalid)?;
        let received: Option<Meta> = params.get("_meta").map(RawJson::read).transpose().map_err(invalid)?;
        let mut meta = received.clone();
        connection.add_request_meta(&mut meta, id, options);
        connection.era().set_forwarded_sender(&mut meta, received.as_ref(), &self.sender);
        if let Some(meta) = meta {
            params.insert("_meta", RawJson::from_value(&meta).map_err(invalid)?);
        }
        write::request(out, id, self.method, Some(&params)).map_err(invalid)
    }

    fn asks_for_task(&self) -> bool {
        self.method == tools::Call::NAME && self.from.has_core_tasks() && has_task_request(&self.params)
    }

    fn param_headers(&self, connection: &ClientConnection) -> Vec<(String, String)> {
        match &self.name {
            Some(name) if self.method == tools::Call::NAME && connection.era().mirrors_headers() => {
                let meta = RequestMeta::from_params(Raw::from(&*self.params)).ok();
                let arguments = meta.as_ref().and_then(RequestMeta::arguments);
                let mut headers = connection.shared.tools.param_headers(name, arguments.map(Raw::text));
                let defined = headers.len();
                for (name, value) in &self.param_headers {
                    let mut known = headers.iter().take(defined);
                    if !known.any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                        headers.push((name.clone(), value.clone()));
                    }
                }
                headers
            }
            _ => Vec::new(),
        }
    }
}

impl ForwardedRequest<'_> {
    /// The same call of a tool, which can outlive the request that was received.
    fn to_owned_call(&self) -> ForwardedRequest<'static> {
        ForwardedRequest {
            method: tools::Call::NAME,
            params: Cow::Owned(self.params.clone().into_owned()),
            from: self.from,
            name: self.name.clone().map(|name| Cow::Owned(name.into_owned())),
            sender: self.sender.clone(),
            wants_progress: self.wants_progress,
            param_headers: self.param_headers.clone(),
        }
    }

    /// The member to add to params that can otherwise be sent unchanged; empty if there is none to add. `None` if their
    /// `_meta` must be rewritten.
    fn extra_member(&self, id: &Id<'_>, connection: &ClientConnection, options: &Options) -> Option<String> {
        if options.wants_progress() || options.meta.is_some() {
            return None;
        }
        connection.era().forwarded_member(&self.sender, id, connection, options)
    }
}

impl Client {
    /// Forwards a request, and returns its result unchanged, with the revision it is written in. `observer` receives the
    /// id of each attempt before it is sent. Dropping the future cancels the request, or the task that it asked for.
    pub(crate) async fn forward(
        &self,
        request: &ForwardedRequest<'_>,
        idle_timeout: Duration,
        observer: Arc<dyn RequestIdObserver>,
    ) -> Result<(RawJson, Revision)> {
        let options = Options {
            idle_timeout: Some(idle_timeout),
            // As long as the server reports progress.
            total_timeout: Some(Duration::MAX),
            request_progress: request.wants_progress,
            request_id_observer: Some(observer),
            ..Options::default()
        };
        let connection = self.last_connection().filter(|connection| connection.revision().has_core_tasks());
        if connection.is_some() && request.asks_for_task() {
            let request = request.to_owned_call();
            let send = async move |client: Client, options: Options| {
                client.send_with_retry(&request, &options).await
            };
            return Box::pin(self.run_task_request(options, send)).await;
        }
        let (result, revision) = self.send_with_retry(request, &options).await?;
        if request.method == tools::List::NAME && Era::from(revision).mirrors_headers() {
            self.update_tool_metadata(&result, revision);
        }
        Ok((result, revision))
    }

    /// Forwards a notification of a client that speaks `from`.
    pub(crate) async fn forward_notification(
        &self,
        method: &str,
        params: Option<Raw<'_>>,
        from: Revision,
    ) -> Result<()> {
        let connection = self.connection().await?;
        let bare = params.is_none();
        let params = translate_raw_notification(
            method,
            params.unwrap_or(Raw::empty_object()),
            from,
            connection.revision(),
        )?;
        let mut bytes = Vec::with_capacity(128);
        let invalid = |error| ClientError::config(format!("cannot forward a notification: {error}"));
        let sent = (!bare || params.text() != "{}").then_some(&params);
        write::notification(&mut bytes, method, sent).map_err(invalid)?;
        connection.send_message(bytes).await.map_err(ClientError::from)
    }

    /// The size limit of a `requestState` that is sent back.
    pub(crate) fn max_request_state_bytes(&self) -> usize {
        self.inner.shared.settings.max_request_state_bytes
    }

    /// The result of `initialize` or `server/discover`, unchanged.
    pub(crate) fn handshake_result(&self) -> Option<RawJson> {
        self.last_connection()?.handshake_result()
    }

    /// Closes the connection, and opens none until the hold is dropped: calls wait for it.
    pub(crate) async fn hold_closed(&self) -> ConnectHold {
        let hold = ConnectHold(Arc::clone(&self.inner.connect_lock).lock_owned().await);
        if let Some(connection) = self.last_connection() {
            connection.begin_close();
            connection.mark_disconnected("the server is being replaced");
            connection.close().await;
        }
        hold
    }

    /// Opens the connection again if it is lost.
    pub(crate) async fn reconnect(&self) -> Result<()> {
        self.connection().await.map(drop)
    }

    /// Fails unless the headers of a call repeat the arguments that the tool marks for it. Reads the list of tools if
    /// it is not known yet.
    pub(crate) async fn check_param_headers<'h>(
        &self,
        name: &str,
        arguments: Raw<'_>,
        lookup: impl Fn(&str) -> OptionalHeader<'h>,
    ) -> Result<(), RpcError> {
        let tools = &self.inner.shared.tools;
        if !tools.is_complete() {
            // Without a list the server itself checks the headers.
            let _ = self.ensure_tool_listed(name).await;
        }
        let Some(params) = tools.header_params(name) else { return Ok(()) };
        let arguments: serde_json::Value =
            arguments.read().map_err(|error| RpcError::invalid_params(&error))?;
        params.check(&arguments, lookup)
    }

    /// Whether the server runs a tool as a task (2025-11-25). Reads the list of tools if it is not known yet.
    pub(crate) async fn task_support(&self, name: &str) -> TaskSupport {
        // Without a list the tool is called as before or as any other, and the server says if that is wrong.
        let listed = Box::pin(self.listed_task_support(name)).await;
        listed.unwrap_or_else(|_| self.inner.shared.tools.last_task_support(name))
    }

    fn update_tool_metadata(&self, result: &RawJson, revision: Revision) {
        if let Ok(mut list) = super::call::decode_result::<tools::List>(result, revision) {
            self.record_tools(&mut list.tools, revision);
        }
    }
}
