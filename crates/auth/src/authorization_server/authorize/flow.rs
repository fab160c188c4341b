//! The steps from a request to its answer: login, consent, code.

use std::time::Duration;

use http::StatusCode;
use tsugite::store::{Precondition, StoreError};

use super::browser::{Browser, LoggedIn};
use super::pages::{ConsentPage, LoginPage};
use super::request::{AuthorizeRequest, ClientAnswer, RequestError};
use crate::authorization_server::AuthorizationState;
use crate::authorization_server::clients::Client;
use crate::authorization_server::http_message::{EndpointError, HttpRequest, HttpResponse, Params, redirect};
use crate::authorization_server::records::FIELD;
use crate::authorization_server::token::CodeRecord;
use crate::authorization_server::users::MAX_PASSWORD_BYTES;
use crate::jose::random_text;
use crate::secret::Secret;

impl AuthorizationState {
    /// GET `/authorize`.
    pub(in crate::authorization_server) async fn authorize(&self, request: &HttpRequest) -> HttpResponse {
        self.begin(request).await.unwrap_or_else(|error| self.failure_page(error))
    }

    async fn begin(&self, http: &HttpRequest) -> Result<HttpResponse, EndpointError> {
        let (request, client) = match self.read_authorize_request(http).await? {
            Ok(valid) => valid,
            Err(RequestError::Page(reason)) => return Ok(self.error_page(StatusCode::BAD_REQUEST, reason)),
            Err(RequestError::Client(answer, client)) => return Ok(self.refuse(&answer, &client)),
        };
        let browser = self.browser(http).await?;
        let response = match &browser.user {
            Some(user) if !request.prompt.login => {
                self.after_login(&browser, user, &request, &client).await?
            }
            _ if request.prompt.none => {
                self.refuse(&request.refusal("login_required", "the user is not logged in"), &client)
            }
            _ => self.ask_to_log_in(&browser, &request, &client, None)?,
        };
        Ok(self.set_cookie(&browser, response))
    }

    /// The page that a user logs in on. Without users of our own it is the consent that comes before the provider.
    fn ask_to_log_in(
        &self,
        browser: &Browser,
        request: &AuthorizeRequest,
        client: &Client,
        problem: Option<&str>,
    ) -> Result<HttpResponse, StoreError> {
        if self.settings.users.is_none() {
            return self.ask_for_consent(browser, None, request, client);
        }
        let sealed = self.records.seal_text(request, &[LOGIN_STEP, &browser.id], PAGE_TTL)?;
        Ok(self.login_page(&LoginPage { client, request, sealed: &sealed, problem }))
    }

    /// The page on which a user allows or denies. Without a user the login at the provider follows.
    fn ask_for_consent(
        &self,
        browser: &Browser,
        user: Option<&LoggedIn>,
        request: &AuthorizeRequest,
        client: &Client,
    ) -> Result<HttpResponse, StoreError> {
        let sealed = match user {
            Some(user) => {
                let bound_to = [CONSENT_STEP, browser.id.as_str(), user.subject.as_str()];
                self.records.seal_text(request, &bound_to, PAGE_TTL)?
            }
            None => self.records.seal_text(request, &[PROVIDER_STEP, &browser.id], PAGE_TTL)?,
        };
        let user = user.map(|user| user.display_name.as_str());
        Ok(self.consent_page(&ConsentPage { client, request, sealed: &sealed, user }))
    }

    /// The step after a login: consent, unless it was given before.
    async fn after_login(
        &self,
        browser: &Browser,
        user: &LoggedIn,
        request: &AuthorizeRequest,
        client: &Client,
    ) -> Result<HttpResponse, EndpointError> {
        if self.has_consented(user, request).await? {
            return self.issue_code(user, request).await;
        }
        if request.prompt.none {
            return Ok(self.refuse(&request.refusal("consent_required", "the user has to consent"), client));
        }
        Ok(self.ask_for_consent(browser, Some(user), request, client)?)
    }

    /// POST `/login`.
    pub(in crate::authorization_server) async fn log_in(&self, request: &HttpRequest) -> HttpResponse {
        self.try_log_in(request).await.unwrap_or_else(|error| self.failure_page(error))
    }

    async fn try_log_in(&self, http: &HttpRequest) -> Result<HttpResponse, EndpointError> {
        let browser = self.browser(http).await?;
        let form = self.own_form(http);
        let opened = form.as_ref().and_then(|form| {
            self.records.open_text::<AuthorizeRequest>(form.get("request")?, &[LOGIN_STEP, &browser.id])
        });
        let (Some(form), Some(request)) = (form, opened) else { return Ok(self.stale_page()) };
        let Some(client) = self.find_client(&request.client_id, http.client).await? else {
            return Ok(self.stale_page());
        };
        if form.get("action") == Some("provider") && self.settings.provider.is_some() {
            return Ok(self.ask_for_consent(&browser, None, &request, &client)?);
        }
        let (name, password) =
            (form.get("name").unwrap_or_default(), form.get("password").unwrap_or_default());
        if let Err(wait) = self.spend_login(name, http.client).await? {
            let problem = format!("Too many attempts. Try again in {} seconds.", wait.as_secs().max(1));
            let mut response = self.ask_to_log_in(&browser, &request, &client, Some(&problem))?;
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            return Ok(response);
        }
        let user = match &self.settings.users {
            Some(users) if password.len() <= MAX_PASSWORD_BYTES => {
                users.check_password(name.to_owned(), Secret::new(password)).await?
            }
            _ => None,
        };
        let Some(user) = user else {
            // The same sentence for an unknown name.
            let problem = Some("The name or the password is wrong.");
            let mut response = self.ask_to_log_in(&browser, &request, &client, problem)?;
            *response.status_mut() = StatusCode::UNAUTHORIZED;
            return Ok(response);
        };
        self.give_login_back(http.client).await?;
        if !user.has_valid_subject() {
            tracing::error!("the subject of a user contains `|` or begins with `client:`");
            return Ok(self.error_page(StatusCode::INTERNAL_SERVER_ERROR, "You cannot log in here."));
        }
        let user = LoggedIn::new(user, self.clock.seconds());
        let browser = self.start_session(&browser, user.clone()).await?;
        let response = self.after_login(&browser, &user, &request, &client).await?;
        Ok(self.set_cookie(&browser, response))
    }

