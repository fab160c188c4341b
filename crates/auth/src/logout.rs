//! Logging out: forgets a token, and has the authorization server revoke it (RFC 7009).

use crate::error::{AuthError, Result};
use crate::login::Login;

/// The outcome of a logout. The token is forgotten in every case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Logout {
    /// There was no token.
    NoToken,
    /// The authorization server has revoked the token.
    Revoked,
    /// The authorization server revokes no tokens. The token stays valid until it expires.
    Unsupported,
    /// The token could not be revoked. It may stay valid until it expires.
    Failed(AuthError),
}

impl Login {
    /// Logs out of a server: forgets its token, also that of other servers of the same resource, and asks the authorization
    /// server to revoke it. Fails only if the store does; see [`Logout`] for what the authorization server said.
    pub async fn logout(&self, server: &str) -> Result<Logout> {
        let (token, vault) = {
            let mut store = self.settings.store.lock().await?;
            let mut vault = store.read().await?;
            let token = vault.token(server).cloned();
            if vault.remove_token(server) {
                store.write(&vault).await?;
            }
            (token, vault)
        };
        let login = self.server(server);
        login.forget();
        let Some(token) = token else { return Ok(Logout::NoToken) };
        Ok(match login.revoke(&token, &vault).await {
            Ok(true) => Logout::Revoked,
            Ok(false) => Logout::Unsupported,
            Err(error) => Logout::Failed(error),
        })
    }
}
