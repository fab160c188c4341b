//! The grant `client_credentials`: a client of the settings acts for itself.

use super::{TokenCall, TokenGrant};
use crate::authorization_server::AuthorizationState;
use crate::authorization_server::http_message::{EndpointError, HttpResponse, OAuthError};

impl AuthorizationState {
    pub(super) async fn client_credentials(
        &self,
        call: &TokenCall<'_>,
    ) -> Result<HttpResponse, EndpointError> {
        call.check_grant("client_credentials")?;
        if call.client.is_public() {
            return Err(OAuthError::new("unauthorized_client", "the client has no credentials").into());
        }
        let scopes = self.grantable_scopes(call.form.get("scope"), call.client);
        let scopes =
            scopes.ok_or_else(|| OAuthError::new("invalid_scope", "none of these scopes can be granted"))?;
        let resource = self.settings.requested_resource(call.form);
        let resource = resource.ok_or_else(|| {
            OAuthError::new("invalid_target", "tokens for this `resource` are not issued here")
        })?;
        self.use_proof(call).await?;
        let grant = TokenGrant {
            client_id: call.client.client_id.clone(),
            // Not the bare id: a user could have the same name (RFC 9068, 5).
            subject: format!("client:{}", call.client.client_id),
            scopes,
            resource: resource.to_owned(),
            key: call.key.clone(),
            family: None,
            authenticated_at: None,
        };
        self.token_response(&grant, None).await
    }
}
