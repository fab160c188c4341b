//! Login at an OpenID provider. It begins after the user has consented to the client, and its `state` exists only then: it is
//! random, bound to the browser, used once and forgotten after 10 minutes.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tsugite::store::Precondition;

use super::browser::{Browser, LoggedIn};
use super::flow::PAGE_TTL;
use super::request::AuthorizeRequest;
use crate::authorization_server::AuthorizationState;
use crate::authorization_server::http_message::{EndpointError, HttpRequest, HttpResponse, redirect};
use crate::authorization_server::openid::ProviderConnection;
use crate::authorization_server::records::{FIELD, hex_digest};
use crate::authorization_server::users::User;
use crate::error::{AuthError, Result};
use crate::jose::{Claims, random_text, sha256_text};
use crate::secret::{Secret, stored};

/// A login that waits for the answer of the provider.
#[derive(Serialize, Deserialize)]
struct ProviderLogin {
    request: AuthorizeRequest,
    /// The digest of the cookie of the browser.
    browser: String,
    nonce: String,
    #[serde(with = "stored")]
    verifier: Secret,
}

impl AuthorizationState {
    /// Sends a browser to the provider, after consent.
    pub(super) async fn start_provider_login(
        &self,
        http: &HttpRequest,
        browser: &Browser,
        request: AuthorizeRequest,
    ) -> Result<HttpResponse, EndpointError> {
        let Some(connection) = &self.provider else { return Ok(self.stale_page()) };
        if !self.spend_provider_login(http.client).await? {
            let reason = "Too many people log in. Go back and try again in a minute.";
            return Ok(self.error_page(StatusCode::TOO_MANY_REQUESTS, reason));
        }
        let metadata = match connection.metadata().await {
            Ok(metadata) => metadata,
            Err(error) => return Ok(self.provider_failure(&error)),
        };
        let endpoint = match metadata.authorization_endpoint() {
            Ok(endpoint) => endpoint,
            Err(error) => return Ok(self.provider_failure(&error)),
        };
        let (state, nonce, verifier) = (random_text()?, random_text()?, random_text()?);
        // A user who has to log in again here has to do so there.
        let prompt = if request.prompt.login { vec![("prompt", "login")] } else { Vec::new() };
        let login = ProviderLogin {
            request,
            browser: hex_digest(&browser.id),
            nonce: nonce.clone(),
            verifier: Secret::new(verifier.clone()),
        };
        let key = self.records.key("provider login", &state);
        self.records.write((&key, FIELD), &login, Precondition::FieldAbsent, PAGE_TTL).await?;
        let (callback, scope, challenge) =
            (self.url("/callback"), connection.provider.scope(), sha256_text(&verifier));
        let params = [
            ("response_type", "code"),
            ("client_id", &connection.provider.client_id),
            ("redirect_uri", &callback),
            ("scope", &scope),
            ("state", &state),
            ("nonce", &nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        Ok(redirect(&endpoint.with_query(&[&params[..], &prompt].concat())))
    }

    /// GET `/callback`: the answer of the provider.
    pub(in crate::authorization_server) async fn provider_callback(
        &self,
        request: &HttpRequest,
    ) -> HttpResponse {
        self.try_provider_callback(request).await.unwrap_or_else(|error| self.failure_page(error))
    }

    async fn try_provider_callback(&self, http: &HttpRequest) -> Result<HttpResponse, EndpointError> {
        let browser = self.browser(http).await?;
        let (Some(connection), Some(params)) = (&self.provider, http.query_params()) else {
            return Ok(self.stale_page());
        };
        let state = params.get("state").unwrap_or_default();
        let login = self.records.take::<ProviderLogin>(&self.records.key("provider login", state)).await?;
        let is_same_browser = |login: &ProviderLogin| {
            Secret::new(hex_digest(&browser.id)) == Secret::from(login.browser.as_str())
        };
        let Some(login) = login.filter(is_same_browser) else { return Ok(self.stale_page()) };
        let metadata = match connection.metadata().await {
            Ok(metadata) => metadata,
            Err(error) => return Ok(self.provider_failure(&error)),
        };
        // Byte for byte (RFC 9207). A provider that says that it names itself does so in every answer.
        let is_named = match params.get("iss") {
            Some(issuer) => issuer == connection.provider.issuer,
            None => !metadata.authorization_response_iss_parameter_supported,
        };
        if !is_named {
            return Ok(self.stale_page());
        }
        let Some(code) = params.get("code").filter(|_| params.get("error").is_none()) else {
            let answer = login.request.refusal("access_denied", "the login at the provider has failed");
            return Ok(redirect(&self.refusal_url(&answer)));
        };
        let (claims, refresh_token) = match self.exchange_provider_code(connection, code, &login).await {
            Ok(issued) => issued,
            Err(error) => return Ok(self.provider_failure(&error)),
        };
        if !connection.provider.allows(&claims) {
            return Ok(self.error_page(StatusCode::FORBIDDEN, "Your account may not log in here."));
        }
        // The client may be gone since the consent.
        if self.find_client(&login.request.client_id, http.client).await?.is_none() {
            return Ok(self.stale_page());
        }
        let grant = self.start_provider_grant(connection, &claims, refresh_token).await?;
        let user = provider_user(&connection.provider.issuer, &claims);
        let user = LoggedIn { provider_grant: Some(grant), ..LoggedIn::new(user, self.clock.seconds()) };
        self.remember_consent(&user, &login.request).await?;
        let browser = self.start_session(&browser, user.clone()).await?;
        let response = self.issue_code(&user, &login.request).await?;
        Ok(self.set_cookie(&browser, response))
    }

    /// Exchanges a code at the provider, and verifies the ID token. Returns also the refresh token, if there is one.
    async fn exchange_provider_code(
        &self,
        connection: &ProviderConnection,
        code: &str,
        login: &ProviderLogin,
    ) -> Result<(Claims, Option<String>)> {
        let callback = self.url("/callback");
        let grant = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &callback),
            ("code_verifier", login.verifier.expose()),
        ];
        let response = connection.request_token(&grant).await?;
        let token = response.id_token.ok_or_else(|| AuthError::token("the provider issued no ID token"))?;
        let claims = connection.verify_id_token(&token, Some(&login.nonce), self.clock.seconds()).await?;
        Ok((claims, response.refresh_token))
    }

    fn provider_failure(&self, error: &AuthError) -> HttpResponse {
        tracing::error!(%error, "the login at the OpenID provider failed");
        self.error_page(StatusCode::BAD_GATEWAY, "The login at the provider failed. Try again later.")
    }
}

/// A user of the provider. The subject begins with the issuer, so that it is no user of this server or of another provider.
fn provider_user(issuer: &str, claims: &Claims) -> User {
    let text = |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let subject = text("sub").unwrap_or_default();
    let shown = text("email").or_else(|| text("preferred_username")).or_else(|| text("name"));
    User::new(format!("{issuer}|{subject}")).display_name(shown.unwrap_or(subject))
}
