//! Proofs of possession in token requests (DPoP, RFC 9449).

use std::time::Duration;

use http::{HeaderName, HeaderValue};
use tsugite::store::StoreError;

use super::TokenCall;
use crate::authorization_server::AuthorizationState;
use crate::authorization_server::clients::SIGNING_ALGORITHMS;
use crate::authorization_server::http_message::{EndpointError, HttpRequest, HttpResponse, OAuthError};
use crate::dpop::{ProvenRequest, VerifiedProof, verify_proof};

/// A valid proof, which is not used up yet.
pub(super) struct TokenProof {
    proof: VerifiedProof,
    /// The nonce of the client's next proof.
    next_nonce: Option<HeaderValue>,
}

impl AuthorizationState {
    /// Checks the proof of a request; `None` if it has none. The client is not known yet: one that signs its assertions
    /// needs another one for each request, also for the repetition with a nonce.
    pub(super) fn check_proof(&self, request: &HttpRequest) -> Result<Option<TokenProof>, EndpointError> {
        if !request.has_header("dpop") {
            return Ok(None);
        }
        let invalid = |reason: &str| OAuthError::new("invalid_dpop_proof", reason);
        let proof = request.header("dpop").ok_or_else(|| invalid("there is more than one proof"))?;
        let proven = ProvenRequest { method: "POST", url: &self.url("/token"), token: None };
        let now = self.clock.seconds();
        let proof =
            verify_proof(proof, &proven, SIGNING_ALGORITHMS, now).map_err(|error| invalid(error.0))?;
        let next_nonce = match self.settings.is_nonce_required {
            false => None,
            true => match proof.nonce.as_deref().and_then(|nonce| self.nonce_age(nonce, now)) {
                None => {
                    let error =
                        OAuthError::new("use_dpop_nonce", "the proof needs the nonce of this response");
                    return Err(OAuthError { headers: vec![(DPOP_NONCE, self.nonce(now)?)], ..error }.into());
                }
                Some(age) if age >= NONCE_RENEWAL_SECONDS => Some(self.nonce(now)?),
                Some(_) => None,
            },
        };
        Ok(Some(TokenProof { proof, next_nonce }))
    }

    /// Uses the proof of a request up, if it has one. Each grant does so when it has checked all else, so that only holders of
    /// a grant can fill the store.
    pub(super) async fn use_proof(&self, call: &TokenCall<'_>) -> Result<(), EndpointError> {
        let Some(TokenProof { proof, .. }) = call.proof else { return Ok(()) };
        let name = format!("{} {}", proof.thumbprint, proof.id);
        let ttl = Duration::from_secs(proof.seconds_to_remember(self.clock.seconds()));
        match self.records.claim("proof", &name, ttl).await? {
            true => Ok(()),
            false => Err(OAuthError::new("invalid_dpop_proof", "the proof was used before").into()),
        }
    }

    /// A nonce is the sealed time at which it was made: replicas accept those of each other, and none is stored.
    fn nonce(&self, now: u64) -> Result<HeaderValue, StoreError> {
        let nonce = self.records.seal_text(&now, &[NONCE_PURPOSE], NONCE_TTL)?;
        Ok(HeaderValue::try_from(nonce)?)
    }

    /// The seconds since a nonce was made; `None` if it is not one of this server, or too old.
    fn nonce_age(&self, nonce: &str, now: u64) -> Option<u64> {
        let made_at: u64 = self.records.open_text(nonce, &[NONCE_PURPOSE])?;
        Some(now.saturating_sub(made_at))
    }
}

impl TokenProof {
    /// The thumbprint of the key.
    pub(super) fn thumbprint(&self) -> &str {
        &self.proof.thumbprint
    }

    /// Gives the client the nonce of its next proof.
    pub(super) fn add_nonce(self, response: &mut HttpResponse) {
        if let Some(nonce) = self.next_nonce {
            response.headers_mut().insert(DPOP_NONCE, nonce);
        }
    }
}

const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
const NONCE_PURPOSE: &str = "dpop nonce";
const NONCE_TTL: Duration = Duration::from_secs(600);
const NONCE_RENEWAL_SECONDS: u64 = 300;
