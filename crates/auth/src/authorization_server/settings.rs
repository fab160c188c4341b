//! The settings of an authorization server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tsugite::client::Fetcher;
use tsugite::server::{SealKey, SealKeys};
use tsugite::store::{MemoryStore, Store, StoreScope};

use super::AuthorizationServer;
use super::clients::ConfiguredClient;
use super::http_message::Params;
use super::openid::OpenIdProvider;
use super::token::TrustedIssuer;
use super::users::Users;
use crate::error::{AuthError, Result};
use crate::net::{Trust, Url};

/// The settings of an [`AuthorizationServer`].
#[must_use = "a builder does nothing before `build`"]
pub struct AuthorizationServerBuilder {
    pub(super) settings: ServerSettings,
    pub(super) store: Option<Arc<dyn Store>>,
    pub(super) seal_keys: Option<SealKeys>,
    pub(super) fetcher: Fetcher,
}

/// The settings that endpoints read.
pub(super) struct ServerSettings {
    pub(super) issuer: String,
    pub(super) name: Option<String>,
    /// The protected servers that tokens are issued for.
    pub(super) resources: Vec<String>,
    /// The scopes that can be granted, with their descriptions.
    pub(super) scopes: Vec<(String, String)>,
    pub(super) users: Option<Arc<dyn Users>>,
    pub(super) provider: Option<OpenIdProvider>,
    pub(super) clients: Vec<ConfiguredClient>,
    pub(super) issuers: Vec<TrustedIssuer>,
    pub(super) has_registration: bool,
    pub(super) has_documents: bool,
    pub(super) allow_private: bool,
    pub(super) is_nonce_required: bool,
    pub(super) access_token_ttl: Duration,
    pub(super) refresh_token_ttl: Duration,
    pub(super) session_ttl: Duration,
    pub(super) unused_client_ttl: Duration,
    pub(super) key_rotation_interval: Duration,
    pub(super) revocation_interval: Duration,
    pub(super) max_logins: u32,
    pub(super) max_registrations: u32,
}

impl AuthorizationServerBuilder {
    pub(super) fn new(issuer: String) -> Self {
        let settings = ServerSettings {
            issuer,
            name: None,
            resources: Vec::new(),
            scopes: Vec::new(),
            users: None,
            provider: None,
            clients: Vec::new(),
            issuers: Vec::new(),
            has_registration: true,
            has_documents: true,
            allow_private: false,
            is_nonce_required: false,
            access_token_ttl: Duration::from_secs(10 * 60),
            refresh_token_ttl: Duration::from_secs(30 * 24 * 60 * 60),
            session_ttl: Duration::from_secs(12 * 60 * 60),
            unused_client_ttl: Duration::from_secs(24 * 60 * 60),
            key_rotation_interval: Duration::from_secs(30 * 24 * 60 * 60),
            revocation_interval: Duration::from_secs(30),
            max_logins: 10,
            max_registrations: 20,
        };
        Self { settings, store: None, seal_keys: None, fetcher: Fetcher::new() }
    }

    /// Issues tokens for a protected server, named by its URL as clients use it. At least one is needed; a client that names
    /// none gets tokens for the first.
    pub fn resource(mut self, url: impl Into<String>) -> Self {
        self.settings.resources.push(url.into());
        self
    }

    /// Adds a scope that can be granted, with the sentence that a user reads before granting it.
    pub fn scope(mut self, scope: impl Into<String>, description: impl Into<String>) -> Self {
        self.settings.scopes.push((scope.into(), description.into()));
        self
    }

    /// Sets the name on pages; the host of the issuer by default.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// Lets these people log in with a password.
    pub fn users(mut self, users: impl Users) -> Self {
        self.settings.users = Some(Arc::new(users));
        self
    }

    /// Lets people log in at an OpenID provider.
    pub fn provider(mut self, provider: OpenIdProvider) -> Self {
        self.settings.provider = Some(provider);
        self
    }

    /// Adds a client that need not register.
    pub fn client(mut self, client: ConfiguredClient) -> Self {
        self.settings.clients.push(client);
        self
    }

    /// Issues tokens for assertions of another issuer: the identity provider of a company, or the platform of a workload.
    pub fn trusted_issuer(mut self, issuer: TrustedIssuer) -> Self {
        self.settings.issuers.push(issuer);
        self
    }

