//! One attempt to get a token: refresh it, ask for one without a person, or let a person log in (`log_in`). Its end is
//! `revoke`.

mod log_in;
mod revoke;

use tsugite::client::Challenge;

use crate::discovery::{Discovered, ServerMetadata, discover};
use crate::error::{AuthError, Result};
use crate::grants::Grant;
use crate::jose::{SigningKey, random_text};
use crate::net::{GuardedHttp, Url};
use crate::registration::ClientCredentials;
use crate::scopes;
use crate::secret::Secret;
use crate::settings::Settings;
use crate::store::{LockedStore, StoredToken, Vault};
use crate::token_endpoint::{Nonce, OAuthClient, TokenAuth, TokenEndpoint, TokenError, TokenResponse};

/// One attempt to get a token for a server.
pub(crate) struct Attempt<'a> {
    /// The server, as the application named it.
    server: &'a str,
    settings: &'a Settings,
    http: GuardedHttp,
    challenge: Option<&'a Challenge>,
    /// The nonce of the authorization server.
    nonce: &'a Nonce,
}

/// The outcome of an attempt.
pub(crate) enum Outcome {
    Token(Box<StoredToken>),
    /// The token is not valid any more.
    NoToken,
    /// A person would have to log in, and must not be asked now.
    Unchanged,
}

