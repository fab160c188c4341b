//! [`OpenIdProvider`]: login at another server, which says who the user is.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;
use tsugite::client::Fetcher;

use crate::discovery::ServerMetadata;
use crate::error::{AuthError, Result};
use crate::net::{Trust, Url};
use crate::registration::ClientCredentials;
use crate::resource::{Issuer, IssuerKeys, KeySource};
use crate::secret::Secret;
use crate::token_endpoint::{Nonce, OAuthClient, TokenEndpoint, TokenError, TokenResponse};

/// An OpenID provider that users log in at, and the users who may.
///
/// This server is one client there, for all its own clients. Users are therefore asked for each client whether they want it,
/// before they are sent to the provider.
///
/// ```
/// use tsugite_auth::authorization_server::OpenIdProvider;
///
/// let google = OpenIdProvider::new("https://accounts.google.com", "id", "secret")
///     .name("Google")
///     .allow_email_domain("example.com");
/// ```
#[derive(Debug, Clone)]
pub struct OpenIdProvider {
    pub(super) issuer: String,
    pub(super) client_id: String,
    pub(super) client_secret: Secret,
    name: Option<String>,
    scopes: Vec<String>,
    allowed: Allowed,
}

#[derive(Debug, Clone, Default)]
struct Allowed {
    everyone: bool,
    subjects: Vec<String>,
    emails: Vec<String>,
    domains: Vec<String>,
}

impl OpenIdProvider {
    /// A provider at which this server is registered, with the redirect URI `/callback` of the issuer.
    pub fn new(
        issuer: impl Into<String>,
        client_id: impl Into<String>,
        client_secret: impl Into<Secret>,
    ) -> Self {
        Self {
            issuer: issuer.into(),
            client_id: client_id.into(),
            client_secret: client_secret.into(),
            name: None,
            scopes: vec!["openid".to_owned(), "email".to_owned()],
            allowed: Allowed::default(),
        }
    }

    /// Sets the name on pages; the host of the issuer by default.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the scopes to ask the provider for; `openid email` by default. `openid` is always among them.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        let others = scopes.into_iter().map(Into::into).filter(|scope| scope != "openid");
        self.scopes = std::iter::once("openid".to_owned()).chain(others).collect();
        self
    }

    /// Lets every user of the provider log in.
    #[must_use]
    pub fn allow_everyone(mut self) -> Self {
        self.allowed.everyone = true;
        self
    }

    /// Lets a user log in, named by the `sub` of the provider.
    #[must_use]
    pub fn allow_subject(mut self, subject: impl Into<String>) -> Self {
        self.allowed.subjects.push(subject.into());
        self
    }

    /// Lets a user log in whose verified address this is.
    #[must_use]
    pub fn allow_email(mut self, email: impl Into<String>) -> Self {
        self.allowed.emails.push(email.into());
        self
    }

    /// Lets users log in whose verified address is of this domain.
    #[must_use]
    pub fn allow_email_domain(mut self, domain: impl Into<String>) -> Self {
        self.allowed.domains.push(domain.into());
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        let url = Url::parse(&self.issuer)?;
        Trust::USER.check_url(&url)?;
        let Allowed { everyone, subjects, emails, domains } = &self.allowed;
        match *everyone || !subjects.is_empty() || !emails.is_empty() || !domains.is_empty() {
            true => Ok(()),
            false => Err(AuthError::config(format!(
                "the OpenID provider {:?} lets no user in: allow subjects, addresses, a domain or everyone",
                self.issuer
            ))),
        }
    }

    /// Whether the claims are those of a user who may log in.
    pub(super) fn allows(&self, claims: &Map<String, Value>) -> bool {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let is_verified = claims.get("email_verified").and_then(Value::as_bool) == Some(true);
        let email = text("email").filter(|_| is_verified).map(str::to_ascii_lowercase);
        let domain = email.as_deref().and_then(|email| Some(email.rsplit_once('@')?.1));
        let Allowed { everyone, subjects, emails, domains } = &self.allowed;
        *everyone
            || text("sub").is_some_and(|subject| subjects.iter().any(|known| known == subject))
            || email
                .as_deref()
                .is_some_and(|email| emails.iter().any(|known| known.eq_ignore_ascii_case(email)))
            || domain.is_some_and(|domain| domains.iter().any(|known| known.eq_ignore_ascii_case(domain)))
    }

    pub(super) fn scope(&self) -> String {
        self.scopes.join(" ")
    }

    pub(super) fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| {
            let rest = self.issuer.split_once("://").map_or(self.issuer.as_str(), |(_, rest)| rest);
            rest.split('/').next().unwrap_or_default()
        })
    }

    pub(super) fn shown_host(&self) -> String {
        Url::parse(&self.issuer).map_or_else(|_| self.issuer.clone(), |url| url.host)
    }

    pub(super) fn is_secure(&self) -> bool {
        self.issuer.starts_with("https://")
    }
}

