//! `prompts/get`.

use std::sync::Arc;

use tsugite_core::protocol::prompts::Get;
use tsugite_core::revision::{RpcError, read_params};
use tsugite_core::uri_template::{TemplateValue, Variables};

use super::arguments::Arguments;
use super::connection::ServerConnection;
use super::handler::CallParts;
use super::handler_error::InvocationError;
use super::incoming_request::IncomingRequest;
use super::lazy_context::LazyContext;
use super::pending::PendingRequest;
use super::prompt::Prompt;
use super::subject::Subject;
use super::tools::resume;

/// Responds to `prompts/get`.
pub(crate) fn get(
    connection: &Arc<ServerConnection>,
    request: IncomingRequest<'_>,
    context: &LazyContext<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let params = read_params::<Get>(request.request.params(), request.revision)?;
    let shared = &connection.server.shared;
    let found = shared.find::<Prompt>(&connection.config, request.principal(), &params.name);
    let found = found.ok_or_else(|| RpcError::UnknownPrompt { name: params.name.clone() })?;
    let prompt = found.item;
    connection.config.check_scopes(request.principal(), &prompt.scopes)?;
    let given = params.arguments.unwrap_or_default();
    let wanted = prompt.definition.arguments.iter().flatten();
    if let Some(lacking) =
        wanted.filter(|known| known.required == Some(true)).find(|known| given.get(&known.name).is_none())
    {
        let text = format!("Invalid params: the prompt needs the argument `{}`", lacking.name);
        return Err(RpcError::InvalidParams(text.into()).with("path", format!("arguments.{}", lacking.name)));
    }
    let texts: Variables = given.into_iter().map(|(name, text)| (name, TemplateValue::Text(text))).collect();
    let owner = context.set_owner(found.owner);
    resume::<Get>(connection, request, context)?;
    let states = owner.as_ref().map_or(&connection.config.states, |config| &config.states);
    let parts = CallParts { arguments: Arguments::Strings(&texts), context, states };
    let handler = prompt.handler.as_ref().ok_or(RpcError::Internal)?;
    let answer = handler.call(&parts);
    let description = prompt.definition.description.clone();
    let answer = Box::pin(async move {
        let mut result = answer.await?;
        result.description = result.description.or(description);
        Ok::<_, InvocationError>(result)
    });
    Ok(connection.run_handler::<Get>(
        request,
        context,
        Subject::prompt(&params.name),
        answer,
        connection.config.call_timeout,
    ))
}
