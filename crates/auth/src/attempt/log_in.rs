//! Lets a person log in: finds the identity of the client, shows the login page, and exchanges the answer for a token.

use std::sync::Arc;

use super::{Attempt, NewToken};
use crate::discovery::{Discovered, ServerMetadata};
use crate::error::Result;
use crate::flow::{
    AuthorizationParams, AuthorizationRequest, LoginPage, RedirectListener, RedirectTarget, UserAgent,
};
use crate::jose::SigningKey;
use crate::registration;
use crate::scopes;
use crate::secret::Secret;
use crate::store::StoredToken;
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
        let (listener, client) = self.identify(metadata, &scopes).await?;
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
        let new = NewToken { discovered, client: &client, requested_scopes: scopes, dpop, login_id };
        self.keep(new, response, &mut vault, &mut *store).await
    }

    /// Finds the client id to log in with: pre-registered, a metadata document, or registered now. The listener is bound
    /// before, because its port is part of a registration.
    async fn identify(
        &self,
        metadata: &ServerMetadata,
        scopes: &[String],
    ) -> Result<(RedirectListener, OAuthClient)> {
        let settings = self.settings;
        let redirect = |default: RedirectTarget| settings.redirect.clone().unwrap_or(default);
        let mut store = settings.store.lock().await?;
        let mut vault = store.read().await?;
        if let Some(client) = &settings.client {
            client.bind(&metadata.issuer, &mut vault)?;
            store.write(&vault).await?;
            let listener = RedirectListener::bind(&redirect(RedirectTarget::AnyPort)).await?;
            return Ok((listener, client.client(metadata.token_endpoint_auth_methods_supported.as_deref())));
        }
        if let Some(url) =
            settings.client_metadata_url.as_ref().filter(|_| metadata.client_id_metadata_document_supported)
        {
            let listener = RedirectListener::bind(&redirect(RedirectTarget::AnyPort)).await?;
            return Ok((listener, OAuthClient { client_id: url.clone(), auth: TokenAuth::None }));
        }
        let known = vault.registrations.get(&metadata.issuer);
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
                return Ok((listener, known.client()));
            }
        }
        let scopes = scopes::union(&registered_scopes, scopes);
        let listener = RedirectListener::bind(&redirect(RedirectTarget::Random)).await?;
        let (name, uri) = (&settings.client_name, &listener.redirect_uri);
        let registered = registration::register(&self.http, metadata, name, uri, &scopes).await?;
        let client = registered.client();
        vault.registrations.insert(metadata.issuer.clone(), registered);
        store.write(&vault).await?;
        Ok((listener, client))
    }
}
