//! The check of a request's token: read it, verify it, or challenge the client.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, Method};

use super::super::maybe_ready::MaybeReady;
use super::challenge::{Challenge, TokenError};
use super::protected_resource::ProtectedResource;
use super::resource_url::{HostName, ResourceUrl, well_known_path};
use super::token_cache::TokenCache;
use super::verify_error::VerifyError;
use super::verify_token::{TokenRequest, TokenScheme, Verified, VerifyToken};
use crate::server::{Config, Principal};
use crate::shared::log;

/// The verifier of a served server.
pub(in super::super) struct Authorization {
    verifier: Arc<dyn VerifyToken>,
    /// The headers in which a token may stand alone.
    key_headers: Vec<HeaderName>,
    resource: ProtectedResource,
    url: ResourceUrl,
    config: Arc<Config>,
    cache: TokenCache,
}

/// The head of a request, as far as its token depends on it.
pub(in super::super) struct RequestTarget<'a> {
    pub(in super::super) method: &'a Method,
    pub(in super::super) headers: &'a HeaderMap,
    pub(in super::super) host: HostName,
    /// The path, unless it is that of the endpoint.
    pub(in super::super) path: Option<&'a str>,
}

/// A request that is let in.
pub(in super::super) struct Authorized {
    pub(in super::super) principal: Principal,
    /// The nonce of the client's next DPoP proof.
    pub(in super::super) nonce: Option<String>,
}

impl Authorization {
    pub(in super::super) fn new(
        verifier: Arc<dyn VerifyToken>,
        url: ResourceUrl,
        config: Arc<Config>,
    ) -> Self {
        let resource = verifier.resource();
        if let Some(scope) = resource.scopes_supported.iter().find(|scope| scope.contains('*')) {
            log::warn!(
                "the supported scope {scope:?} gives clients all rights at once; list only what most clients need"
            );
        }
        let key_headers = key_headers(&*verifier);
        Self { verifier, key_headers, resource, url, config, cache: TokenCache::default() }
    }

    /// The headers in which a token may stand alone.
    pub(in super::super) fn key_headers(&self) -> &[HeaderName] {
        &self.key_headers
    }

    /// The address of the endpoint.
    pub(in super::super) fn url(&self) -> &ResourceUrl {
        &self.url
    }

    pub(in super::super) fn resource(&self) -> &ProtectedResource {
        &self.resource
    }

    /// Fails if clients cannot be told which resource their token must be for.
    pub(in super::super) fn check_address(&self) -> Result<(), String> {
        match self.resource.authorization_servers.is_empty() || self.url.is_known() {
            true => Ok(()),
            false => {
                Err("a server with an authorization server needs `Http::public_url`, unless it listens on a \
                          loopback address itself"
                    .to_owned())
            }
        }
    }

    /// Verifies the token of a request to the endpoint, or to another path. The error is the response.
    ///
    /// A token that was verified before is answered at once, unless its sender must prove that it holds a key.
    pub(in super::super) fn check(
        self: &Arc<Self>,
        request: &RequestTarget<'_>,
        cx: &mut Context<'_>,
    ) -> MaybeReady<Result<Authorized, Box<TokenError>>> {
        let host = request.host;
        let (scheme, token) = match read_token(request.headers, &self.key_headers) {
            TokenHeader::One(scheme, token) => (scheme, token),
            TokenHeader::Absent => return self.refuse(host, |challenge| challenge.token_needed()),
            TokenHeader::Malformed => return self.refuse(host, |challenge| challenge.malformed()),
        };
        let known = self.cache.get(token, scheme, host);
        if let (Some(verified), TokenScheme::Bearer | TokenScheme::ApiKey) = (&known, scheme)
            && verified.key_thumbprint().is_none()
        {
            return MaybeReady::Ready(self.admit(host, verified, None));
        }
        let Some(token) = visible_text(token) else {
            return self.refuse(host, |challenge| challenge.malformed());
        };
        let resource = self.url.endpoint(host);
        let url = match request.path {
            None => resource.clone(),
            Some(path) => self.url.beside(host, path),
        };
        let request = TokenRequest {
            scheme,
            http_method: request.method.as_str().to_owned(),
            url,
            proofs: proofs(request.headers),
            ..TokenRequest::new(token, resource)
        };
        let authorization = self.clone();
        let mut verifying = Box::pin(async move {
            match authorization.verify(&request, host, known).await {
                Ok((verified, nonce)) => authorization.admit(host, &verified, nonce),
                Err(error) => {
                    let refused = |challenge: &Challenge<'_>| challenge.refused(&error);
                    Err(Box::new(authorization.challenge(host, Some(scheme), refused)))
                }
            }
        });
        match verifying.as_mut().poll(cx) {
            Poll::Ready(verified) => MaybeReady::Ready(verified),
            Poll::Pending => MaybeReady::Pending(verifying),
        }
    }