/// A new token, before it is stored.
struct NewToken<'a> {
    discovered: &'a Discovered,
    client: &'a OAuthClient,
    requested_scopes: Vec<String>,
    dpop: Option<(SigningKey, Secret)>,
    /// The login that the token continues.
    login_id: Option<String>,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(
        server: &'a str,
        settings: &'a Settings,
        http: GuardedHttp,
        challenge: Option<&'a Challenge>,
        nonce: &'a Nonce,
    ) -> Self {
        Self { server, settings, http, challenge, nonce }
    }

    /// Refreshes a token that is about to expire, unless another task or process has done so.
    pub(crate) async fn refresh(&self, token: &StoredToken) -> Result<Outcome> {
        let mut store = self.settings.store.lock().await?;
        let mut vault = store.read().await?;
        if let Some(other) = self.other_token(&vault, Some(token)) {
            return Ok(Outcome::Token(Box::new(other)));
        }
        match self.refresh_locked(token, &token.token_endpoint, &mut vault, &mut *store).await? {
            Some(token) => Ok(Outcome::Token(Box::new(token))),
            None => Ok(Outcome::NoToken),
        }
    }

    /// Gets another token after `rejected` was not accepted, or where there was none.
    pub(crate) async fn renew(&self, rejected: Option<&StoredToken>, may_ask_user: bool) -> Result<Outcome> {
        let discovered = self.discover(rejected).await?;
        let scopes = self.first_scopes(&discovered);
        let mut store = self.settings.store.lock().await?;
        let mut vault = store.read().await?;
        if let Some(other) = self.other_token(&vault, rejected) {
            return Ok(Outcome::Token(Box::new(other)));
        }
        if let Some(token) = self.token_of_resource(&vault, &discovered, rejected) {
            vault.put_token(token.clone());
            store.write(&vault).await?;
            return Ok(Outcome::Token(Box::new(token)));
        }
        // The server may have moved to another authorization server, which must not see the old refresh token.
        let same_issuer = rejected.filter(|token| token.issuer == discovered.metadata.issuer);
        if let Some(token) = same_issuer.filter(|token| token.refresh_token.is_some()) {
            let endpoint = discovered.metadata.token_endpoint()?;
            if let Some(token) =
                self.refresh_locked(token, endpoint.as_str(), &mut vault, &mut *store).await?
            {
                return Ok(Outcome::Token(Box::new(token)));
            }
        }
        self.authorize(discovered, scopes, None, store, may_ask_user).await
    }

    /// Gets a token by the grant of the settings, whatever token there is.
    pub(crate) async fn log_in_again(&self) -> Result<Outcome> {
        let discovered = self.discover(None).await?;
        let scopes = self.first_scopes(&discovered);
        let store = self.settings.store.lock().await?;
        self.authorize(discovered, scopes, None, store, true).await
    }

    /// Gets a token with more scopes.
    pub(crate) async fn step_up(
        &self,
        token: &StoredToken,
        scopes: Vec<String>,
        may_ask_user: bool,
    ) -> Result<Outcome> {
        let discovered = self.discover(Some(token)).await?;
        let mut store = self.settings.store.lock().await?;
        if let Some(other) = self.other_token(&store.read().await?, Some(token)) {
            return Ok(Outcome::Token(Box::new(other)));
        }
        // The same user asks for more.
        let login_id = (token.issuer == discovered.metadata.issuer).then(|| token.login_id.clone());
        self.authorize(discovered, scopes, login_id, store, may_ask_user).await
    }

    async fn discover(&self, token: Option<&StoredToken>) -> Result<Discovered> {
        let client = self.settings.client.as_ref().and_then(|client| client.issuer.as_deref());
        let preferred = client.or(token.map(|token| token.issuer.as_str()));
        discover(&self.http, &Url::parse(self.server)?, self.challenge, preferred).await
    }

    fn first_scopes(&self, discovered: &Discovered) -> Vec<String> {
        let challenge = self.challenge.and_then(|challenge| challenge.param("scope"));
        scopes::select(
            self.settings.scopes.as_deref(),
            challenge.as_deref(),
            discovered.scopes_supported.as_deref(),
            discovered.metadata.scopes_supported.as_deref(),
            self.settings.offline_access && self.settings.is_interactive(),
        )
    }

    /// The token that another task or process has stored instead of this one.
    fn other_token(&self, vault: &Vault, known: Option<&StoredToken>) -> Option<StoredToken> {
        let stored = vault.token(self.server).filter(|token| self.settings.is_usable(token))?;
        let is_other = known.is_none_or(|known| known.access_token != stored.access_token);
        (is_other && !stored.expires_within(0, crate::dpop::now())).then(|| stored.clone())
    }

    /// The token of another server of the same resource.
    fn token_of_resource(
        &self,
        vault: &Vault,
        discovered: &Discovered,
        rejected: Option<&StoredToken>,
    ) -> Option<StoredToken> {
        let (issuer, resource) = (&discovered.metadata.issuer, &discovered.resource);
        let found = vault.tokens.iter().find(|token| {
            token.issuer == *issuer
                && token.resource == *resource
                && self.settings.is_usable(token)
                && !token.expires_within(0, crate::dpop::now())
                && rejected.is_none_or(|rejected| rejected.access_token != token.access_token)
        })?;
        let mut token = found.clone();
        token.servers.insert(0, self.server.to_owned());
        Some(token)
    }

    /// Refreshes a token and stores the new one. `None` if the refresh token is not valid any more; then the token is
    /// removed from the store.
    async fn refresh_locked(
        &self,
        token: &StoredToken,
        endpoint: &str,
        vault: &mut Vault,
        store: &mut dyn LockedStore,
    ) -> Result<Option<StoredToken>> {
        let Some(refresh_token) = &token.refresh_token else { return Ok(None) };
        let Some(client) = self.known_client(token, vault) else { return Ok(None) };
        let key = token.dpop_key.as_ref().map(SigningKey::from_stored).transpose()?;
        let endpoint = TokenEndpoint {
            http: &self.http,
            url: Url::parse(endpoint)?,
            issuer: &token.issuer,
            client: &client,
            dpop: key.as_ref(),
            nonce: self.nonce,
        };
        let grant = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.expose()),
            ("resource", &token.resource),
        ];
        let response = match endpoint.request(&grant).await {
            Ok(response) => response,
            Err(TokenError::Refused { code, error }) if GONE.contains(&code.as_str()) => {
                tracing::debug!(%error, "the refresh token is not valid any more");
                vault.remove_token(self.server);
                store.write(vault).await?;
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        check_type(&response, token.dpop_key.is_some())?;
        let refreshed = StoredToken {
            expires_at: response.expires_at(),
            granted_scopes: response.scope.as_deref().map(scopes::parse).or(token.granted_scopes.clone()),
            access_token: response.access_token.into(),
            // Without a new one, the old one stays valid.
            refresh_token: response.refresh_token.map(Secret::new).or_else(|| token.refresh_token.clone()),
            ..token.clone()
        };
        vault.put_token(refreshed.clone());
        store.write(vault).await?;
        Ok(Some(refreshed))
    }

    /// The client that a stored token was issued to.
    fn known_client(&self, token: &StoredToken, vault: &Vault) -> Option<OAuthClient> {
        let id = &token.client_id;
        if let Some(client) = self.settings.client.as_ref().filter(|client| client.client_id == *id) {
            let methods = [token.auth_method.clone()];
            return Some(client.client(Some(&methods)));
        }
        if self.settings.client_metadata_url.as_ref() == Some(id) {
            return Some(OAuthClient { client_id: id.clone(), auth: TokenAuth::None });
        }
        let registration = vault.registrations.get(&token.issuer);
        registration.filter(|known| known.client_id == *id).map(|known| known.client())
    }

    /// Gets a token by the grant of the settings. The lock is not held while a person logs in.
    async fn authorize(
        &self,
        discovered: Discovered,
        scopes: Vec<String>,
        login_id: Option<String>,
        mut store: Box<dyn LockedStore>,
        may_ask_user: bool,
    ) -> Result<Outcome> {
        let named_scheme = self.challenge.is_some_and(|challenge| {
            let schemes = challenge.schemes();
            schemes.iter().any(|scheme| scheme.is("DPoP"))
                && !schemes.iter().any(|scheme| scheme.is("Bearer"))
        });
        let dpop = match self.settings.dpop || discovered.dpop_required || named_scheme {
            true => Some(SigningKey::generate()?),
            false => None,
        };
        if let Grant::AuthorizationCode(agent) = &*self.settings.grant {
            drop(store);
            if !may_ask_user {
                return Ok(Outcome::Unchanged);
            }
            let limit = self.settings.login_timeout;
            let login = self.log_in(&**agent, &discovered, scopes, dpop, login_id);
            return match tokio::time::timeout(limit, login).await {
                Ok(token) => Ok(Outcome::Token(Box::new(token?))),
                Err(_) => Err(AuthError::login(format!("no login within {} s", limit.as_secs()))),
            };
        }
        let mut vault = store.read().await?;
        let credentials = self.pre_registered()?;
        credentials.bind(&discovered.metadata.issuer, &mut vault)?;
        let client = credentials.client(discovered.metadata.token_endpoint_auth_methods_supported.as_deref());
        let response = self.request_without_user(&discovered, &client, &scopes, dpop.as_ref()).await?;
        let login_id = Some(self.settings.grant.login_id().await?);
        let new =
            NewToken { discovered: &discovered, client: &client, requested_scopes: scopes, dpop, login_id };
        let token = self.keep(new, response, &mut vault, &mut *store).await?;
        Ok(Outcome::Token(Box::new(token)))
    }

    fn pre_registered(&self) -> Result<&ClientCredentials> {
        self.settings.client.as_ref().ok_or_else(|| AuthError::config("this login needs a client id"))
    }

    async fn request_without_user(
        &self,
        discovered: &Discovered,
        client: &OAuthClient,
        scopes: &[String],
        dpop: Option<&(SigningKey, Secret)>,
    ) -> Result<TokenResponse> {
        let (issuer, resource) = (discovered.metadata.issuer.as_str(), discovered.resource.as_str());
        let (scope, assertion);
        let mut params = match &*self.settings.grant {
            Grant::Enterprise(idp) => {
                assertion = idp.id_jag(&self.http, issuer, resource, scopes).await?;
                vec![("grant_type", JWT_BEARER), ("assertion", assertion.expose())]
            }
            Grant::Workload(token) => {
                assertion = token.get().await?;
                vec![("grant_type", JWT_BEARER), ("assertion", assertion.expose())]
            }
            Grant::ClientCredentials | Grant::AuthorizationCode(_) => {
                vec![("grant_type", "client_credentials")]
            }
        };
        params.push(("resource", resource));
        scope = scopes.join(" ");
        if !scope.is_empty() {
            params.push(("scope", &scope));
        }
        Ok(self.endpoint(&discovered.metadata, client, dpop)?.request(&params).await?)
    }

    fn endpoint<'b>(
        &'b self,
        metadata: &'b ServerMetadata,
        client: &'b OAuthClient,
        dpop: Option<&'b (SigningKey, Secret)>,
    ) -> Result<TokenEndpoint<'b>> {
        Ok(TokenEndpoint {
            http: &self.http,
            url: metadata.token_endpoint()?,
            issuer: &metadata.issuer,
            client,
            dpop: dpop.map(|(key, _)| key),
            nonce: self.nonce,
        })
    }

    /// Stores a new token.
    async fn keep(
        &self,
        new: NewToken<'_>,
        response: TokenResponse,
        vault: &mut Vault,
        store: &mut dyn LockedStore,
    ) -> Result<StoredToken> {
        check_type(&response, new.dpop.is_some())?;
        let Discovered { resource, metadata, .. } = new.discovered;
        let token = StoredToken {
            servers: vec![self.server.to_owned()],
            issuer: metadata.issuer.clone(),
            resource: resource.clone(),
            client_id: new.client.client_id.clone(),
            token_endpoint: metadata.token_endpoint.clone().unwrap_or_default(),
            revocation_endpoint: metadata.revocation_endpoint.clone(),
            auth_method: new.client.auth.method().to_owned(),
            expires_at: response.expires_at(),
            granted_scopes: response.scope.as_deref().map(scopes::parse),
            access_token: response.access_token.into(),
            refresh_token: response.refresh_token.map(Secret::new),
            requested_scopes: new.requested_scopes,
            dpop_key: new.dpop.map(|(_, stored)| stored),
            login_id: new.login_id.map_or_else(random_text, Ok)?,
        };
        vault.put_token(token.clone());
        store.write(vault).await?;
        Ok(token)
    }
}

/// The token must be of the kind that was asked for: a token that is bound to a key is useless without, and an unbound one
/// is not what the server requires.
fn check_type(response: &TokenResponse, bound: bool) -> Result<()> {
    let expected = if bound { "DPoP" } else { "Bearer" };
    match response.token_type.eq_ignore_ascii_case(expected) {
        true => Ok(()),
        false => {
            Err(AuthError::token(format!("the authorization server issued a token that is not {expected}")))
        }
    }
}

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The errors after which a refresh token is useless.
const GONE: [&str; 3] = ["invalid_grant", "invalid_client", "unauthorized_client"];
