//! [`Vault`]: the content of a store.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::secret::{Secret, stored, stored_option};

/// Everything that a store keeps. `Debug` shows no secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Vault {
    /// The registrations of this application, by the issuer that made them.
    #[serde(default)]
    pub registrations: BTreeMap<String, Registration>,
    /// The issuer that a client id of the application was first used at, by the client id. It is used at no other.
    #[serde(default)]
    pub client_issuers: BTreeMap<String, String>,
    /// The tokens, one for each issuer, resource and client id.
    #[serde(default)]
    pub tokens: Vec<StoredToken>,
}

/// A client that was registered dynamically.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Registration {
    /// The client id.
    pub client_id: String,
    /// The client secret, if the authorization server has issued one.
    #[serde(with = "stored_option", default)]
    pub client_secret: Option<Secret>,
    /// The method of authentication at the token endpoint.
    pub auth_method: String,
    /// The redirect URI that was registered.
    pub redirect_uri: String,
    /// The scopes that were registered.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// When the secret expires, in seconds since 1970.
    #[serde(default)]
    pub expires_at: Option<u64>,
}

/// A token with all that is needed to renew it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredToken {
    /// The servers that the token is sent to, as the application named them. They belong to the same resource.
    pub servers: Vec<String>,
    /// The authorization server that issued it.
    pub issuer: String,
    /// The resource it was issued for.
    pub resource: String,
    /// The client it was issued to.
    pub client_id: String,
    /// The token endpoint.
    pub token_endpoint: String,
    /// The endpoint that revokes the token, if the authorization server has one.
    #[serde(default)]
    pub revocation_endpoint: Option<String>,
    /// The method of authentication at the token endpoint.
    pub auth_method: String,
    /// The access token.
    #[serde(with = "stored")]
    pub access_token: Secret,
    /// The refresh token.
    #[serde(with = "stored_option", default)]
    pub refresh_token: Option<Secret>,
    /// When the access token expires, in seconds since 1970.
    #[serde(default)]
    pub expires_at: Option<u64>,
    /// The scopes that were asked for.
    #[serde(default)]
    pub requested_scopes: Vec<String>,
    /// The scopes that were granted, if they differ.
    #[serde(default)]
    pub granted_scopes: Option<Vec<String>>,
    /// The key that the token is bound to.
    #[serde(with = "stored_option", default)]
    pub dpop_key: Option<Secret>,
    /// A random id of the login, which stays when the token is renewed.
    pub login_id: String,
}

impl Vault {
    /// The token for a server.
    pub fn token(&self, server: &str) -> Option<&StoredToken> {
        self.tokens.iter().find(|token| token.is_for(server))
    }

    /// Keeps a token, instead of another one of the same issuer, resource and client id. Its servers have no other token.
    pub fn put_token(&mut self, mut token: StoredToken) {
        let servers: Vec<String> = std::mem::take(&mut token.servers);
        for server in &servers {
            self.forget_server(server);
        }
        let is_same = |known: &StoredToken| {
            (&known.issuer, &known.resource, &known.client_id)
                == (&token.issuer, &token.resource, &token.client_id)
        };
        let others =
            self.tokens.iter().filter(|known| is_same(known)).flat_map(|known| known.servers.clone());
        let servers: Vec<String> = servers.into_iter().chain(others).collect();
        self.tokens.retain(|known| !is_same(known) && !known.servers.is_empty());
        self.tokens.push(StoredToken { servers, ..token });
    }

    /// Removes the token for a server. Returns false if there was none.
    pub fn remove_token(&mut self, server: &str) -> bool {
        let before = self.tokens.len();
        self.tokens.retain(|known| !known.is_for(server));
        self.tokens.len() < before
    }

    fn forget_server(&mut self, server: &str) {
        for token in &mut self.tokens {
            token.servers.retain(|known| known != server);
        }
    }
}

impl StoredToken {
    /// Whether the token is sent to a server.
    pub fn is_for(&self, server: &str) -> bool {
        self.servers.iter().any(|known| known == server)
    }

    /// Whether the access token has expired, or does so within some seconds.
    pub(crate) fn expires_within(&self, seconds: u64, now: u64) -> bool {
        self.expires_at.is_some_and(|at| at <= now.saturating_add(seconds))
    }

    /// The scopes of the token.
    pub fn scopes(&self) -> &[String] {
        self.granted_scopes.as_ref().unwrap_or(&self.requested_scopes)
    }
}
