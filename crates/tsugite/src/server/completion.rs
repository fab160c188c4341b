//! `completion/complete`.

use std::sync::Arc;

use tsugite_core::protocol::completion::{Complete, CompleteResult, Completion, Reference};
use tsugite_core::revision::{RpcError, read_params};

use super::completer::{Completer, CompletionRequest};
use super::connection::ServerConnection;
use super::dispatch::IncomingRequest;
use super::handler_error::InvocationError;
use super::lazy_context::{CallContext, LazyContext};
use super::pending::PendingRequest;
use super::prompt::Prompt;

/// Responds with completions for an argument.
pub(crate) fn complete(
    connection: &Arc<ServerConnection>,
    request: IncomingRequest<'_>,
    context: &LazyContext<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let params = read_params::<Complete>(request.request.params(), request.revision)?;
    let completer = find_completer(connection, request, &params.r#ref, &params.argument.name)?;
    let arguments = params.context.and_then(|context| context.arguments).unwrap_or_default();
    let typing = CompletionRequest::new(params.argument.value, arguments, context.get());
    let answer = Box::pin(async move {
        let completion = match completer {
            Some(completer) => completer.complete(typing).await.map_err(InvocationError::Handler)?,
            None => Completion::new([]).total(0_u64).has_more(false),
        };
        Ok(CompleteResult::new(completion))
    });
    Ok(connection.run_handler::<Complete>(request, context, answer))
}

/// Returns the completer of an argument, if it has one. Fails if the prompt, template or argument does not exist.
fn find_completer(
    connection: &ServerConnection,
    request: IncomingRequest<'_>,
    reference: &Reference,
    argument: &str,
) -> Result<Option<Completer>, RpcError> {
    let (shared, config, principal) = (&connection.server.shared, &connection.config, request.principal());
    let bad = |text: String| RpcError::InvalidParams(format!("Invalid params: {text}").into());
    let unknown = || bad(format!("there is no argument `{}`", truncate(argument)));
    match reference {
        Reference::Prompt { name, .. } => {
            let found = shared.find::<Prompt>(config, principal, name);
            let prompt = found.ok_or_else(|| RpcError::UnknownPrompt { name: name.clone() })?.item;
            let known = prompt.definition.arguments.iter().flatten().any(|known| known.name == argument);
            if known { Ok(prompt.completer(argument).cloned()) } else { Err(unknown()) }
        }
        Reference::Resource { uri } => {
            let Some(family) = shared.find_template(config, principal, uri).map(|found| found.item) else {
                // A resource that is not a template exists, but has nothing to complete.
                return match shared.find_resource(config, principal, uri) {
                    Ok(Some(_)) => Ok(None),
                    _ => Err(bad(format!("there is no template `{}`", truncate(uri)))),
                };
            };
            let template = super::registry::resource_template(&family);
            let known = template.is_some_and(|template| template.variables().any(|known| known == argument));
            if known { Ok(family.completer(argument).cloned()) } else { Err(unknown()) }
        }
        _ => Err(bad("this cannot be completed".to_owned())),
    }
}

fn truncate(text: &str) -> String {
    text.chars().take(100).collect()
}
