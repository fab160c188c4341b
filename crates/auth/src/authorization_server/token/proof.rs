//! Proofs of possession in token requests (DPoP, RFC 9449).

use std::time::Duration;

use crate::authorization_server::AuthorizationState;
use crate::authorization_server::clients::SIGNING_ALGORITHMS;
use crate::authorization_server::http_message::{EndpointError, HttpRequest, OAuthError};
use crate::dpop::{ProvenRequest, verify_proof};

impl AuthorizationState {
    /// The thumbprint of the key that a client has proven to hold; `None` if it sent no proof.
    pub(super) async fn proven_key(&self, request: &HttpRequest) -> Result<Option<String>, EndpointError> {
        if !request.has_header("dpop") {
            return Ok(None);
        }
        let invalid = |reason: &str| OAuthError::new("invalid_dpop_proof", reason);
        let proof = request.header("dpop").ok_or_else(|| invalid("there is more than one proof"))?;
        let proven = ProvenRequest { method: "POST", url: &self.url("/token"), token: None };
        let now = self.clock.seconds();
        let proof =
            verify_proof(proof, &proven, SIGNING_ALGORITHMS, now).map_err(|error| invalid(error.0))?;
        let name = format!("{} {}", proof.thumbprint, proof.id);
        let ttl = Duration::from_secs(proof.seconds_to_remember(now));
        match self.records.claim("proof", &name, ttl).await? {
            true => Ok(Some(proof.thumbprint)),
            false => Err(invalid("the proof was used before").into()),
        }
    }
}