/// A provider, and what is known about its endpoints.
pub(super) struct ProviderConnection {
    pub(super) provider: OpenIdProvider,
    issuer: Issuer,
    pub(super) keys: Arc<IssuerKeys>,
    metadata: Mutex<Option<(Arc<ServerMetadata>, Instant)>>,
}

impl ProviderConnection {
    pub(super) fn new(provider: OpenIdProvider, fetcher: &Fetcher) -> Self {
        let issuer = Issuer { fetcher: fetcher.clone(), ..Issuer::new(provider.issuer.clone()) };
        let keys = IssuerKeys::new(KeySource::Metadata, issuer.clone(), KEY_REFRESH_INTERVAL);
        Self { provider, issuer, keys, metadata: Mutex::default() }
    }

    /// The metadata of the provider, fetched at most every 10 minutes while it can be reached.
    pub(super) async fn metadata(&self) -> Result<Arc<ServerMetadata>> {
        let known = self.metadata.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((metadata, since)) = known
            && since.elapsed() < METADATA_TTL
        {
            return Ok(metadata);
        }
        let metadata = Arc::new(self.issuer.metadata().await?);
        let fetched = Some((Arc::clone(&metadata), Instant::now()));
        *self.metadata.lock().unwrap_or_else(PoisonError::into_inner) = fetched;
        Ok(metadata)
    }

    /// Requests a token of the provider with a grant.
    pub(super) async fn request_token(&self, grant: &[(&str, &str)]) -> Result<TokenResponse, TokenError> {
        let metadata = self.metadata().await?;
        let url = metadata.token_endpoint()?;
        let (http, client, nonce) = (self.issuer.http_for(&url), self.client(&metadata), Nonce::default());
        let issuer = self.provider.issuer.as_str();
        let endpoint = TokenEndpoint { http: &http, url, issuer, client: &client, dpop: None, nonce: &nonce };
        endpoint.request(grant).await
    }

    /// This server as a client of the provider.
    fn client(&self, metadata: &ServerMetadata) -> OAuthClient {
        let credentials =
            ClientCredentials::secret(self.provider.client_id.clone(), self.provider.client_secret.clone());
        credentials.client(metadata.token_endpoint_auth_methods_supported.as_deref())
    }
}

const METADATA_TTL: Duration = Duration::from_secs(10 * 60);
const KEY_REFRESH_INTERVAL: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_allowed_users_of_a_provider_log_in() {
        let provider =
            OpenIdProvider::new("https://idp.example", "id", "s").allow_email_domain("example.com");
        let allows = |provider: &OpenIdProvider, claims: Value| provider.allows(claims.as_object().unwrap());
        assert!(allows(&provider, json!({"sub": "1", "email": "ann@Example.com", "email_verified": true})));
        for claims in [
            json!({"sub": "1"}),
            json!({"sub": "1", "email": "ann@example.com"}),
            json!({"sub": "1", "email": "ann@example.com", "email_verified": false}),
            json!({"sub": "1", "email": "ann@example.com", "email_verified": "true"}),
            json!({"sub": "1", "email": "ann@example.com.evil", "email_verified": true}),
            json!({"sub": "1", "email": "ann@sub.example.com", "email_verified": true}),
            json!({"sub": "1", "email": "example.com", "email_verified": true}),
        ] {
            assert!(!allows(&provider, claims.clone()), "{claims}");
        }
        let one =
            OpenIdProvider::new("https://idp.example", "id", "s").allow_subject("7").allow_email("a@b.c");
        assert!(allows(&one, json!({"sub": "7"})) && !allows(&one, json!({"sub": "8"})));
        assert!(allows(&one, json!({"sub": "8", "email": "A@b.c", "email_verified": true})));
        assert!(OpenIdProvider::new("https://idp.example", "id", "s").check().is_err());
    }
}