    /// Sets where the state is kept; in memory by default. Any other store needs [`seal_keys`](Self::seal_keys).
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Sets the keys that seal what is stored, signing keys included.
    pub fn seal_keys(mut self, keys: impl Into<SealKeys>) -> Self {
        self.seal_keys = Some(keys.into());
        self
    }

    /// Sets whether clients can register themselves (RFC 7591); true by default.
    pub fn registration(mut self, allowed: bool) -> Self {
        self.settings.has_registration = allowed;
        self
    }

    /// Sets whether a client can be the URL of its metadata document; true by default.
    pub fn client_metadata_documents(mut self, allowed: bool) -> Self {
        self.settings.has_documents = allowed;
        self
    }

    /// Fetches metadata documents also from private addresses and from this machine, there also without https. For a company
    /// network or a test.
    pub fn allow_private_addresses(mut self) -> Self {
        self.settings.allow_private = true;
        self
    }

    /// Accepts DPoP proofs at the token endpoint only with a nonce of this server, so that none can be made in advance. A
    /// client learns the nonce from the first response. For the protected server, see
    /// [`Dpop::require_nonce`](crate::resource::Dpop::require_nonce).
    pub fn require_dpop_nonce(mut self) -> Self {
        self.settings.is_nonce_required = true;
        self
    }

    /// Sets how long an access token is valid; 10 minutes by default, at most an hour.
    pub fn access_token_ttl(mut self, ttl: Duration) -> Self {
        self.settings.access_token_ttl = ttl.clamp(Duration::from_secs(1), MAX_ACCESS_TOKEN_TTL);
        self
    }

    /// Sets for how long an unused refresh token is valid; 30 days by default.
    pub fn refresh_token_ttl(mut self, ttl: Duration) -> Self {
        self.settings.refresh_token_ttl = ttl.max(Duration::from_secs(1));
        self
    }

    /// Sets for how long a browser stays logged in, and for how long tokens are refreshed after a login at an OpenID provider
    /// that issued no refresh token; 12 hours by default.
    pub fn session_ttl(mut self, ttl: Duration) -> Self {
        self.settings.session_ttl = ttl.max(Duration::from_secs(1));
        self
    }

    /// Sets for how long a registered client is kept that has never got a token; a day by default.
    pub fn unused_client_ttl(mut self, ttl: Duration) -> Self {
        self.settings.unused_client_ttl = ttl.max(Duration::from_secs(1));
        self
    }

    /// Sets after which time the signing key is replaced; 30 days by default, at least an hour.
    pub fn key_rotation_interval(mut self, interval: Duration) -> Self {
        self.settings.key_rotation_interval = interval.max(Duration::from_secs(3_600));
        self
    }

    /// Sets for how long a revoked access token may still be accepted by [`AuthorizationServer::verifier`]; 30 seconds by
    /// default.
    pub fn revocation_interval(mut self, interval: Duration) -> Self {
        self.settings.revocation_interval = interval;
        self
    }

    /// Sets how many passwords may be tried for one user, and twice as many wrong ones from one address, before further ones
    /// wait; 10 by default. Every minute allows one more. All addresses together may try 60 times as many a minute.
    pub fn max_logins(mut self, attempts: u32) -> Self {
        self.settings.max_logins = attempts.max(1);
        self
    }

    /// Sets how many clients one address may register in an hour, and 50 times as many all addresses; 20 by default.
    pub fn max_registrations(mut self, number: u32) -> Self {
        self.settings.max_registrations = number.max(1);
        self
    }

    /// Sets the HTTP client for requests to other issuers and to clients.
    pub fn fetcher(mut self, fetcher: Fetcher) -> Self {
        self.fetcher = fetcher;
        self
    }

    /// Checks the settings. Fails if the issuer or a resource is neither https nor on the loopback interface, if no user or machine could
    /// log in, or if a store that outlives the process has no keys.
    pub fn build(self) -> Result<AuthorizationServer> {
        self.settings.check()?;
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let keys = match (self.seal_keys, store.scope()) {
            (Some(keys), _) => keys,
            (None, StoreScope::Process) => SealKey::random()
                .map_err(|error| AuthError::config(format!("cannot make a key: {error}")))?
                .into(),
            (None, StoreScope::Restart | StoreScope::Replicas) => {
                return Err(AuthError::config("the store outlives this process, so it needs `seal_keys`"));
            }
        };
        AuthorizationServer::from_settings(self.settings, store, keys, self.fetcher)
    }
}

