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
use crate::authorization_server::clients::SIGNING_ALGORITHMS;
use crate::authorization_server::http_message::{EndpointError, HttpRequest, HttpResponse, redirect};
use crate::authorization_server::openid::ProviderConnection;
use crate::authorization_server::records::{FIELD, hex_digest};
use crate::authorization_server::users::User;
use crate::error::{AuthError, Result};
use crate::jose::{Claims, UnverifiedJwt, random_text, sha256_text};
use crate::resource::KeyError;
use crate::secret::{Secret, stored};
use crate::token_endpoint::{Nonce, TokenEndpoint};

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
        browser: &Browser,
        request: AuthorizeRequest,
    ) -> Result<HttpResponse, EndpointError> {
        let Some(connection) = &self.provider else { return Ok(self.stale_page()) };
        let metadata = match connection.metadata().await {
            Ok(metadata) => metadata,
            Err(error) => return Ok(self.provider_failure(&error)),
        };
        let endpoint = match metadata.authorization_endpoint() {
            Ok(endpoint) => endpoint,
            Err(error) => return Ok(self.provider_failure(&error)),
        };
        let (state, nonce, verifier) = (random_text()?, random_text()?, random_text()?);
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
        let url = endpoint.with_query(&[
            ("response_type", "code"),
            ("client_id", &connection.provider.client_id),
            ("redirect_uri", &callback),
            ("scope", &scope),
            ("state", &state),
            ("nonce", &nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        Ok(redirect(&url))
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
        // Byte for byte (RFC 9207).
        if params.get("iss").is_some_and(|issuer| issuer != connection.provider.issuer) {
            return Ok(self.stale_page());
        }
        let Some(code) = params.get("code").filter(|_| params.get("error").is_none()) else {
            let answer = login.request.refusal("access_denied", "the login at the provider has failed");
            return Ok(redirect(&self.refusal_url(&answer)));
        };
        let claims = match self.exchange_provider_code(connection, code, &login).await {
            Ok(claims) => claims,
            Err(error) => return Ok(self.provider_failure(&error)),
        };
        if !connection.provider.allows(&claims) {
            return Ok(self.error_page(StatusCode::FORBIDDEN, "Your account may not log in here."));
        }
        let user = LoggedIn::new(provider_user(&connection.provider.issuer, &claims), self.clock.seconds());
        // The client may be gone since the consent.
        if self.find_client(&login.request.client_id, http.client).await?.is_none() {
            return Ok(self.stale_page());
        }
        self.remember_consent(&user.subject, &login.request).await?;
        let browser = self.start_session(&browser, user.clone()).await?;
        let response = self.issue_code(&user, &login.request).await?;
        Ok(self.set_cookie(&browser, response))
    }

    /// Exchanges a code at the provider, and verifies the ID token.
    async fn exchange_provider_code(
        &self,
        connection: &ProviderConnection,
        code: &str,
        login: &ProviderLogin,
    ) -> Result<Claims> {
        let metadata = connection.metadata().await?;
        let url = metadata.token_endpoint()?;
        let (http, client, nonce) =
            (connection.issuer.http_for(&url), connection.client(&metadata), Nonce::default());
        let issuer = connection.provider.issuer.as_str();
        let endpoint = TokenEndpoint { http: &http, url, issuer, client: &client, dpop: None, nonce: &nonce };
        let callback = self.url("/callback");
        let grant = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &callback),
            ("code_verifier", login.verifier.expose()),
        ];
        let response = endpoint.request(&grant).await?;
        let token = response.id_token.ok_or_else(|| AuthError::token("the provider issued no ID token"))?;
        let jwt = UnverifiedJwt::parse(&token).map_err(|error| AuthError::token(error.0))?;
        if !SIGNING_ALGORITHMS.contains(&jwt.algorithm) {
            return Err(AuthError::token("the algorithm of the ID token is not accepted"));
        }
        let claims = connection.keys.verify(&jwt).await.map_err(|error| match error {
            KeyError::Refused(reason) => AuthError::token(reason.0),
            KeyError::Unavailable(error, _) => error,
        })?;
        check_id_token(&claims, connection, &login.nonce, self.clock.seconds())?;
        Ok(claims)
    }

    fn provider_failure(&self, error: &AuthError) -> HttpResponse {
        tracing::error!(%error, "the login at the OpenID provider failed");
        self.error_page(StatusCode::BAD_GATEWAY, "The login at the provider failed. Try again later.")
    }
}

/// Checks the claims of an ID token (OpenID Connect Core, 3.1.3.7).
fn check_id_token(claims: &Claims, connection: &ProviderConnection, nonce: &str, now: u64) -> Result<()> {
    let refused = |reason: &str| Err(AuthError::token(format!("the ID token of the provider {reason}")));
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let client_id = connection.provider.client_id.as_str();
    if text("iss") != Some(&connection.provider.issuer) {
        return refused("is from another issuer");
    }
    let is_for_us = match claims.get("aud") {
        Some(Value::String(audience)) => audience == client_id,
        Some(Value::Array(all)) => {
            let is_named = all.iter().any(|each| each.as_str() == Some(client_id));
            is_named && (all.len() == 1 || text("azp") == Some(client_id))
        }
        _ => false,
    };
    if !is_for_us {
        return refused("is for another client");
    }
    if text("nonce").map(Secret::from) != Some(Secret::from(nonce)) {
        return refused("belongs to another login");
    }
    let seconds = |name: &str| claims.get(name).and_then(Value::as_f64).map(|number| number.max(0.0) as u64);
    if seconds("exp").is_none_or(|exp| exp + LEEWAY_SECONDS <= now) {
        return refused("has expired");
    }
    match text("sub").is_some_and(|subject| !subject.is_empty() && subject.len() <= 255) {
        true => Ok(()),
        false => refused("names no user"),
    }
}

/// A user of the provider. The subject begins with the issuer, so that it is no user of this server or of another provider.
fn provider_user(issuer: &str, claims: &Claims) -> User {
    let text = |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let subject = text("sub").unwrap_or_default();
    let shown = text("email").or_else(|| text("preferred_username")).or_else(|| text("name"));
    User::new(format!("{issuer}|{subject}")).display_name(shown.unwrap_or(subject))
}

const LEEWAY_SECONDS: u64 = 60;
