//! The router: one line per method.

use std::sync::Arc;

use tsugite_core::protocol::{
    Method, completion, discover, lifecycle, logging, ping, prompts, resources, result::EmptyResult,
    subscriptions, tools,
};
use tsugite_core::revision::{
    MessageSender as Side, MethodKind as Message, RpcError, canonical_method, read_params,
};

use super::connection::ServerConnection;
use super::dispatch::IncomingRequest;
use super::lazy_context::LazyContext;
use super::lists::{list, list_with_files};
use super::pending::PendingRequest;
use super::registry::ListKind;

/// Dispatches a request to its method.
pub(crate) fn route(
    link: &Arc<ServerConnection>,
    asked: IncomingRequest<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let (method, revision) = (canonical_method(&asked.request.method), asked.revision);
    let unknown = || RpcError::MethodNotFound { method: method.to_owned() };
    if !revision.has_method(Message::Request, method, Side::Client) {
        return Err(unknown());
    }
    let shared = &link.server.shared;
    let has = |kind| link.supports_kind(asked, kind);
    let context = |may_ask| LazyContext::new(link, asked, may_ask);
    match method {
        tools::Call::NAME if has(ListKind::Tool) => return super::tools::call(link, asked, &context(true)),
        tools::List::NAME if has(ListKind::Tool) => list::<tools::List>(link, asked)?,
        prompts::Get::NAME if has(ListKind::Prompt) => {
            return super::prompts::get(link, asked, &context(true));
        }
        prompts::List::NAME if has(ListKind::Prompt) => list::<prompts::List>(link, asked)?,
        resources::Read::NAME if has(ListKind::Resource) => {
            return super::resources::read(link, asked, &context(true));
        }
        resources::List::NAME if has(ListKind::Resource) && shared.has_directories() => {
            return list_with_files(link, asked, &context(false));
        }
        resources::List::NAME if has(ListKind::Resource) => list::<resources::List>(link, asked)?,
        resources::ListTemplates::NAME if has(ListKind::Resource) => {
            list::<resources::ListTemplates>(link, asked)?
        }
        // A single request without a session cannot have a subscription.
        resources::Subscribe::NAME | resources::Unsubscribe::NAME | logging::SetLevel::NAME
            if link.is_single_request() =>
        {
            return Err(unknown());
        }
        resources::Subscribe::NAME if has(ListKind::Resource) => {
            super::subscriptions::subscribe(link, asked)?
        }
        resources::Unsubscribe::NAME if has(ListKind::Resource) => {
            super::subscriptions::unsubscribe(link, asked)?
        }
        completion::Complete::NAME if link.supports_completion(asked) => {
            return super::completion::complete(link, asked, &context(false));
        }
        subscriptions::Listen::NAME => return super::subscriptions::listen(link, asked),
        lifecycle::Initialize::NAME => link.initialize(asked)?,
        discover::Discover::NAME => {
            link.send_result::<discover::Discover>(asked, super::lifecycle::discover_result(link))
        }
        ping::Ping::NAME => link.send_result::<ping::Ping>(asked, EmptyResult::new()),
        logging::SetLevel::NAME => {
            link.set_log_level(read_params::<logging::SetLevel>(asked.request.params(), revision)?.level);
            link.send_result::<logging::SetLevel>(asked, EmptyResult::new());
        }
        _ => return Err(unknown()),
    }
    Ok(None)
}