    /// POST `/consent`.
    pub(in crate::authorization_server) async fn consent(&self, request: &HttpRequest) -> HttpResponse {
        self.try_consent(request).await.unwrap_or_else(|error| self.failure_page(error))
    }

    async fn try_consent(&self, http: &HttpRequest) -> Result<HttpResponse, EndpointError> {
        let browser = self.browser(http).await?;
        let Some(form) = self.own_form(http) else { return Ok(self.stale_page()) };
        let sealed = form.get("request").unwrap_or_default();
        let open = |bound_to: &[&str]| self.records.open_text::<AuthorizeRequest>(sealed, bound_to);
        let by_user = browser.user.as_ref().and_then(|user| {
            let request = open(&[CONSENT_STEP, &browser.id, &user.subject])?;
            Some((Some(user), request))
        });
        let before_provider = || open(&[PROVIDER_STEP, &browser.id]).map(|request| (None, request));
        let Some((user, request)) = by_user.or_else(before_provider) else { return Ok(self.stale_page()) };
        let Some(client) = self.find_client(&request.client_id, http.client).await? else {
            return Ok(self.stale_page());
        };
        match (form.get("action"), user) {
            (Some("allow"), Some(user)) => {
                self.remember_consent(user, &request).await?;
                self.issue_code(user, &request).await
            }
            (Some("allow"), None) => self.start_provider_login(http, &browser, request).await,
            (Some("switch"), Some(_)) => {
                self.end_session(&browser).await?;
                let browser = Browser::anonymous()?;
                let response = self.ask_to_log_in(&browser, &request, &client, None)?;
                Ok(self.set_cookie(&browser, response))
            }
            // The user has seen the page and chose to go back.
            (Some("deny"), _) => {
                let answer = request.refusal("access_denied", "the user has denied the request");
                Ok(redirect(&self.refusal_url(&answer)))
            }
            _ => Ok(self.stale_page()),
        }
    }

    /// Issues a code and sends the browser back to the client.
    pub(super) async fn issue_code(
        &self,
        user: &LoggedIn,
        request: &AuthorizeRequest,
    ) -> Result<HttpResponse, EndpointError> {
        let code = random_text()?;
        let record = CodeRecord {
            client_id: request.client_id.clone(),
            redirect_uri: request.has_named_uri.then(|| request.redirect_uri.clone()),
            scopes: request.scopes.clone(),
            resource: request.resource.clone(),
            code_challenge: request.code_challenge.clone(),
            dpop_jkt: request.dpop_jkt.clone(),
            subject: user.subject.clone(),
            generation: user.generation.clone(),
            authenticated_at: user.at,
            provider_grant: user.provider_grant.clone(),
            family: random_text()?,
            expires_at: self.clock.seconds() + CODE_SECONDS,
        };
        let key = self.records.key("code", &code);
        self.records.write((&key, FIELD), &record, Precondition::FieldAbsent, CODE_RECORD_TTL).await?;
        let answer = self.answer_url(&request.redirect_uri, request.state.as_deref(), &[("code", &code)]);
        Ok(redirect(&answer))
    }

    /// Tells a client about an error. A browser is sent to a client without its user being asked only if the operator chose
    /// the client; otherwise this server would redirect to any address that is registered (OAuth 2.1, 7.12.2).
    fn refuse(&self, answer: &ClientAnswer, client: &Client) -> HttpResponse {
        let url = self.refusal_url(answer);
        match client.is_trusted() {
            true => redirect(&url),
            false => self.refusal_page(client, answer, &url),
        }
    }

    pub(super) fn refusal_url(&self, answer: &ClientAnswer) -> String {
        let params = [("error", answer.code), ("error_description", answer.description)];
        self.answer_url(&answer.redirect_uri, answer.state.as_deref(), &params)
    }

    /// The form of a request, if a page of this server sent it.
    fn own_form(&self, request: &HttpRequest) -> Option<Params> {
        request.form().filter(|_| self.is_own_form(request))
    }
}

/// The steps that a sealed request can belong to.
const LOGIN_STEP: &str = "login";
const CONSENT_STEP: &str = "consent";
/// Consent before the login at a provider, when the user is not known yet.
const PROVIDER_STEP: &str = "provider consent";

/// A user has this long for one page.
pub(super) const PAGE_TTL: Duration = Duration::from_secs(10 * 60);
/// A code is exchanged at once.
const CODE_SECONDS: u64 = 60;
/// A code is remembered for longer, to notice its second use.
const CODE_RECORD_TTL: Duration = Duration::from_secs(60 * 60);
