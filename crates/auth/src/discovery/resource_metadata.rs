//! The metadata of a protected server (RFC 9728): its identifier and its authorization servers.

use serde::Deserialize;
use serde_json::Value;

use crate::error::{AuthError, Result, shown};
use crate::net::{GuardedHttp, Url};

/// The members that a client uses.
#[derive(Debug, Deserialize)]
pub(super) struct ResourceMetadata {
    pub(super) resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
    pub(super) dpop_bound_access_tokens_required: Option<bool>,
}

/// Finds the metadata: at the URL of the challenge, else at the well-known URL of the path, then of the root. `None` if
/// there is none.
pub(super) async fn find(
    http: &GuardedHttp,
    server: &Url,
    named: Option<&str>,
) -> Result<Option<ResourceMetadata>> {
    if let Some(named) = named {
        let url = Url::parse(named)?;
        let document = http.get_json(&url).await?;
        let document = document.ok_or_else(|| {
            AuthError::discovery(format!("there is no metadata of the server at {}", url.without_query()))
        })?;
        return read(Value::Object(document), server, &url).map(Some);
    }
    let path = server.path().trim_end_matches('/');
    let root = format!("{}{WELL_KNOWN}", server.origin());
    let candidates = match path {
        "" => vec![root],
        path => vec![format!("{root}{path}"), root],
    };
    for candidate in candidates {
        let url = Url::parse(&candidate)?;
        // A page that is no such document is that of a server which answers every path.
        if let Some(document) =
            http.get_json(&url).await?.filter(|document| document.contains_key("resource"))
        {
            return read(Value::Object(document), server, &url).map(Some);
        }
    }
    Ok(None)
}

fn read(document: Value, server: &Url, url: &Url) -> Result<ResourceMetadata> {
    let metadata: ResourceMetadata = serde_json::from_value(document).map_err(|error| {
        AuthError::discovery(format!("the metadata at {} is malformed: {error}", url.without_query()))
    })?;
    // RFC 9728, 3.3: metadata of another resource must not be used.
    let is_ours = Url::parse(&metadata.resource).is_ok_and(|resource| resource.covers(server));
    match is_ours {
        true => Ok(metadata),
        false => Err(AuthError::discovery(format!(
            "the metadata at {} is about another server: {:?} instead of {:?}",
            url.without_query(),
            shown(&metadata.resource),
            server.without_query()
        ))),
    }
}

impl ResourceMetadata {
    /// The authorization server to use: the preferred one if it is listed, else the first.
    pub(super) fn select_issuer(&self, preferred: Option<&str>) -> Result<&str> {
        let listed = self.authorization_servers.iter().find(|issuer| Some(issuer.as_str()) == preferred);
        let selected = listed.or_else(|| self.authorization_servers.first());
        selected.map(String::as_str).ok_or_else(|| {
            AuthError::discovery(format!(
                "the server {:?} names no authorization server",
                shown(&self.resource)
            ))
        })
    }
}

/// The identifier of a server that does not name its own (RFC 8707): without fragment and trailing slash.
pub(super) fn canonical_resource(server: &Url) -> String {
    let text = server.as_str().split('#').next().unwrap_or_default();
    match text.contains('?') {
        true => text.to_owned(),
        false => text.trim_end_matches('/').to_owned(),
    }
}

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_is_canonical() {
        // ACL-032, ACL-033
        for (server, resource) in [
            ("https://h/mcp/", "https://h/mcp"),
            ("https://h", "https://h"),
            ("https://h/mcp#x", "https://h/mcp"),
            ("https://h/mcp?x=/", "https://h/mcp?x=/"),
        ] {
            assert_eq!(canonical_resource(&Url::parse(server).unwrap()), resource);
        }
    }

    #[test]
    fn preferred_issuer_is_taken_only_if_listed() {
        let document =
            serde_json::json!({"resource": "https://h", "authorization_servers": ["https://a", "https://b"]});
        let metadata: ResourceMetadata = serde_json::from_value(document).unwrap();
        assert_eq!(metadata.select_issuer(Some("https://b")).unwrap(), "https://b");
        assert_eq!(metadata.select_issuer(Some("https://evil")).unwrap(), "https://a");
    }
}
