//! Lets a person log in: finds the identity of the client, shows the login page, and exchanges the answer for a token.

use std::sync::Arc;

use super::{Attempt, NewToken};
use crate::discovery::{Discovered, ServerMetadata};
use crate::error::Result;
use crate::flow::{
    AuthorizationParams, AuthorizationRequest, ClientQuestion, LoginPage, RedirectListener, RedirectTarget,
    UserAgent,
};
use crate::jose::SigningKey;
use crate::registration;
use crate::scopes;
use crate::secret::Secret;
use crate::store::{Registration, StoredToken, Vault};
use crate::token_endpoint::{OAuthClient, TokenAuth};

impl Attempt<'_> {
    /// Lets a person log in.
    pub(super) async fn log_in(
        &self,
        agent: &dyn UserAgent,
        discovered: &Discovered,
        scopes: Vec<String>,
        dpop: Option<(SigningKey, Secret)>,
        login_id: Option<String>,
    ) -> Result<StoredToken> {
        let metadata = &discovered.metadata;
        metadata.check_pkce(self.settings.require_pkce_metadata)?;
        metadata.token_endpoint()?;
        let known = self.identify(metadata, &scopes).await?;
        let is_asked = known.is_none();
        let (listener, client) = match known {
            Some(known) => known,
            None => self.ask_for_client(agent, metadata).await?,
        };
        let redirect_uri = listener.redirect_uri.clone();
        let request = Arc::new(AuthorizationRequest::new(&AuthorizationParams {
            metadata,
            client_id: &client.client_id,
            redirect_uri: &redirect_uri,
            scopes: &scopes,
            resource: &discovered.resource,
            trust: self.http.trust,
        })?);
        let page = LoginPage {
            url: request.url.clone(),
            redirect_uri: redirect_uri.clone(),
            server: self.server.to_owned(),
            issuer: metadata.issuer.clone(),
        };
        let pasted = async {
            match agent.open(page).await? {
                Some(text) => request.check_pasted(&text, &redirect_uri).into_code(),
                // The answer arrives at the listener.
                None => std::future::pending().await,
            }
        };
        let code = tokio::select! {
            code = listener.answer(&request) => code?,
            code = pasted => code?,
        };
        // A second answer finds nothing.
        drop(listener);
        let params = [
            ("grant_type", "authorization_code"),
            ("code", code.expose()),
            ("redirect_uri", &redirect_uri),
            ("code_verifier", request.verifier.expose()),
            ("resource", &discovered.resource),
        ];
        let response = self.endpoint(metadata, &client, dpop.as_ref())?.request(&params).await?;
        let mut store = self.settings.store.lock().await?;
        let mut vault = store.read().await?;
        if is_asked {
            self.remember_client(&client, metadata, redirect_uri, &mut vault);
        }
        let new = NewToken { discovered, client: &client, requested_scopes: scopes, dpop, login_id };
        self.keep(new, response, &mut vault, &mut *store).await
    }

    /// Asks the user for a client id.
    async fn ask_for_client(
        &self,
        agent: &dyn UserAgent,
        metadata: &ServerMetadata,
    ) -> Result<(RedirectListener, OAuthClient)> {
        let target = self.settings.redirect.clone().unwrap_or(RedirectTarget::AnyPort);
        let redirect_uri = match &target {
            RedirectTarget::Fixed(uri) => uri.clone(),
            RedirectTarget::AnyPort | RedirectTarget::Random => "http://127.0.0.1/callback".to_owned(),
        };
        let question = ClientQuestion { issuer: metadata.issuer.clone(), redirect_uri };
        let id = agent.client_id(question).await?.map(|id| id.trim().to_owned());
        let id = id.filter(|id| !id.is_empty()).ok_or_else(|| registration::no_registration(metadata))?;
        let listener = RedirectListener::bind(&target).await?;
        Ok((listener, OAuthClient { client_id: id, auth: TokenAuth::None }))
    }

    /// Keeps the client that the user has named, for later logins.
    fn remember_client(
        &self,
        client: &OAuthClient,
        metadata: &ServerMetadata,
        redirect_uri: String,
        vault: &mut Vault,
    ) {
        let registration = Registration {
            client_id: client.client_id.clone(),
            client_secret: None,
            auth_method: client.auth.method().to_owned(),
            redirect_uri,
            scopes: Vec::new(),
            expires_at: None,
        };
        vault.registrations.insert(metadata.issuer.clone(), registration);
    }

    /// Finds the client id to log in with: pre-registered, a metadata document, or registered now. `None` if the server
    /// registers none. The listener is bound before, because its port is part of a registration.
    async fn identify(
        &self,
        metadata: &ServerMetadata,
        scopes: &[String],
    ) -> Result<Option<(RedirectListener, OAuthClient)>> {
        let settings = self.settings;
        let redirect = |default: RedirectTarget| settings.redirect.clone().unwrap_or(default);
        let mut store = settings.store.lock().await?;
        let mut vault = store.read().await?;
        if let Some(client) = &settings.client {
            client.bind(&metadata.issuer, &mut vault)?;
            store.write(&vault).await?;
            let listener = RedirectListener::bind(&redirect(RedirectTarget::AnyPort)).await?;
            let methods = metadata.token_endpoint_auth_methods_supported.as_deref();
            return Ok(Some((listener, client.client(methods))));
        }
        if let Some(url) =
            settings.client_metadata_url.as_ref().filter(|_| metadata.client_id_metadata_document_supported)
        {
            let listener = RedirectListener::bind(&redirect(RedirectTarget::AnyPort)).await?;
            return Ok(Some((listener, OAuthClient { client_id: url.clone(), auth: TokenAuth::None })));
        }
        let known = vault.registrations.get(&metadata.issuer);
        if metadata.registration_endpoint.is_none() {
            // The user has named it at an earlier login.
            let Some(known) = known else { return Ok(None) };
            let listener = RedirectListener::bind(&redirect(RedirectTarget::AnyPort)).await?;
            return Ok(Some((listener, known.client())));
        }
        let registered_scopes = known.map(|known| known.scopes.clone()).unwrap_or_default();
        let known = known.filter(|known| !known.has_expired() && known.allows(scopes));
        let known = known.filter(|known| match &settings.redirect {
            Some(RedirectTarget::Fixed(uri)) => known.redirect_uri == *uri,
            _ => true,
        });
        if let Some(known) = known {
            // If another program has taken the port, the client registers with another one.
            let target = RedirectTarget::Fixed(known.redirect_uri.clone());
            if let Ok(listener) = RedirectListener::bind(&target).await {
                return Ok(Some((listener, known.client())));
            }
        }
        let scopes = scopes::union(&registered_scopes, scopes);
        let listener = RedirectListener::bind(&redirect(RedirectTarget::Random)).await?;
        let (name, uri) = (&settings.client_name, &listener.redirect_uri);
        let registered = registration::register(&self.http, metadata, name, uri, &scopes).await?;
        let client = registered.client();
        vault.registrations.insert(metadata.issuer.clone(), registered);
        store.write(&vault).await?;
        Ok(Some((listener, client)))
    }
}
