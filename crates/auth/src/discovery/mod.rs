//! Finds the authorization server of a protected server.
//!
//! - `resource_metadata`: the metadata of the protected server (RFC 9728), or the fallback of 2025-03-26.
//! - `server_metadata`: the metadata of the authorization server (RFC 8414, OpenID Connect).

mod resource_metadata;
mod server_metadata;

pub(crate) use server_metadata::ServerMetadata;

use tsugite::client::Challenge;

use crate::error::Result;
use crate::net::{GuardedHttp, Url};

/// The authorization server of a protected server.
#[derive(Debug, Clone)]
pub(crate) struct Discovered {
    /// The identifier of the protected server, sent verbatim.
    pub(crate) resource: String,
    pub(crate) metadata: ServerMetadata,
    /// The scopes that the protected server lists.
    pub(crate) scopes_supported: Option<Vec<String>>,
    /// Whether tokens must be bound to a key.
    pub(crate) dpop_required: bool,
}

/// Finds the authorization server. `preferred` is taken if the server lists several.
pub(crate) async fn discover(
    http: &GuardedHttp,
    server: &Url,
    challenge: Option<&Challenge>,
    preferred: Option<&str>,
) -> Result<Discovered> {
    let named = challenge.and_then(|challenge| challenge.param("resource_metadata"));
    match resource_metadata::find(http, server, named.as_deref()).await? {
        Some(resource) => {
            let issuer = resource.select_issuer(preferred)?;
            let metadata = ServerMetadata::fetch(http, issuer).await?;
            Ok(Discovered {
                resource: resource.resource,
                metadata,
                scopes_supported: resource.scopes_supported,
                dpop_required: resource.dpop_bound_access_tokens_required.unwrap_or(false),
            })
        }
        // A server of 2025-03-26 is its own authorization server.
        None => Ok(Discovered {
            resource: resource_metadata::canonical_resource(server),
            metadata: ServerMetadata::fetch_or_default(http, server).await?,
            scopes_supported: None,
            dpop_required: false,
        }),
    }
}
