//! `resources/read`.

use std::sync::Arc;

use tsugite_core::protocol::resources::Read;
use tsugite_core::revision::{Refusal, read_params};

use super::arguments::Arguments;
use super::context::LazyContext;
use super::failure::Failure;
use super::handler::CallParts;
use super::link::{Asked, Link, Work};
use super::lists;
use super::tools::take_up;

/// Reads a resource.
pub(crate) fn read(
    link: &Arc<Link>,
    asked: Asked<'_>,
    context: &LazyContext<'_>,
) -> Result<Option<Work>, Refusal> {
    let uri = read_params::<Read>(asked.request.params(), asked.revision)?.uri;
    let not_found = |uri: String| Refusal::ResourceNotFound { uri };
    // A URI with a value that no handler should see is not there, like any other that is not.
    let found = match uri.len() {
        0..=MOST_URI => {
            link.server.shared.find_resource(&link.config, asked.principal(), &uri).ok().flatten()
        }
        _ => None,
    };
    let Some(found) = found else { return Err(not_found(uri)) };
    take_up::<Read>(link, asked, context)?;
    let owner = found.shared.map(|owner| owner.config());
    let states = owner.as_ref().map_or(&link.config.states, |config| &config.states);
    let parts = CallParts { arguments: Arguments::Texts(&found.variables), context, states };
    let handler = found.resource.handler.as_ref().ok_or(Refusal::Internal)?;
    let answer = handler.call(&parts);
    let (config, personal) = (link.config.clone(), link.server.shared.has_rules());
    let answer = Box::pin(async move {
        let mut result = answer.await.map_err(|failure| match failure {
            Failure::NotFound => Failure::Refused(not_found(uri.clone())),
            other => other,
        })?;
        let definition = &found.resource.definition;
        for contents in &mut result.contents {
            if contents.uri.is_empty() {
                contents.uri.clone_from(&uri);
            }
            if contents.mime_type.is_none() {
                contents.mime_type.clone_from(&definition.mime_type);
            }
        }
        if result.ttl_ms.is_none() {
            match found.resource.cache {
                Some((time, scope)) => {
                    result.ttl_ms = Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
                    result.cache_scope = result.cache_scope.or(Some(scope));
                }
                None => lists::hint(&mut result, &config, personal),
            }
        }
        Ok(result)
    });
    Ok(link.run::<Read>(asked, context, answer))
}

/// How long a URI may be.
const MOST_URI: usize = 8 << 10;
