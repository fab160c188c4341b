//! Access tokens: signed JWTs (RFC 9068) for one resource.

use http::StatusCode;
use serde_json::{Value, json};

use crate::authorization_server::AuthorizationState;
use crate::authorization_server::http_message::{EndpointError, HttpResponse, json_response};
use crate::jose::random_text;

/// The permission that a token stands for.
pub(in crate::authorization_server) struct TokenGrant {
    pub(in crate::authorization_server) client_id: String,
    pub(in crate::authorization_server) subject: String,
    pub(in crate::authorization_server) scopes: Vec<String>,
    pub(in crate::authorization_server) resource: String,
    /// The thumbprint of the key that the token is bound to.
    pub(in crate::authorization_server) key: Option<String>,
    /// The name of the family of refresh tokens, digested. All access tokens of a family are revoked with it.
    pub(in crate::authorization_server) family: Option<String>,
    /// When the user logged in.
    pub(in crate::authorization_server) authenticated_at: Option<u64>,
}

impl AuthorizationState {
    /// The response with a new access token, and a refresh token if there is one.
    pub(super) async fn token_response(
        &self,
        grant: &TokenGrant,
        refresh_token: Option<&str>,
    ) -> Result<HttpResponse, EndpointError> {
        let (now, ttl) = (self.clock.seconds(), self.settings.access_token_ttl.as_secs());
        let scope = grant.scopes.join(" ");
        let mut claims = vec![
            ("iss", json!(self.settings.issuer)),
            ("sub", json!(grant.subject)),
            ("aud", json!(grant.resource)),
            ("client_id", json!(grant.client_id)),
            ("scope", json!(scope)),
            ("iat", json!(now)),
            ("exp", json!(now + ttl)),
            ("jti", json!(random_text()?)),
        ];
        claims.extend(grant.authenticated_at.map(|at| ("auth_time", json!(at))));
        claims.extend(grant.family.as_ref().map(|family| (GRANT_CLAIM, json!(family))));
        claims.extend(grant.key.as_ref().map(|key| ("cnf", json!({"jkt": key}))));
        let keys = self.keys.current().await?;
        let token = keys.signer()?.sign_jwt(&[("typ", json!("at+jwt"))], &claims)?;
        let mut body = json!({
            "access_token": token,
            "token_type": if grant.key.is_some() { "DPoP" } else { "Bearer" },
            "expires_in": ttl,
            "scope": scope,
        });
        if let (Some(members), Some(refresh_token)) = (body.as_object_mut(), refresh_token) {
            members.insert("refresh_token".to_owned(), Value::from(refresh_token));
        }
        Ok(json_response(StatusCode::OK, &body))
    }
}

/// The claim with the family that a token belongs to.
pub(in crate::authorization_server) const GRANT_CLAIM: &str = "grant_id";
