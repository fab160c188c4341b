//! `/revoke` (RFC 7009), and the records of revoked access tokens.

use http::StatusCode;
use serde_json::{Value, json};
use tsugite::store::StoreError;

use super::AuthorizationState;
use super::http_message::{EndpointError, HttpRequest, HttpResponse, OAuthError, json_response};
use super::settings::MAX_ACCESS_TOKEN_TTL;
use super::token::GRANT_CLAIM;
use crate::jose::{Claims, UnverifiedJwt};

impl AuthorizationState {
    /// Revokes a token of the client that asks. A token that is unknown, or of another client, is none of its business: the
    /// answer is the same.
    pub(super) async fn revoke(&self, request: &HttpRequest) -> Result<HttpResponse, EndpointError> {
        let malformed = || OAuthError::new("invalid_request", "the body is not a form with a `token`");
        let form = request.form().ok_or_else(malformed)?;
        let client = self.authenticate_client(request, &form).await?;
        let token = form.get("token").ok_or_else(malformed)?;
        if let Some((name, family)) = self.find_family(token).await? {
            if family.client_id == client.client_id {
                self.revoke_family(&name).await?;
            }
        } else if let Some(claims) = self.verify_signature(token).await?
            && claims.get("client_id").and_then(Value::as_str) == Some(&client.client_id)
            && let Some(id) = claims.get("jti").and_then(Value::as_str)
        {
            self.revoke_access(id).await?;
        }
        Ok(json_response(StatusCode::OK, &json!({})))
    }

    /// Marks access tokens as revoked: that with an id, or those of a family. The record lives as long as any of them can: those
    /// of before the last restart, or of another replica, may be valid for longer than those that are issued now.
    pub(super) async fn revoke_access(&self, id: &str) -> Result<(), StoreError> {
        self.records.claim("revoked", id, MAX_ACCESS_TOKEN_TTL + LEEWAY).await.map(drop)
    }

    /// Whether an access token was revoked, alone or with its family.
    pub(super) async fn is_revoked(&self, claims: &Claims) -> Result<bool, StoreError> {
        for name in ["jti", GRANT_CLAIM] {
            if let Some(id) = claims.get(name).and_then(Value::as_str)
                && self.records.exists("revoked", id).await?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The claims of a token that this server has signed.
    pub(super) async fn verify_signature(&self, token: &str) -> Result<Option<Claims>, StoreError> {
        let Ok(jwt) = UnverifiedJwt::parse(token) else { return Ok(None) };
        if !jwt.is_of_type("at+jwt") {
            return Ok(None);
        }
        Ok(self.keys.current().await?.verify(&jwt).ok())
    }
}

const LEEWAY: std::time::Duration = std::time::Duration::from_secs(120);
