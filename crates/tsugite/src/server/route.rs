//! The router: one line per method.

use std::sync::Arc;

use tsugite_core::protocol::{
    Method, completion, discover, lifecycle, logging, ping, prompts, resources, result::EmptyResult,
    subscriptions, tasks, tools,
};
use tsugite_core::revision::{
    MessageSender as Side, MethodKind as Message, RpcError, canonical_method, read_params,
};

use super::connection::ServerConnection;
use super::incoming_request::IncomingRequest;
use super::lazy_context::LazyContext;
use super::lists::{list, list_with_files};
use super::pending::PendingRequest;
use super::registry::ListKind;

/// Dispatches a request to its method.
pub(crate) fn route(
    connection: &Arc<ServerConnection>,
    request: IncomingRequest<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let (method, revision) = (canonical_method(&request.request.method), request.revision);
    let unknown = || RpcError::MethodNotFound { method: method.to_owned() };
    if !revision.has_method(Message::Request, method, Side::Client) {
        return Err(unknown());
    }
    let shared = &connection.server.shared;
    let has = |kind| connection.supports_kind(request, kind);
    let context = |may_ask| LazyContext::new(connection, request, may_ask);
    match method {
        tools::Call::NAME if has(ListKind::Tool) => {
            return super::tools::call(connection, request, &context(true));
        }
        tools::List::NAME if has(ListKind::Tool) => list::<tools::List>(connection, request)?,
        prompts::Get::NAME if has(ListKind::Prompt) => {
            return super::prompts::get(connection, request, &context(true));
        }
        prompts::List::NAME if has(ListKind::Prompt) => list::<prompts::List>(connection, request)?,
        resources::Read::NAME if has(ListKind::Resource) => {
            return super::resources::read(connection, request, &context(true));
        }
        resources::List::NAME if has(ListKind::Resource) && shared.has_directories() => {
            return list_with_files(connection, request, &context(false));
        }
        resources::List::NAME if has(ListKind::Resource) => list::<resources::List>(connection, request)?,
        resources::ListTemplates::NAME if has(ListKind::Resource) => {
            list::<resources::ListTemplates>(connection, request)?
        }
        // A single request without a session cannot have a subscription.
        resources::Subscribe::NAME | resources::Unsubscribe::NAME | logging::SetLevel::NAME
            if connection.is_single_request() =>
        {
            return Err(unknown());
        }
        resources::Subscribe::NAME if has(ListKind::Resource) => {
            super::subscriptions::subscribe(connection, request)?
        }
        resources::Unsubscribe::NAME if has(ListKind::Resource) => {
            super::subscriptions::unsubscribe(connection, request)?
        }
        completion::Complete::NAME if connection.supports_completion(request) => {
            return super::completion::complete(connection, request, &context(false));
        }
        tasks::Get::NAME if connection.supports_tasks(request) => {
            return super::tasks::get(connection, request);
        }
        tasks::Update::NAME if connection.supports_tasks(request) => {
            return super::tasks::update(connection, request);
        }
        tasks::Cancel::NAME if connection.supports_tasks(request) => {
            return super::tasks::cancel(connection, request);
        }
        tasks::Payload::NAME if connection.supports_tasks(request) => {
            return super::tasks::result(connection, request);
        }
        // A caller that is not known cannot be told from others.
        tasks::List::NAME if connection.supports_tasks(request) && request.has_identified_caller() => {
            return super::tasks::list(connection, request);
        }
        subscriptions::Listen::NAME => return super::subscriptions::listen(connection, request),
        lifecycle::Initialize::NAME => connection.initialize(request)?,
        discover::Discover::NAME => connection
            .send_result::<discover::Discover>(request, super::lifecycle::discover_result(connection)),
        ping::Ping::NAME => connection.send_result::<ping::Ping>(request, EmptyResult::new()),
        logging::SetLevel::NAME => {
            connection
                .set_log_level(read_params::<logging::SetLevel>(request.request.params(), revision)?.level);
            connection.send_result::<logging::SetLevel>(request, EmptyResult::new());
        }
        _ => return Err(unknown()),
    }
    Ok(None)
}