    /// Verifies a token and the proof that comes with it. Returns the nonce of the next proof.
    async fn verify(
        &self,
        request: &TokenRequest,
        host: HostName,
        known: Option<Arc<Verified>>,
    ) -> Result<(Arc<Verified>, Option<String>), VerifyError> {
        let verified = match known {
            Some(known) => known,
            None => {
                let verified = Arc::new(self.verifier.verify(request).await?);
                if !verified.principal().is_identified() {
                    let text = "the token names neither a subject nor a client";
                    return Err(VerifyError::invalid_token().with_description(text));
                }
                self.cache.insert(request.token.as_bytes(), request.scheme, host, verified.clone());
                verified
            }
        };
        let nonce = self.verify_proof(request, &verified).await?;
        Ok((verified, nonce))
    }

    /// Verifies the key that a token is bound to. Returns the nonce of the next proof.
    async fn verify_proof(
        &self,
        request: &TokenRequest,
        verified: &Verified,
    ) -> Result<Option<String>, VerifyError> {
        match (verified.key_thumbprint(), request.scheme) {
            (None, TokenScheme::Bearer | TokenScheme::ApiKey) => Ok(None),
            (Some(_), TokenScheme::Dpop) => {
                let proof = self.verifier.verify_proof(request, verified).await?;
                Ok(proof.nonce().map(str::to_owned))
            }
            // A stolen token must not be usable without its key.
            (Some(_), TokenScheme::Bearer | TokenScheme::ApiKey) => {
                Err(VerifyError::invalid_token().with_description("the token needs a DPoP proof"))
            }
            (None, TokenScheme::Dpop) => {
                Err(VerifyError::invalid_token().with_description("the token is not bound to a key"))
            }
        }
    }

    /// Lets a request in if its token has the scopes that every request needs.
    fn admit(
        &self,
        host: HostName,
        verified: &Verified,
        nonce: Option<String>,
    ) -> Result<Authorized, Box<TokenError>> {
        let (principal, required) = (verified.principal(), &self.resource.scopes_required);
        match required.is_empty() || self.config.has_scopes(Some(principal), required) {
            true => Ok(Authorized { principal: principal.clone(), nonce }),
            false => Err(Box::new(self.insufficient_scope(host, required))),
        }
    }

    /// 403 for a token that lacks one of these scopes.
    pub(in super::super) fn insufficient_scope(&self, host: HostName, scopes: &[String]) -> TokenError {
        let (resource, metadata_url) = (&self.resource, &*self.metadata_url(host));
        Challenge { resource, presented: None, scopes, metadata_url }.insufficient_scope()
    }

    fn refuse<T: 'static>(
        &self,
        host: HostName,
        respond: impl FnOnce(&Challenge<'_>) -> TokenError,
    ) -> MaybeReady<Result<T, Box<TokenError>>> {
        MaybeReady::Ready(Err(Box::new(self.challenge(host, None, respond))))
    }

    /// The URL of the metadata document; empty without an authorization server, or if the address of the server is not known.
    fn metadata_url(&self, host: HostName) -> String {
        match self.resource.authorization_servers.is_empty() {
            true => String::new(),
            false => self.url.beside(host, &well_known_path(self.url.paths().0)),
        }
    }

    fn challenge(
        &self,
        host: HostName,
        presented: Option<TokenScheme>,
        respond: impl FnOnce(&Challenge<'_>) -> TokenError,
    ) -> TokenError {
        let resource = &self.resource;
        let scopes = match resource.scopes_required.is_empty() {
            true => &resource.scopes_supported,
            false => &resource.scopes_required,
        };
        respond(&Challenge { resource, presented, scopes, metadata_url: &self.metadata_url(host) })
    }
}

/// 403 for a caller that lacks one of these scopes, where the library checks no tokens itself.
pub(in super::super) fn insufficient_scope(scopes: &[String]) -> TokenError {
    let resource = &ProtectedResource::new();
    Challenge { resource, presented: None, scopes, metadata_url: "" }.insufficient_scope()
}

/// The token of a request.
enum TokenHeader<'a> {
    Absent,
    Malformed,
    /// Not checked yet: a token that was verified before needs no check of its characters.
    One(TokenScheme, &'a [u8]),
}

/// The headers that a verifier reads beside `Authorization`, each once: several verifiers may read the same.
fn key_headers(verifier: &dyn VerifyToken) -> Vec<HeaderName> {
    let mut headers = Vec::new();
    for name in verifier.key_headers() {
        match HeaderName::try_from(&name) {
            Ok(name) if headers.contains(&name) => {}
            Ok(name) if name != AUTHORIZATION => headers.push(name),
            _ => log::error!("{name:?} cannot be a header for API keys; it is not read"),
        }
    }
    headers
}

/// Reads the only token: that of the `Authorization` header, or of a header for keys. A token in the URL is ignored.
fn read_token<'a>(headers: &'a HeaderMap, key_headers: &[HeaderName]) -> TokenHeader<'a> {
    let authorization = read_authorization(headers);
    let mut keys = key_headers.iter().flat_map(|name| headers.get_all(name));
    match (keys.next(), keys.next(), authorization) {
        (None, _, authorization) => authorization,
        (Some(key), None, TokenHeader::Absent) => match key.as_bytes().trim_ascii() {
            [] => TokenHeader::Malformed,
            key => TokenHeader::One(TokenScheme::ApiKey, key),
        },
        // Two parties that each read one of two tokens would see different callers.
        _ => TokenHeader::Malformed,
    }
}

