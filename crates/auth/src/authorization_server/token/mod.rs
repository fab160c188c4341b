//! `/token`: one file for each grant, `access_token` for what they all issue, and `families` for refresh tokens.

mod access_token;
mod client_credentials;
mod code;
mod families;
mod jwt_bearer;
mod proof;
mod refresh;

pub use jwt_bearer::TrustedIssuer;

pub(super) use access_token::{GRANT_CLAIM, TokenGrant};
pub(super) use code::CodeRecord;

use std::sync::Arc;

use super::AuthorizationState;
use super::clients::Client;
use super::http_message::{EndpointError, HttpRequest, HttpResponse, OAuthError, Params};
use super::users::EarlierLogin;
use proof::TokenProof;

/// A request for a token, of a client that has authenticated itself.
struct TokenCall<'a> {
    client: &'a Client,
    form: &'a Params,
    proof: Option<&'a TokenProof>,
    /// The thumbprint of the key that the client has proven to hold.
    key: Option<String>,
}

impl AuthorizationState {
    pub(super) async fn token(
        self: &Arc<Self>,
        request: &HttpRequest,
    ) -> Result<HttpResponse, EndpointError> {
        let malformed =
            || OAuthError::new("invalid_request", "the body is not a form, or has a parameter twice");
        let form = request.form().ok_or_else(malformed)?;
        let proof = self.check_proof(request)?;
        let client = self.authenticate_client(request, &form).await?;
        let key = proof.as_ref().map(|proof| proof.thumbprint().to_owned());
        let call = TokenCall { client: &client, form: &form, proof: proof.as_ref(), key };
        let mut response = self.issue_token(&call).await?;
        if let Some(proof) = proof {
            proof.add_nonce(&mut response);
        }
        Ok(response)
    }

    async fn issue_token(self: &Arc<Self>, call: &TokenCall<'_>) -> Result<HttpResponse, EndpointError> {
        match call.form.get("grant_type") {
            Some("authorization_code") => self.exchange_code(call).await,
            Some("refresh_token") => self.refresh(call).await,
            Some("client_credentials") => self.client_credentials(call).await,
            Some("urn:ietf:params:oauth:grant-type:jwt-bearer") => self.exchange_assertion(call).await,
            Some(_) => {
                Err(OAuthError::new("unsupported_grant_type", "this grant type is not supported").into())
            }
            None => Err(OAuthError::new("invalid_request", "`grant_type` is missing").into()),
        }
    }

    /// Whether a user who logged in before may get tokens. For a user of the provider, the provider is asked.
    async fn may_get_tokens(self: &Arc<Self>, login: EarlierLogin<'_>) -> Result<bool, EndpointError> {
        match login.provider_grant {
            Some(grant) => self.confirm_provider_grant(grant).await,
            None => Ok(self.is_active(login).await?),
        }
    }

    /// Fails if a request names another resource than this.
    fn check_resource(&self, call: &TokenCall<'_>, granted: &str) -> Result<(), OAuthError> {
        let is_granted = |named: &String| self.settings.find_resource(named) == Some(granted);
        match call.form.resources() {
            [] => Ok(()),
            [named] if is_granted(named) => Ok(()),
            _ => Err(OAuthError::new("invalid_target", "the token was granted for another `resource`")),
        }
    }
}

impl TokenCall<'_> {
    /// Fails if the client was not given this grant.
    fn check_grant(&self, grant_type: &str) -> Result<(), OAuthError> {
        match self.client.may_use(grant_type) {
            true => Ok(()),
            false => Err(OAuthError::new("unauthorized_client", "the client may not use this grant type")),
        }
    }
}

fn invalid_grant(description: &'static str) -> OAuthError {
    OAuthError::new("invalid_grant", description)
}

fn user_is_gone() -> OAuthError {
    invalid_grant("the user may not log in any more")
}