impl ServerSettings {
    fn check(&self) -> Result<()> {
        check_own_url("the issuer", &self.issuer)?;
        if self.issuer.ends_with('/') || self.issuer.contains('?') {
            let issuer = &self.issuer;
            return Err(AuthError::config(format!(
                "the issuer {issuer:?} has no query and does not end in `/`"
            )));
        }
        if self.resources.is_empty() {
            return Err(AuthError::config("an authorization server needs the URL of a server to protect"));
        }
        self.resources.iter().try_for_each(|resource| check_own_url("the resource", resource))?;
        let is_token = |scope: &str| {
            !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
        };
        if let Some((scope, _)) = self.scopes.iter().find(|(scope, _)| !is_token(scope)) {
            return Err(AuthError::config(format!("{scope:?} cannot be a scope")));
        }
        self.clients.iter().try_for_each(ConfiguredClient::check)?;
        self.issuers.iter().try_for_each(TrustedIssuer::check)?;
        self.check_asserting_clients()?;
        self.provider.as_ref().map_or(Ok(()), OpenIdProvider::check)?;
        let has_machines = !self.issuers.is_empty() || self.clients.iter().any(ConfiguredClient::is_machine);
        match self.users.is_some() || self.provider.is_some() || has_machines {
            true => Ok(()),
            false => Err(AuthError::config(
                "an authorization server needs users, an OpenID provider, a client with client credentials or a trusted \
                 issuer; otherwise it can issue no token",
            )),
        }
    }

    /// Fails if a configured client may use the assertions of an identity provider but cannot authenticate itself.
    fn check_asserting_clients(&self) -> Result<()> {
        let providers = self.issuers.iter().filter(|issuer| issuer.is_identity_provider());
        for client in self.clients.iter().filter(|client| client.is_public()) {
            if providers.clone().any(|provider| provider.allows_client(client.client_id())) {
                return Err(AuthError::config(format!(
                    "the client {:?} needs a secret or keys to use assertions of an identity provider",
                    client.client_id()
                )));
            }
        }
        Ok(())
    }

    /// The host of the issuer, or the name that was set.
    pub(super) fn shown_name(&self) -> String {
        let host = || Url::parse(&self.issuer).map_or_else(|_| self.issuer.clone(), |url| url.host);
        self.name.clone().unwrap_or_else(host)
    }

    /// The resource that a request is for, as the settings write it. Without a name it is the first one. `None` if it names
    /// another one, or several: a token is for one resource.
    pub(super) fn requested_resource(&self, params: &Params) -> Option<&str> {
        match params.resources() {
            [] => self.resources.first().map(String::as_str),
            [named] => self.find_resource(named),
            _ => None,
        }
    }

    /// The resource with this URL, as the settings write it.
    pub(super) fn find_resource(&self, named: &str) -> Option<&str> {
        // Clients that write a URL anew add or drop the last slash, change the case of the host, or name the default port.
        let parse = |url: &str| Url::parse(url.strip_suffix('/').unwrap_or(url)).ok();
        let named = parse(named)?;
        let is_named = |known: &&String| parse(known).is_some_and(|known| known.is_same_resource(&named));
        self.resources.iter().find(is_named).map(String::as_str)
    }

    pub(super) fn scope_names(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().map(|(scope, _)| scope.as_str())
    }
}

pub(super) const MAX_ACCESS_TOKEN_TTL: Duration = Duration::from_secs(3_600);

/// Checks that a URL is https, or http on the loopback interface.
fn check_own_url(what: &str, text: &str) -> Result<()> {
    let url = Url::parse(text)?;
    let is_allowed = url.secure || Trust::USER.check_url(&url).is_ok();
    match is_allowed && !url.has_fragment() {
        true => Ok(()),
        false => Err(AuthError::config(format!(
            "{what} {text:?} must be https, or http on the loopback interface, without a fragment"
        ))),
    }
}

impl fmt::Debug for AuthorizationServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("AuthorizationServerBuilder");
        shown.field("issuer", &self.settings.issuer).finish_non_exhaustive()
    }
}