fn read_authorization(headers: &HeaderMap) -> TokenHeader<'_> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value,
        (None, _) => return TokenHeader::Absent,
        (Some(_), Some(_)) => return TokenHeader::Malformed,
    };
    let value = value.as_bytes();
    let (scheme, token) = match value.iter().position(|byte| *byte == b' ') {
        Some(space) => value.split_at(space),
        None => (value, &[][..]),
    };
    let scheme = match scheme {
        scheme if scheme.eq_ignore_ascii_case(b"bearer") => TokenScheme::Bearer,
        scheme if scheme.eq_ignore_ascii_case(b"dpop") => TokenScheme::Dpop,
        _ => return TokenHeader::Absent,
    };
    match token.trim_ascii() {
        [] => TokenHeader::Malformed,
        token => TokenHeader::One(scheme, token),
    }
}

/// A token as text, if it is visible ASCII without spaces.
fn visible_text(token: &[u8]) -> Option<&str> {
    let is_visible = token.iter().all(u8::is_ascii_graphic);
    std::str::from_utf8(token).ok().filter(|_| is_visible)
}

/// The values of all `DPoP` headers. One that is no text counts, so that two are never taken for one.
fn proofs(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all("dpop").iter();
    values.map(|value| value.to_str().unwrap_or_default().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn token(values: &[&str]) -> Result<String, bool> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        match read_token(&headers, &[]) {
            TokenHeader::One(scheme, token) => match visible_text(token) {
                Some(token) => Ok(format!("{scheme:?} {token}")),
                None => Err(true),
            },
            TokenHeader::Absent => Err(false),
            TokenHeader::Malformed => Err(true),
        }
    }

    #[test]
    fn token_stands_in_one_authorization_header() {
        assert_eq!(token(&["Bearer abc"]).as_deref(), Ok("Bearer abc"));
        assert_eq!(token(&["bearer  abc "]).as_deref(), Ok("Bearer abc"));
        assert_eq!(token(&["DPoP abc"]).as_deref(), Ok("Dpop abc"));
        for absent in [&[][..], &["Basic abc"]] {
            assert_eq!(token(absent), Err(false), "{absent:?}");
        }
        for malformed in [&["Bearer"][..], &["Bearer "], &["Bearer a b"], &["Bearer a", "Bearer a"]] {
            assert_eq!(token(malformed), Err(true), "{malformed:?}");
        }
    }

    #[test]
    fn key_stands_alone_in_one_header() {
        let names = [HeaderName::from_static("x-api-key"), HeaderName::from_static("x-other-key")];
        let read = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, HeaderValue::from_static(value));
            }
            match read_token(&headers, &names) {
                TokenHeader::One(scheme, token) => format!("{scheme:?} {}", str::from_utf8(token).unwrap()),
                TokenHeader::Absent => "absent".to_owned(),
                TokenHeader::Malformed => "malformed".to_owned(),
            }
        };
        assert_eq!(read(&[("x-api-key", "k1")]), "ApiKey k1");
        assert_eq!(read(&[("x-other-key", "k1")]), "ApiKey k1");
        // `Basic` is for a proxy in front.
        assert_eq!(read(&[("x-api-key", "k1"), ("authorization", "Basic YTpi")]), "ApiKey k1");
        assert_eq!(read(&[("authorization", "Bearer t")]), "Bearer t");
        assert_eq!(read(&[("x-unknown", "k1")]), "absent");
        for pairs in [
            &[("x-api-key", "k1"), ("x-api-key", "k1")][..],
            &[("x-api-key", "k1"), ("x-other-key", "k2")],
            &[("x-api-key", "k1"), ("authorization", "Bearer k1")],
            &[("x-api-key", "k1"), ("authorization", "Bearer")],
            &[("x-api-key", " ")],
        ] {
            assert_eq!(read(pairs), "malformed", "{pairs:?}");
        }
    }
}
