//! The metadata of an authorization server: RFC 8414 or OpenID Connect, and the default endpoints of 2025-03-26.

use serde::Deserialize;
use serde_json::Value;

use crate::error::{AuthError, Result, shown};
use crate::net::{GuardedHttp, Url};

/// The members that clients and protected servers use.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct ServerMetadata {
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: Option<String>,
    pub(crate) token_endpoint: Option<String>,
    pub(crate) registration_endpoint: Option<String>,
    pub(crate) jwks_uri: Option<String>,
    pub(crate) introspection_endpoint: Option<String>,
    pub(crate) introspection_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(crate) scopes_supported: Option<Vec<String>>,
    pub(crate) code_challenge_methods_supported: Option<Vec<String>>,
    pub(crate) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub(crate) authorization_response_iss_parameter_supported: bool,
    /// Whether there is no document and the endpoints are the default ones.
    #[serde(skip)]
    pub(crate) is_default: bool,
}

impl ServerMetadata {
    /// Fetches the metadata of an issuer, at the well-known URLs in the prescribed order.
    pub(crate) async fn fetch(http: &GuardedHttp, issuer: &str) -> Result<Self> {
        match Self::find(http, issuer).await? {
            Some(metadata) => Ok(metadata),
            None => Err(AuthError::discovery(format!(
                "the authorization server {:?} has no metadata",
                shown(issuer)
            ))),
        }
    }

    /// The metadata of a server of 2025-03-26, at its root, or else its default endpoints.
    pub(super) async fn fetch_or_default(http: &GuardedHttp, server: &Url) -> Result<Self> {
        let base = server.origin();
        if let Some(metadata) = Self::find(http, base).await? {
            return Ok(metadata);
        }
        http.trust.check_url(server)?;
        let endpoint = |name: &str| Some(format!("{base}/{name}"));
        Ok(Self {
            issuer: base.to_owned(),
            authorization_endpoint: endpoint("authorize"),
            token_endpoint: endpoint("token"),
            registration_endpoint: endpoint("register"),
            is_default: true,
            ..Self::default()
        })
    }

    async fn find(http: &GuardedHttp, issuer: &str) -> Result<Option<Self>> {
        let url = Url::parse(issuer)?;
        for candidate in well_known_urls(&url) {
            let candidate = Url::parse(&candidate)?;
            let Some(document) = http.get_json(&candidate).await? else { continue };
            if !document.contains_key("issuer") {
                continue;
            }
            let metadata: Self = serde_json::from_value(Value::Object(document)).map_err(|error| {
                let place = candidate.without_query();
                AuthError::discovery(format!("the metadata at {place} is malformed: {error}"))
            })?;
            // Byte for byte: a look-alike would lead the client to the endpoints of another server.
            if metadata.issuer != issuer {
                return Err(AuthError::discovery(format!(
                    "the metadata at {} is that of another issuer: {:?} instead of {:?}",
                    candidate.without_query(),
                    shown(&metadata.issuer),
                    shown(issuer)
                )));
            }
            return Ok(Some(metadata));
        }
        Ok(None)
    }

    /// Fails if the server does not say that it supports PKCE with S256. `assumed` accepts one that says nothing.
    pub(crate) fn check_pkce(&self, assumed: bool) -> Result<()> {
        let reason = match &self.code_challenge_methods_supported {
            Some(methods) if methods.iter().any(|method| method == "S256") => return Ok(()),
            None if self.is_default || assumed => return Ok(()),
            Some(_) => "does not support PKCE with S256",
            None => "does not say that it supports PKCE (`code_challenge_methods_supported`)",
        };
        let issuer = shown(&self.issuer);
        Err(AuthError::discovery(format!("the authorization server {issuer:?} {reason}")))
    }

    pub(crate) fn authorization_endpoint(&self) -> Result<Url> {
        self.endpoint("authorization_endpoint", self.authorization_endpoint.as_deref())
    }

    pub(crate) fn token_endpoint(&self) -> Result<Url> {
        self.endpoint("token_endpoint", self.token_endpoint.as_deref())
    }

    pub(crate) fn jwks_uri(&self) -> Result<Url> {
        self.endpoint("jwks_uri", self.jwks_uri.as_deref())
    }

    pub(crate) fn introspection_endpoint(&self) -> Result<Url> {
        self.endpoint("introspection_endpoint", self.introspection_endpoint.as_deref())
    }

    fn endpoint(&self, name: &str, url: Option<&str>) -> Result<Url> {
        let missing = || {
            AuthError::discovery(format!(
                "the metadata of the authorization server {:?} has no `{name}`",
                shown(&self.issuer)
            ))
        };
        let url = Url::parse(url.ok_or_else(missing)?)?;
        match url.has_fragment() {
            true => {
                Err(AuthError::discovery(format!("the `{name}` {:?} has a fragment", url.without_query())))
            }
            false => Ok(url),
        }
    }
}

/// The well-known URLs of an issuer: the path goes behind the well-known part, and for OpenID also before it.
fn well_known_urls(issuer: &Url) -> Vec<String> {
    let (origin, path) = (issuer.origin(), issuer.path().trim_end_matches('/'));
    let (oauth, openid) = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration");
    match path {
        "" => vec![format!("{origin}{oauth}"), format!("{origin}{openid}")],
        path => vec![
            format!("{origin}{oauth}{path}"),
            format!("{origin}{openid}{path}"),
            format!("{origin}{path}{openid}"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_urls_have_the_prescribed_order() {
        // ACL-012, ACL-013
        let urls = |issuer: &str| well_known_urls(&Url::parse(issuer).unwrap());
        assert_eq!(
            urls("https://h/tenant1"),
            [
                "https://h/.well-known/oauth-authorization-server/tenant1",
                "https://h/.well-known/openid-configuration/tenant1",
                "https://h/tenant1/.well-known/openid-configuration",
            ]
        );
        let bare = [
            "https://h/.well-known/oauth-authorization-server",
            "https://h/.well-known/openid-configuration",
        ];
        assert_eq!(
            (urls("https://h").as_slice(), urls("https://h/").as_slice()),
            (&bare.map(str::to_owned)[..], &bare.map(str::to_owned)[..])
        );
    }

    #[test]
    fn pkce_must_be_supported() {
        // ACL-041, C-09
        let check = |methods: Option<&[&str]>, is_default, assumed| {
            let methods = methods.map(|methods| methods.iter().map(|each| (*each).to_owned()).collect());
            let metadata = ServerMetadata {
                code_challenge_methods_supported: methods,
                is_default,
                ..ServerMetadata::default()
            };
            metadata.check_pkce(assumed).is_ok()
        };
        assert!(check(Some(&["plain", "S256"]), false, false));
        assert!(!check(Some(&["plain"]), false, true));
        assert!(!check(Some(&[]), false, true));
        assert!(!check(None, false, false));
        assert!(check(None, false, true) && check(None, true, false));
    }
}
