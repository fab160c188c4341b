//! The check of a request's token: read it, verify it, or challenge the client.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use http::{HeaderMap, Response};

use super::super::maybe_ready::MaybeReady;
use super::super::request_head::RequestHead;
use super::super::response_body::HttpBody;
use super::challenge::Challenge;
use super::protected_resource::ProtectedResource;
use super::resource_url::ResourceUrl;
use super::verify_error::VerifyError;
use super::verify_token::{TokenRequest, TokenScheme, Verified, VerifyToken};
use crate::server::Principal;

/// The verifier of a served server.
pub(in super::super) struct Authorization {
    verifier: Arc<dyn VerifyToken>,
    resource: ProtectedResource,
    url: ResourceUrl,
}

/// A request that is let in.
pub(in super::super) struct Authorized {
    pub(in super::super) principal: Principal,
    /// The nonce of the client's next DPoP proof.
    pub(in super::super) nonce: Option<String>,
}

impl Authorization {
    pub(in super::super) fn new(verifier: Arc<dyn VerifyToken>, url: ResourceUrl) -> Self {
        Self { resource: verifier.resource(), verifier, url }
    }

    /// The address of the endpoint.
    pub(in super::super) fn url(&self) -> &ResourceUrl {
        &self.url
    }

    /// Verifies the token of a request to the endpoint, or to another path. The error is the response.
    pub(in super::super) fn check(
        self: &Arc<Self>,
        head: &RequestHead,
        is_endpoint: bool,
        cx: &mut Context<'_>,
    ) -> MaybeReady<Result<Authorized, Response<HttpBody>>> {
        let authority = head.authority();
        let (scheme, token) = match read_token(&head.headers) {
            TokenHeader::One(scheme, token) => (scheme, token),
            TokenHeader::Absent => return self.refuse(authority, None, |challenge| challenge.token_needed()),
            TokenHeader::Malformed => return self.refuse(authority, None, |challenge| challenge.malformed()),
        };
        let resource = self.url.endpoint(authority);
        let url = match is_endpoint {
            true => resource.clone(),
            false => self.url.beside(authority, head.path()),
        };
        let request = TokenRequest {
            scheme,
            http_method: head.method.as_str().to_owned(),
            url,
            proofs: proofs(&head.headers),
            ..TokenRequest::new(token, resource)
        };
        let (authorization, authority) = (self.clone(), authority.map(<[u8]>::to_vec));
        let mut verifying = Box::pin(async move {
            let verified = authorization.verify(&request).await;
            verified.map_err(|error| {
                let respond = |challenge: &Challenge<'_>| challenge.refused(&error);
                authorization.challenge(authority.as_deref(), Some(scheme), respond)
            })
        });
        match verifying.as_mut().poll(cx) {
            Poll::Ready(verified) => MaybeReady::Ready(verified),
            Poll::Pending => MaybeReady::Pending(verifying),
        }
    }

    async fn verify(&self, request: &TokenRequest) -> Result<Authorized, VerifyError> {
        let verified = self.verifier.verify(request).await?;
        if !verified.principal().is_identified() {
            return Err(
                VerifyError::invalid_token().with_description("the token names neither subject nor client")
            );
        }
        let nonce = self.verify_proof(request, &verified).await?;
        Ok(Authorized { principal: verified.principal().clone(), nonce })
    }

    /// Verifies the key that a token is bound to. Returns the nonce of the next proof.
    async fn verify_proof(
        &self,
        request: &TokenRequest,
        verified: &Verified,
    ) -> Result<Option<String>, VerifyError> {
        match (verified.key_thumbprint(), request.scheme) {
            (None, TokenScheme::Bearer) => Ok(None),
            (Some(_), TokenScheme::Dpop) => {
                let proof = self.verifier.verify_proof(request, verified).await?;
                Ok(proof.nonce().map(str::to_owned))
            }
            // A stolen token must not be usable without its key.
            (Some(_), TokenScheme::Bearer) => {
                Err(VerifyError::invalid_token().with_description("the token needs a DPoP proof"))
            }
            (None, TokenScheme::Dpop) => {
                Err(VerifyError::invalid_token().with_description("the token is not bound to a key"))
            }
        }
    }

    fn refuse<T: 'static>(
        &self,
        authority: Option<&[u8]>,
        presented: Option<TokenScheme>,
        respond: impl FnOnce(&Challenge<'_>) -> Response<HttpBody>,
    ) -> MaybeReady<Result<T, Response<HttpBody>>> {
        MaybeReady::Ready(Err(self.challenge(authority, presented, respond)))
    }

    fn challenge(
        &self,
        authority: Option<&[u8]>,
        presented: Option<TokenScheme>,
        respond: impl FnOnce(&Challenge<'_>) -> Response<HttpBody>,
    ) -> Response<HttpBody> {
        let _ = authority;
        let resource = &self.resource;
        let scopes = match resource.scopes_required.is_empty() {
            true => &resource.scopes_supported,
            false => &resource.scopes_required,
        };
        respond(&Challenge { resource, presented, scopes, metadata_url: "" })
    }
}

/// The token of a request.
enum TokenHeader<'a> {
    Absent,
    Malformed,
    One(TokenScheme, &'a str),
}

/// Reads the only `Authorization` header. A token in the URL is ignored.
fn read_token(headers: &HeaderMap) -> TokenHeader<'_> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value,
        (None, _) => return TokenHeader::Absent,
        (Some(_), Some(_)) => return TokenHeader::Malformed,
    };
    let Ok(value) = value.to_str() else { return TokenHeader::Malformed };
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    let scheme = match scheme {
        scheme if scheme.eq_ignore_ascii_case("bearer") => TokenScheme::Bearer,
        scheme if scheme.eq_ignore_ascii_case("dpop") => TokenScheme::Dpop,
        _ => return TokenHeader::Absent,
    };
    let token = token.trim();
    match token.is_empty() || token.contains(' ') {
        true => TokenHeader::Malformed,
        false => TokenHeader::One(scheme, token),
    }
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
        match read_token(&headers) {
            TokenHeader::One(scheme, token) => Ok(format!("{scheme:?} {token}")),
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
}
