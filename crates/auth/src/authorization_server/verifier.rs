//! The verifier of the tokens that this server issues. It needs no network: keys and revocations are in the store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tsugite::transport::http::{
    ProtectedResource, TokenRequest, Verified, VerifyError, VerifyFuture, VerifyToken,
};

use super::AuthorizationServer;
use crate::resource::{ClaimRules, Dpop};

/// Verifies the tokens of an [`AuthorizationServer`] in the same process.
#[derive(Clone)]
pub struct IssuedTokens {
    server: AuthorizationServer,
    rules: ClaimRules,
}

impl AuthorizationServer {
    /// The verifier for a server that this server issues tokens for, in the same process.
    ///
    /// ```no_run
    /// # fn f(auth: tsugite_auth::authorization_server::AuthorizationServer) {
    /// use tsugite::Server;
    ///
    /// let server = Server::new("notes", "1.0.0").authorize(auth.verifier());
    /// # }
    /// ```
    pub fn verifier(&self) -> Dpop<IssuedTokens> {
        let rules = ClaimRules {
            issuer: Some(self.0.settings.issuer.clone()),
            leeway: LEEWAY,
            subject_required: true,
            ..ClaimRules::default()
        };
        Dpop::new(IssuedTokens { server: self.clone(), rules }).store(Arc::clone(&self.0.store))
    }
}

impl IssuedTokens {
    async fn verify_token(&self, request: &TokenRequest) -> Result<Verified, VerifyError> {
        let state = &self.server.0;
        let claims = state.verify_signature(&request.token).await.map_err(VerifyError::unavailable)?;
        let claims = claims.ok_or_else(VerifyError::invalid_token)?;
        if state.is_revoked(&claims).await.map_err(VerifyError::unavailable)? {
            return Err(VerifyError::invalid_token().with_description("the token was revoked"));
        }
        let verified = self.rules.check(claims, &request.resource, state.clock.seconds());
        let verified = verified.map_err(|error| VerifyError::invalid_token().with_description(error.0))?;
        Ok(verified.cache_for(state.settings.revocation_interval))
    }
}

impl VerifyToken for IssuedTokens {
    fn verify<'a>(&'a self, request: &'a TokenRequest) -> VerifyFuture<'a, Verified> {
        Box::pin(self.verify_token(request))
    }

    fn resource(&self) -> ProtectedResource {
        let settings = &self.server.0.settings;
        ProtectedResource::new()
            .authorization_server(&settings.issuer)
            .scopes_supported(settings.scope_names())
    }
}

impl fmt::Debug for IssuedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedTokens").field("server", &self.server).finish_non_exhaustive()
    }
}

/// The clocks of replicas differ by less.
const LEEWAY: Duration = Duration::from_secs(5);
