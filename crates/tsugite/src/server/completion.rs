//! `completion/complete`.

use std::sync::Arc;

use tsugite_core::protocol::Method;
use tsugite_core::protocol::completion::{Complete, CompleteResult, Reference};
use tsugite_core::revision::{RpcError, read_params};
use tsugite_core::uri_template::Variables;

use super::ServerShared;
use super::arguments::Arguments;
use super::completer::{Completer, CompletionRequest, to_completion};
use super::connection::ServerConnection;
use super::handler::CallParts;
use super::incoming_request::IncomingRequest;
use super::lazy_context::{CallContext, LazyContext};
use super::pending::PendingRequest;
use super::prompt::Prompt;
use super::subject::Subject;

/// Responds with completions for an argument.
pub(crate) fn complete(
    connection: &Arc<ServerConnection>,
    request: IncomingRequest<'_>,
    context: &LazyContext<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let params = read_params::<Complete>(request.request.params(), request.revision)?;
    let (completer, owner) = find_completer(connection, request, &params.r#ref, &params.argument.name)?;
    let owner = context.set_owner(owner);
    let arguments = params.context.and_then(|context| context.arguments).unwrap_or_default();
    let states = owner.as_ref().map_or(&connection.config.states, |config| &config.states);
    let no_arguments = Variables::default();
    let parts = CallParts { arguments: Arguments::Strings(&no_arguments), context, states };
    let values = completer.map(|completer| {
        let typing = CompletionRequest::new(params.argument.value, arguments, context.get());
        completer.complete(typing, &parts)
    });
    let answer = Box::pin(async move {
        let values = match values {
            Some(values) => values.await?,
            None => Vec::new(),
        };
        Ok(CompleteResult::new(to_completion(values)))
    });
    let name = match &params.r#ref {
        Reference::Prompt { name, .. } => name,
        Reference::Resource { uri } => uri,
        _ => Complete::NAME,
    };
    let subject = Subject::completion(name, &params.argument.name);
    Ok(connection.run_handler::<Complete>(request, context, subject, answer, connection.config.call_timeout))
}

/// Returns the completer of an argument, if it has one. Fails if the prompt, template or argument does not exist.
fn find_completer(
    connection: &ServerConnection,
    request: IncomingRequest<'_>,
    reference: &Reference,
    argument: &str,
) -> Result<(Option<Completer>, Option<Arc<ServerShared>>), RpcError> {
    let (shared, config, principal) = (&connection.server.shared, &connection.config, request.principal());
    let bad = |path: &str, text: String| {
        RpcError::InvalidParams(format!("Invalid params: {text}").into()).with("path", path)
    };
    let unknown = || bad("argument.name", format!("there is no argument `{}`", truncate(argument)));
    match reference {
        Reference::Prompt { name, .. } => {
            let found = shared.find::<Prompt>(config, principal, name);
            let found = found.ok_or_else(|| RpcError::UnknownPrompt { name: name.clone() })?;
            let prompt = found.item;
            config.check_scopes(principal, &prompt.scopes)?;
            let known = prompt.definition.arguments.iter().flatten().any(|known| known.name == argument);
            if known { Ok((prompt.completer(argument).cloned(), found.owner)) } else { Err(unknown()) }
        }
        Reference::Resource { uri } => {
            let Some(found) = shared.find_template(config, principal, uri) else {
                // A resource that is not a template exists, but has nothing to complete.
                return match shared.find_resource(config, principal, uri) {
                    Ok(Some(_)) => Ok((None, None)),
                    _ => Err(bad("ref.uri", format!("there is no template `{}`", truncate(uri)))),
                };
            };
            let family = found.item;
            config.check_scopes(principal, &family.scopes)?;
            let template = super::registry::resource_template(&family);
            let known = template.is_some_and(|template| template.variables().any(|known| known == argument));
            if known { Ok((family.completer(argument).cloned(), found.owner)) } else { Err(unknown()) }
        }
        _ => Err(bad("ref", "this cannot be completed".to_owned())),
    }
}

fn truncate(text: &str) -> String {
    text.chars().take(100).collect()
}
