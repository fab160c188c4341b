//! Revokes a token at its authorization server (RFC 7009).

use super::Attempt;
use crate::error::{AuthError, Result};
use crate::net::Url;
use crate::secret::Secret;
use crate::store::{StoredToken, Vault};
use crate::token_endpoint::{TokenEndpoint, TokenError};

impl Attempt<'_> {
    /// Revokes a token. Returns false if the authorization server revokes none.
    pub(crate) async fn revoke(&self, token: &StoredToken, vault: &Vault) -> Result<bool> {
        let Some(url) = &token.revocation_endpoint else { return Ok(false) };
        let client = self.known_client(token, vault).ok_or_else(|| {
            AuthError::config(format!(
                "the token belongs to the client {:?}, which must be set to revoke it",
                token.client_id
            ))
        })?;
        let endpoint = TokenEndpoint {
            http: &self.http,
            url: Url::parse(url)?,
            issuer: &token.issuer,
            client: &client,
            dpop: None,
            nonce: self.nonce,
        };
        // First the token that lives longer: the server ends the access tokens of a grant with it, if it can.
        if let Some(refresh_token) = &token.refresh_token {
            endpoint.revoke(refresh_token, "refresh_token").await?;
        }
        match endpoint.revoke(&token.access_token, "access_token").await {
            // A server that checks access tokens by their signature cannot revoke them.
            Err(TokenError::Refused { code, .. }) if code == UNSUPPORTED => Ok(token.refresh_token.is_some()),
            outcome => Ok(outcome.map(|()| true)?),
        }
    }
}

impl TokenEndpoint<'_> {
    /// Revokes a token, at the revocation endpoint. A token that the server does not know counts as revoked.
    async fn revoke(&self, token: &Secret, kind: &str) -> Result<(), TokenError> {
        let response = self.send(&[("token", token.expose()), ("token_type_hint", kind)]).await?;
        match self.error_code(&response) {
            None => Ok(()),
            Some(code) => Err(self.refused("did not revoke the token", code, &response)),
        }
    }
}

/// The error of a server that cannot revoke this kind of token.
const UNSUPPORTED: &str = "unsupported_token_type";
