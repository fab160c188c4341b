//! `resources/read`.

use std::sync::Arc;

use tsugite_core::protocol::Method;
use tsugite_core::protocol::caching::CacheScope;
use tsugite_core::protocol::resources::Read;
use tsugite_core::revision::{RpcError, read_params};

use super::arguments::Arguments;
use super::connection::ServerConnection;
use super::handler::CallParts;
use super::handler_error::InvocationError;
use super::incoming_request::IncomingRequest;
use super::lazy_context::LazyContext;
use super::lists;
use super::pending::PendingRequest;
use super::registry::resource_template;
use super::subject::Subject;
use super::tools::resume;

/// Responds to `resources/read`.
pub(crate) fn read(
    connection: &Arc<ServerConnection>,
    request: IncomingRequest<'_>,
    context: &LazyContext<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let uri = read_params::<Read>(request.request.params(), request.revision)?.uri;
    let not_found = |uri: String| RpcError::ResourceNotFound { uri };
    // A URI with an unsafe value is treated like an unknown resource.
    let found =
        connection.server.shared.find_resource(&connection.config, request.principal(), &uri).ok().flatten();
    let Some(found) = found else { return Err(not_found(uri)) };
    let (resource, variables) = (found.item, found.variables);
    connection.config.check_scopes(request.principal(), &resource.scopes)?;
    let owner = context.set_owner(found.owner);
    resume::<Read>(connection, request, context)?;
    let states = owner.as_ref().map_or(&connection.config.states, |config| &config.states);
    let parts = CallParts { arguments: Arguments::Strings(&variables), context, states };
    let handler = resource.handler.as_ref().ok_or(RpcError::Internal)?;
    let answer = handler.call(&parts);
    let personal =
        !resource.scopes.is_empty() || connection.server.shared.has_visibility_rules(&connection.config);
    let answered = request.meta.input_responses().is_some();
    let item = resource.clone();
    let answer = Box::pin(async move {
        let mut result = answer.await.map_err(|failure| match failure {
            InvocationError::NotFound => InvocationError::Rpc(not_found(uri.clone())),
            other => other,
        })?;
        let definition = &resource.definition;
        for contents in &mut result.contents {
            if contents.uri.is_empty() {
                contents.uri.clone_from(&uri);
            }
            if contents.mime_type.is_none() {
                contents.mime_type.clone_from(&definition.mime_type);
            }
        }
        if result.ttl_ms.is_none() {
            // A result that depends on an answer belongs to this call only.
            lists::set_cache_hint(&mut result, resource.cache.filter(|_| !answered), false);
        }
        // A resource that not all callers may see is always private.
        if personal && result.cache_scope.is_some() {
            result.cache_scope = Some(CacheScope::Private);
        }
        Ok(result)
    });
    let uri = request.meta.mcp_name(Read::NAME).flatten().unwrap_or(&item.definition.uri);
    let subject = Subject::resource(uri, resource_template(&item).map(|_| &*item.definition.uri));
    Ok(connection.run_handler::<Read>(request, context, subject, answer, connection.config.call_timeout))
}
