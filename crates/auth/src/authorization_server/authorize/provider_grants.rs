//! Logins at the OpenID provider, and the tokens that come of them.
//!
//! Sessions, codes and families of refresh tokens name the login that they come from. Its record has what the provider said
//! about the user, and the refresh token of the provider if it issued one. Without one it ends after a time; with one the
//! provider is asked again before tokens are issued. With the record ends all that names it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tsugite::store::{Precondition, StoreError};

use crate::authorization_server::AuthorizationState;
use crate::authorization_server::http_message::EndpointError;
use crate::authorization_server::openid::ProviderConnection;
use crate::authorization_server::records::{FIELD, Versioned};
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
    /// When the provider last answered, in seconds since 1970.
    asked_at: u64,
    /// Until then a request of some replica waits for the answer of the provider.
    #[serde(default)]
    asking_until: u64,
}

impl ProviderGrant {
    /// Whether the settings still let this user in. They may name another provider since.
    fn is_allowed(&self, connection: &ProviderConnection) -> bool {
        self.issuer == connection.provider.issuer && connection.provider.allows(&self.claims)
    }
}

impl ProviderConnection {
    /// Requests new tokens for a login.
    async fn refresh(&self, grant: &ProviderGrant) -> Result<TokenResponse, TokenError> {
        let token = grant.refresh_token.as_ref().map(Secret::expose).unwrap_or_default();
        self.request_token(&[("grant_type", "refresh_token"), ("refresh_token", token)]).await
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
        let grant = ProviderGrant {
            issuer,
            claims: kept(claims),
            refresh_token,
            asked_at: self.clock.seconds(),
            asking_until: 0,
        };
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
        self: &Arc<Self>,
        name: &str,
    ) -> Result<bool, EndpointError> {
        let Some(connection) = &self.provider else { return Ok(false) };
        for _ in 0..MAX_LOOKS {
            let found = self.records.read::<ProviderGrant>(&self.grant_key(name), FIELD).await?;
            let Some(found) = found.filter(|found| found.value.is_allowed(connection)) else {
                return Ok(false);
            };
            let now = self.clock.seconds();
            if found.value.refresh_token.is_none() || now < found.value.asked_at + ASK_SECONDS {
                return Ok(true);
            }
            if found.value.asking_until <= now {
                // The provider replaces its refresh token even if the client of this request has gone away.
                let (state, name) = (Arc::clone(self), name.to_owned());
                let asking = tokio::spawn(async move { state.ask_provider(&name, found).await });
                if let Some(counts) = asking.await.map_err(StoreError::from)?? {
                    return Ok(counts);
                }
            }
            // The provider may accept its refresh token once: only one request asks.
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Err(AuthError::login("another request still waits for the answer of the provider").into())
    }

    /// Asks the provider about a login and records the answer; `None` if another request asks already.
    async fn ask_provider(
        &self,
        name: &str,
        found: Versioned<ProviderGrant>,
    ) -> Result<Option<bool>, EndpointError> {
        let (Some(connection), grant) = (&self.provider, found.value) else { return Ok(Some(false)) };
        let asking = ProviderGrant { asking_until: self.clock.seconds() + ASKING_SECONDS, ..grant.clone() };
        if !self.write_grant(name, &asking, Precondition::FieldVersion(found.version)).await? {
            return Ok(None);
        }
        let refreshed = tokio::time::timeout(ANSWER_TIMEOUT, connection.refresh(&grant)).await;
        let response = match refreshed {
            Ok(Ok(response)) => response,
            Ok(Err(TokenError::Refused { code, .. })) if code == "invalid_grant" => {
                return self.end_provider_grant(name).await.map(Some);
            }
            failed => {
                // The next request asks again.
                let unasked = ProviderGrant { asking_until: 0, ..grant };
                self.write_grant(name, &unasked, Precondition::RecordExists).await?;
                return Err(match failed {
                    Ok(Err(error)) => AuthError::from(error),
                    Ok(Ok(_)) | Err(_) => AuthError::login("the provider did not answer in time"),
                }
                .into());
            }
        };
        // The old refresh token is used up: the new one is kept before anything else can fail. A provider that names none
        // goes on with the old one.
        let mut asked = ProviderGrant { asked_at: self.clock.seconds(), asking_until: 0, ..grant.clone() };
        if let Some(token) = response.refresh_token.filter(|token| !token.is_empty()) {
            asked.refresh_token = Some(Secret::new(token));
        }
        let unverified = ProviderGrant { asked_at: grant.asked_at, ..asked.clone() };
        let Some(id_token) = response.id_token else {
            return Ok(Some(self.write_grant(name, &asked, Precondition::RecordExists).await?));
        };
        // Other requests still wait: it is not known yet whether the login counts.
        let waiting = ProviderGrant { asking_until: asking.asking_until, ..unverified.clone() };
        if !self.write_grant(name, &waiting, Precondition::RecordExists).await? {
            return Ok(Some(false));
        }
        match connection.verify_id_token(&id_token, None, self.clock.seconds()).await {
            Ok(claims) => asked.claims = renewed(&grant.claims, &claims),
            Err(error) => {
                self.write_grant(name, &unverified, Precondition::RecordExists).await?;
                return Err(error.into());
            }
        }
        if asked.claims.get("sub") != grant.claims.get("sub") || !asked.is_allowed(connection) {
            return self.end_provider_grant(name).await.map(Some);
        }
        Ok(Some(self.write_grant(name, &asked, Precondition::RecordExists).await?))
    }

    /// Removes a login that has ended at the provider: it counts no more.
    async fn end_provider_grant(&self, name: &str) -> Result<bool, EndpointError> {
        self.records.delete(&self.grant_key(name)).await?;
        Ok(false)
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
    pairs.filter(|(_, value)| !matches!(value, Value::Null | Value::Object(_) | Value::Array(_))).collect()
}

/// The claims of a login after a renewed ID token, which may leave out claims that the first one had.
fn renewed(known: &Claims, claims: &Claims) -> Claims {
    let mut renewed = kept(claims);
    // Another address was not verified by the claim about the earlier one.
    let is_same_email = renewed.get("email").is_none_or(|email| Some(email) == known.get("email"));
    if is_same_email {
        for (name, value) in known {
            renewed.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    renewed
}

/// The provider is asked this often at most for one login.
const ASK_SECONDS: u64 = 60;
/// How long the provider may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than the provider and its keys take: then the process that asked has ended.
const ASKING_SECONDS: u64 = 60;
/// How often, and after what time, a request looks whether the provider has answered another one.
const MAX_LOOKS: u32 = 30;
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Longer than the tokens that name the record, which are renewed up to a minute after it.
const LEEWAY: Duration = Duration::from_secs(120);
