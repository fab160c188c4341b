//! `initialize` and `server/discover`.

use tsugite_core::protocol::capabilities::{ListCapability, ResourcesCapability, TasksCapability};
use tsugite_core::protocol::discover::DiscoverResult;
use tsugite_core::protocol::lifecycle::{Initialize, InitializeResult};
use tsugite_core::protocol::{Object, ServerCapabilities, idempotency, tasks};
use tsugite_core::revision::{Revision, RpcError, read_initialize_params, trim_initialize_params};

use super::connection::ServerConnection;
use super::declared_capabilities::DeclaredCapabilities;
use super::incoming_request::IncomingRequest;
use super::{Config, ServerShared, lists};
use crate::shared::list_kind::ListKind;

impl ServerConnection {
    /// Answers `initialize` and begins a session. The client sends nothing else before it has the response, so a layer
    /// may take its time.
    pub(crate) fn initialize(&self, request: IncomingRequest<'_>) -> Result<(), RpcError> {
        let params = read_initialize_params(request.request.params(), request.revision)?;
        let mut result = initialize_result(&self.server.shared, &self.config, request.revision);
        if self.is_single_request() {
            strip_push_capabilities(&mut result.capabilities);
        }
        // Callers that cannot be told apart must not list each other's tasks.
        if !request.has_identified_caller()
            && let Some(tasks) = &mut result.capabilities.tasks
        {
            tasks.list = None;
        }
        let declared = DeclaredCapabilities::from_capabilities(&result.capabilities);
        let kept = trim_initialize_params(request.request.params())?;
        if kept.text().len() > MAX_CLIENT_DESCRIPTION_BYTES {
            return Err(RpcError::InvalidParams(
                format!(
                    "Invalid params: client info and capabilities have {} bytes; this server takes {}",
                    kept.text().len(),
                    MAX_CLIENT_DESCRIPTION_BYTES
                )
                .into(),
            ));
        }
        self.begin_session(&params.protocol_version, kept, declared)?;
        self.push.reset();
        // Where there is a stream already, changes may be announced at any time.
        if self.push.has_queue() {
            self.listener();
        }
        self.send_result::<Initialize>(request, result);
        Ok(())
    }

    /// Completes the handshake without messages, for a session of another replica or a request without a session.
    pub(crate) fn complete_handshake(&self, revision: Revision) -> DeclaredCapabilities {
        let capabilities = capabilities(&self.server.shared, &self.config);
        let declared = DeclaredCapabilities::from_capabilities(&capabilities);
        self.set_handshake_complete(revision, declared);
        declared
    }

    /// Whether tools, prompts or resources are available: as declared to the session, or as registered now.
    pub(crate) fn supports_kind(&self, request: IncomingRequest<'_>, kind: ListKind) -> bool {
        match request.revision.is_stateless() {
            true => self.config.declare_all_capabilities || self.server.shared.registry().has(kind),
            false => request.declared.has(kind),
        }
    }

    /// Whether tasks are available: as declared to the session, or as registered now.
    pub(crate) fn supports_tasks(&self, request: IncomingRequest<'_>) -> bool {
        match request.revision.has_task_extension() {
            true => self.server.shared.registry().has_task_tools(),
            false => request.declared.tasks,
        }
    }

    /// Whether completion is available: as declared to the session, or as registered now.
    pub(crate) fn supports_completion(&self, request: IncomingRequest<'_>) -> bool {
        match request.revision.is_stateless() {
            true => self.server.shared.registry().has_completers(),
            false => request.declared.completions,
        }
    }
}

/// The result of `initialize`.
pub(crate) fn initialize_result(
    shared: &ServerShared,
    config: &Config,
    revision: Revision,
) -> InitializeResult {
    let mut answer =
        InitializeResult::new(revision.as_str(), capabilities(shared, config), config.info.clone());
    answer.instructions.clone_from(&config.instructions);
    answer
}

/// The result of `server/discover`.
pub(crate) fn discover_result(connection: &ServerConnection) -> DiscoverResult {
    let (shared, config) = (&connection.server.shared, &connection.config);
    let versions: Vec<String> = config.revisions.names().into_iter().map(str::to_owned).collect();
    let mut answer = DiscoverResult::new(versions, capabilities(shared, config));
    answer.instructions.clone_from(&config.instructions);
    lists::set_cache_hint(&mut answer, config.cache, false);
    answer
}

/// Removes capabilities that need server-initiated messages.
pub(crate) fn strip_push_capabilities(capabilities: &mut ServerCapabilities) {
    capabilities.logging = None;
    capabilities.tools = capabilities.tools.take().map(|_| ListCapability::new());
    capabilities.prompts = capabilities.prompts.take().map(|_| ListCapability::new());
    capabilities.resources = capabilities.resources.take().map(|_| ResourcesCapability::new());
}

/// Declares the capabilities of the registered items. All of them may change while the server runs.
pub(crate) fn capabilities(shared: &ServerShared, config: &Config) -> ServerCapabilities {
    let registry = shared.registry();
    let has = |kind| config.declare_all_capabilities || registry.has(kind);
    let list = || ListCapability::new().list_changed(true);
    let mut capabilities = ServerCapabilities::new().logging(Object::new());
    capabilities.tools = has(ListKind::Tool).then(list);
    capabilities.prompts = has(ListKind::Prompt).then(list);
    capabilities.resources =
        has(ListKind::Resource).then(|| ResourcesCapability::new().subscribe(true).list_changed(true));
    capabilities.completions = registry.has_completers().then(Object::new);
    capabilities.experimental = (!config.experimental.is_empty()).then(|| config.experimental.clone());
    let mut extensions = config.extensions.clone();
    if registry.has_task_tools() {
        // Each revision keeps the one of the two that it has.
        let call = Object::from_iter([("call".to_owned(), Object::new().into())]);
        let requests = Object::from_iter([("tools".to_owned(), call.into())]);
        let tasks = TasksCapability::new().list(Object::new()).cancel(Object::new()).requests(requests);
        capabilities.tasks = Some(tasks);
        extensions.insert(tasks::EXTENSION.to_owned(), Object::new().into());
    }
    if registry.has_once_tools() {
        extensions.insert(idempotency::EXTENSION.to_owned(), Object::new().into());
    }
    capabilities.extensions = (!extensions.is_empty()).then_some(extensions);
    capabilities
}

/// The limit on what a client says about itself in `initialize`, which the session keeps.
const MAX_CLIENT_DESCRIPTION_BYTES: usize = 16 << 10;
