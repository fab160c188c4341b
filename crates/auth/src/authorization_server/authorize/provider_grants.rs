//! Logins at the OpenID provider, and the tokens that come of them.
//!
//! Sessions, codes and families of refresh tokens name the login that they come from. Its record has what the provider said
//! about the user, and the refresh token of the provider if it issued one. Without one it ends after a time; with one the
//! provider is asked again before tokens are refreshed. With the record ends all that names it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tsugite::store::{Precondition, StoreError};

use crate::authorization_server::AuthorizationState;
use crate::authorization_server::http_message::EndpointError;
use crate::authorization_server::openid::ProviderConnection;
use crate::authorization_server::records::FIELD;
use crate::error::AuthError;
use crate::jose::{Claims, random_text};
use crate::secret::{Secret, stored_option};
use crate::token_endpoint::{TokenError, TokenResponse};

/// A login at the provider.
#[derive(Clone, Serialize, Deserialize)]
struct ProviderGrant {
    issuer: String,
    /// The claims that decide who may log in.
    claims: Claims,
    #[serde(with = "stored_option")]
    refresh_token: Option<Secret>,
    /// When the provider was asked last, in seconds since 1970.
    asked_at: u64,
}

impl ProviderGrant {
    /// Whether the settings still let this user in. They may name another provider since.
    fn is_allowed(&self, connection: &ProviderConnection) -> bool {
        self.issuer == connection.provider.issuer && connection.provider.allows(&self.claims)
    }
}

impl AuthorizationState {
    /// Records a login at the provider and returns its name.
    pub(super) async fn start_provider_grant(
        &self,
        connection: &ProviderConnection,
        claims: &Claims,
        refresh_token: Option<String>,
    ) -> Result<String, StoreError> {
        let refresh_token = refresh_token.filter(|token| !token.is_empty()).map(Secret::new);
        let (name, issuer) = (random_text()?, connection.provider.issuer.clone());
        let grant =
            ProviderGrant { issuer, claims: kept(claims), refresh_token, asked_at: self.clock.seconds() };
        self.write_grant(&name, &grant, Precondition::FieldAbsent).await?;
        Ok(name)
    }

    /// Whether a login at the provider still counts, as far as this server knows.
    pub(in crate::authorization_server) async fn has_provider_grant(
        &self,
        name: &str,
    ) -> Result<bool, StoreError> {
        let Some(connection) = &self.provider else { return Ok(false) };
        let found = self.records.read::<ProviderGrant>(&self.grant_key(name), FIELD).await?;
        Ok(found.is_some_and(|found| found.value.is_allowed(connection)))
    }

    /// Asks the provider whether a login still counts, at most once a minute. An error means that it cannot be asked.
    pub(in crate::authorization_server) async fn confirm_provider_grant(
        &self,
        name: &str,
    ) -> Result<bool, EndpointError> {
        let Some(connection) = &self.provider else { return Ok(false) };
        let key = self.grant_key(name);
        let Some(found) = self.records.read::<ProviderGrant>(&key, FIELD).await? else { return Ok(false) };
        let (grant, now) = (found.value, self.clock.seconds());
        if !grant.is_allowed(connection) {
            return Ok(false);
        }
        let Some(refresh_token) = grant.refresh_token.clone().filter(|_| now >= grant.asked_at + ASK_SECONDS)
        else {
            return Ok(true);
        };
        // One request asks: the provider may accept its refresh token once.
        let asking = ProviderGrant { asked_at: now, ..grant.clone() };
        if !self.write_grant(name, &asking, Precondition::FieldVersion(found.version)).await? {
            return Ok(true);
        }
        let request = [("grant_type", "refresh_token"), ("refresh_token", refresh_token.expose())];
        let response = connection.request_token(&request).await;
        match self.renewed(connection, &asking, response).await {
            Ok(Some(renewed)) => {
                self.write_grant(name, &renewed, Precondition::RecordExists).await.map_err(Into::into)
            }
            Ok(None) => {
                self.records.delete(&key).await?;
                Ok(false)
            }
            Err(error) => {
                // The next refresh asks again.
                self.write_grant(name, &grant, Precondition::RecordExists).await?;
                Err(error.into())
            }
        }
    }

    /// The login after the provider was asked; `None` if it has ended there.
    async fn renewed(
        &self,
        connection: &ProviderConnection,
        grant: &ProviderGrant,
        response: Result<TokenResponse, TokenError>,
    ) -> Result<Option<ProviderGrant>, AuthError> {
        let response = match response {
            Ok(response) => response,
            Err(TokenError::Refused { code, .. }) if code == "invalid_grant" => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut renewed = grant.clone();
        if let Some(id_token) = &response.id_token {
            let claims = connection.verify_id_token(id_token, None, self.clock.seconds()).await?;
            if claims.get("sub") != grant.claims.get("sub") || !connection.provider.allows(&claims) {
                return Ok(None);
            }
            renewed.claims = kept(&claims);
        }
        // A provider that names no new refresh token goes on with the old one.
        if let Some(token) = response.refresh_token.filter(|token| !token.is_empty()) {
            renewed.refresh_token = Some(Secret::new(token));
        }
        Ok(Some(renewed))
    }

    async fn write_grant(
        &self,
        name: &str,
        grant: &ProviderGrant,
        precondition: Precondition,
    ) -> Result<bool, StoreError> {
        let ttl = match grant.refresh_token {
            Some(_) => self.settings.refresh_token_ttl.max(self.settings.session_ttl) + LEEWAY,
            None => self.settings.session_ttl,
        };
        self.records.write((&self.grant_key(name), FIELD), grant, precondition, ttl).await
    }

    fn grant_key(&self, name: &str) -> String {
        self.records.key("provider grant", name)
    }
}

/// The claims that are kept: those that say who the user is, and may log in.
fn kept(claims: &Claims) -> Claims {
    let names = ["sub", "email", "email_verified"];
    let pairs = names.iter().filter_map(|name| Some(((*name).to_owned(), claims.get(*name)?.clone())));
    pairs.filter(|(_, value)| !matches!(value, Value::Object(_) | Value::Array(_))).collect()
}

/// The provider is asked this often at most for one login.
const ASK_SECONDS: u64 = 60;
/// Longer than the tokens that name the record, which are renewed up to a minute after it.
const LEEWAY: Duration = Duration::from_secs(120);
