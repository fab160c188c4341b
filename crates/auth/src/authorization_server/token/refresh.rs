//! The grant `refresh_token`.

use std::sync::Arc;

use super::families::{Family, Rotation};
use super::{TokenCall, TokenGrant, invalid_grant, user_is_gone};
use crate::authorization_server::AuthorizationState;
use crate::authorization_server::http_message::{EndpointError, HttpResponse, OAuthError};
use crate::authorization_server::records::hex_digest;
use crate::scopes;

impl AuthorizationState {
    pub(super) async fn refresh(
        self: &Arc<Self>,
        call: &TokenCall<'_>,
    ) -> Result<HttpResponse, EndpointError> {
        call.check_grant("refresh_token")?;
        let token = call.form.get("refresh_token").unwrap_or_default();
        let wanted = call.form.get("scope").map(scopes::parse);
        let unknown = || invalid_grant("the refresh token is unknown, used, revoked or expired");
        let (name, family) = self.find_family(token).await?.ok_or_else(unknown)?;
        if family.client_id != call.client.client_id {
            return Err(unknown().into());
        }
        // Whatever else the request names: an old token was stolen.
        if family.is_reused(token, self.clock.seconds()) {
            self.revoke_family(&name).await?;
            return Err(unknown().into());
        }
        self.check_family(call, &family, wanted.as_deref())?;
        // Before the token is replaced: if the provider cannot be asked now, the client may repeat its request.
        if !self.may_get_tokens(family.login()).await? {
            self.revoke_family(&name).await?;
            return Err(user_is_gone().into());
        }
        self.use_proof(call).await?;
        let rotated = self.rotate(token, |family| self.check_family(call, family, wanted.as_deref())).await?;
        let (successor, family) = match rotated {
            Rotation::Rotated(successor, family) => (successor, family),
            Rotation::Reused | Rotation::Unknown => {
                return Err(unknown().into());
            }
        };
        self.keep_client(call.client).await?;
        let grant = TokenGrant {
            client_id: family.client_id,
            subject: family.subject,
            scopes: wanted.unwrap_or(family.scopes),
            resource: family.resource,
            // A family that is bound to no key may be refreshed with a proof: this access token is bound to its key.
            key: call.key.clone(),
            family: Some(hex_digest(&name)),
            authenticated_at: Some(family.authenticated_at),
        };
        self.token_response(&grant, Some(successor.expose())).await
    }

    /// Checks a request before its token is replaced.
    fn check_family(
        &self,
        call: &TokenCall<'_>,
        family: &Family,
        wanted: Option<&[String]>,
    ) -> Result<(), EndpointError> {
        if family.client_id != call.client.client_id {
            return Err(invalid_grant("the refresh token is unknown, used, revoked or expired").into());
        }
        if family.key.is_some() && family.key != call.key {
            return Err(invalid_grant("the refresh token is bound to another key").into());
        }
        if wanted.is_some_and(|wanted| wanted.iter().any(|scope| !family.scopes.contains(scope))) {
            return Err(OAuthError::new("invalid_scope", "a refreshed token has no more scopes").into());
        }
        Ok(self.check_resource(call, &family.resource)?)
    }
}
