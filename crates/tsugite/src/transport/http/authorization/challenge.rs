//! The responses to requests without a valid token, or whose token has too few scopes.

use std::time::Duration;

use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::protected_resource::ProtectedResource;
use super::verify_error::{VerifyError, VerifyErrorKind};
use super::verify_token::TokenScheme;
use crate::error::Chain;
use crate::shared::log;

/// A request that is not let in: its response, without a body of its own.
#[derive(Debug)]
pub(in super::super) struct TokenError {
    pub(in super::super) status: StatusCode,
    pub(in super::super) text: &'static str,
    pub(in super::super) headers: HeaderMap,
}

/// The contents of a challenge, apart from its error.
pub(super) struct Challenge<'a> {
    pub(super) resource: &'a ProtectedResource,
    /// The scheme of the token that was sent, if one was.
    pub(super) presented: Option<TokenScheme>,
    pub(super) scopes: &'a [String],
    /// The URL of the metadata document; empty if there is none.
    pub(super) metadata_url: &'a str,
}

impl Challenge<'_> {
    /// 401 for a request without a token.
    pub(super) fn token_needed(&self) -> TokenError {
        let text = "Unauthorized: this server needs a valid token in `Authorization: Bearer …`";
        self.respond(StatusCode::UNAUTHORIZED, text, None, None)
    }

    /// 400 for a request whose `Authorization` headers cannot be read.
    pub(super) fn malformed(&self) -> TokenError {
        let text = "Bad request: send one token, in one header";
        self.respond(StatusCode::BAD_REQUEST, text, Some("invalid_request"), None)
    }

    /// 403 for a token that lacks a scope.
    pub(super) fn insufficient_scope(&self) -> TokenError {
        let text = "Forbidden: the token lacks a scope that this request needs";
        self.respond(StatusCode::FORBIDDEN, text, Some("insufficient_scope"), None)
    }

    /// The response to a token that its verifier does not accept.
    pub(super) fn refused(&self, error: &VerifyError) -> TokenError {
        let text = "Unauthorized: the token is not valid; get a new one";
        let (text, code) = match error.kind() {
            VerifyErrorKind::InvalidToken => (text, "invalid_token"),
            VerifyErrorKind::InvalidProof => {
                ("Unauthorized: the DPoP proof is not valid", "invalid_dpop_proof")
            }
            VerifyErrorKind::UseNonce => ("Unauthorized: the DPoP proof needs a nonce", "use_dpop_nonce"),
            VerifyErrorKind::Unavailable => return unavailable(error),
        };
        let mut response = self.respond(StatusCode::UNAUTHORIZED, text, Some(code), error.description());
        if let Some(nonce) = error.nonce() {
            add_nonce(nonce, &mut response.headers);
        }
        response
    }

    fn respond(
        &self,
        status: StatusCode,
        text: &'static str,
        code: Option<&str>,
        description: Option<&str>,
    ) -> TokenError {
        let mut headers = HeaderMap::new();
        let schemes = [TokenScheme::Bearer, TokenScheme::Dpop];
        let offered = |scheme: &&TokenScheme| match self.presented {
            Some(presented @ (TokenScheme::Bearer | TokenScheme::Dpop)) => **scheme == presented,
            // There is no scheme for a key in a header of its own.
            Some(TokenScheme::ApiKey) | None => match scheme {
                TokenScheme::Dpop => !self.resource.dpop_algorithms.is_empty(),
                TokenScheme::Bearer | TokenScheme::ApiKey => !self.resource.dpop_required,
            },
        };
        for scheme in schemes.iter().filter(offered) {
            if let Ok(value) = HeaderValue::try_from(self.header(*scheme, code, description)) {
                headers.append(WWW_AUTHENTICATE, value);
            }
        }
        TokenError { status, text, headers }
    }

    fn header(&self, scheme: TokenScheme, code: Option<&str>, description: Option<&str>) -> String {
        let (name, algorithms) = match scheme {
            TokenScheme::Bearer | TokenScheme::ApiKey => ("Bearer", String::new()),
            TokenScheme::Dpop => ("DPoP", self.resource.dpop_algorithms.join(" ")),
        };
        let params = [
            ("error", code.unwrap_or_default()),
            ("error_description", description.unwrap_or_default()),
            ("scope", &*self.scopes.join(" ")),
            ("resource_metadata", self.metadata_url),
            ("algs", &*algorithms),
        ];
        let params = params.iter().filter(|(_, value)| !value.is_empty());
        let params: Vec<_> = params.map(|(name, value)| format!("{name}=\"{}\"", quotable(value))).collect();
        format!("{name} {}", params.join(", ")).trim_end().to_owned()
    }
}

/// Gives a client the nonce of its next proof.
pub(in super::super) fn add_nonce(nonce: &str, headers: &mut HeaderMap) {
    if let Ok(nonce) = HeaderValue::try_from(nonce) {
        headers.insert(HeaderName::from_static("dpop-nonce"), nonce);
    }
}

fn unavailable(error: &VerifyError) -> TokenError {
    log::error!(error = %Chain(error), "a token could not be checked");
    let text = "The token could not be checked; try again later";
    let wait = error.retry_after().unwrap_or(Duration::from_secs(1)).as_secs().max(1);
    let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from(wait))]);
    TokenError { status: StatusCode::SERVICE_UNAVAILABLE, text, headers }
}

/// A value without the characters that would end a quoted string.
fn quotable(value: &str) -> String {
    value.chars().filter(|char| (' '..='~').contains(char) && !['"', '\\'].contains(char)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenge_cannot_be_broken_by_a_description() {
        let challenge = Challenge {
            resource: &ProtectedResource::new(),
            presented: Some(TokenScheme::Bearer),
            scopes: &["read".to_owned(), "write".to_owned()],
            metadata_url: "https://h/.well-known/oauth-protected-resource/mcp",
        };
        let error = VerifyError::invalid_token().with_description("it is\r\n \"old\", scope=\"admin\"");
        let expected = "Bearer error=\"invalid_token\", error_description=\"it is old, scope=admin\", \
                        scope=\"read write\", \
                        resource_metadata=\"https://h/.well-known/oauth-protected-resource/mcp\"";
        assert_eq!(challenge.refused(&error).headers[WWW_AUTHENTICATE], expected);
    }

    #[test]
    fn schemes_that_are_accepted_are_offered() {
        let offered = |resource: ProtectedResource| {
            let challenge = Challenge { resource: &resource, presented: None, scopes: &[], metadata_url: "" };
            let response = challenge.token_needed();
            let values = response.headers.get_all(WWW_AUTHENTICATE).iter();
            values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let dpop = ProtectedResource::new().dpop_algorithms(["ES256", "EdDSA"]);
        assert_eq!(offered(ProtectedResource::new()), ["Bearer"]);
        assert_eq!(offered(dpop.clone()), ["Bearer", "DPoP algs=\"ES256 EdDSA\""]);
        assert_eq!(offered(dpop.dpop_required()), ["DPoP algs=\"ES256 EdDSA\""]);
    }
}
