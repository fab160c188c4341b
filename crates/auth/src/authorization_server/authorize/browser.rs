//! The cookie of a browser, and the user who is logged in there.
//!
//! The cookie is a random text. A browser has one before the login, to bind forms to it, and gets another one with the login,
//! so that a cookie that was planted before is worth nothing.

use http::HeaderValue;
use http::header::SET_COOKIE;
use serde::{Deserialize, Serialize};
use tsugite::store::{Precondition, StoreError};

use crate::authorization_server::AuthorizationState;
use crate::authorization_server::http_message::{HttpRequest, HttpResponse};
use crate::authorization_server::records::FIELD;
use crate::authorization_server::users::{EarlierLogin, User};
use crate::error::Result;
use crate::jose::random_text;
use crate::net::Url;

/// A browser.
pub(super) struct Browser {
    pub(super) id: String,
    /// Whether the browser has to be given the cookie.
    is_new: bool,
    pub(super) user: Option<LoggedIn>,
}

/// A user who has logged in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LoggedIn {
    pub(super) subject: String,
    pub(super) display_name: String,
    /// The generation of the user at the login.
    #[serde(default)]
    pub(super) generation: String,
    /// When, in seconds since 1970.
    pub(super) at: u64,
    /// The name of the login at the provider, for a user of the provider.
    #[serde(default)]
    pub(super) provider_grant: Option<String>,
}

impl LoggedIn {
    pub(super) fn new(user: User, at: u64) -> Self {
        let User { subject, display_name, generation } = user;
        Self { subject, display_name, generation, at, provider_grant: None }
    }

    fn login(&self) -> EarlierLogin<'_> {
        let Self { subject, generation, provider_grant, .. } = self;
        EarlierLogin { subject, generation, provider_grant: provider_grant.as_deref() }
    }
}

impl Browser {
    /// A browser without a user, which gets a new cookie.
    pub(super) fn anonymous() -> Result<Self> {
        Ok(Self { id: random_text()?, is_new: true, user: None })
    }
}

impl AuthorizationState {
    /// The browser that sent a request.
    pub(super) async fn browser(&self, request: &HttpRequest) -> Result<Browser, StoreError> {
        let is_id = |text: &&str| text.len() == 43 && text.bytes().all(|byte| byte.is_ascii_graphic());
        let Some(id) = request.cookie(&self.cookie_name()).filter(is_id) else {
            return Ok(Browser::anonymous()?);
        };
        let session = self.records.read::<LoggedIn>(&self.records.key("session", id), FIELD).await?;
        let user = match session.map(|session| session.value) {
            Some(user) if self.is_active(user.login()).await? => Some(user),
            _ => None,
        };
        Ok(Browser { id: id.to_owned(), is_new: false, user })
    }

    /// Logs a user in: the browser gets another cookie.
    pub(super) async fn start_session(
        &self,
        before: &Browser,
        user: LoggedIn,
    ) -> Result<Browser, StoreError> {
        self.end_session(before).await?;
        let id = random_text()?;
        let key = self.records.key("session", &id);
        let ttl = self.settings.session_ttl;
        self.records.write((&key, FIELD), &user, Precondition::FieldAbsent, ttl).await?;
        Ok(Browser { id, is_new: true, user: Some(user) })
    }

    /// Logs the user of a browser out.
    pub(super) async fn end_session(&self, browser: &Browser) -> Result<(), StoreError> {
        match browser.user {
            Some(_) => self.records.delete(&self.records.key("session", &browser.id)).await,
            None => Ok(()),
        }
    }

    /// Gives a new browser its cookie.
    pub(super) fn set_cookie(&self, browser: &Browser, mut response: HttpResponse) -> HttpResponse {
        if browser.is_new {
            let secure = if self.is_secure { "; Secure" } else { "" };
            // Lax: a login begins at the site of a client, and one by a provider comes back from that site.
            let cookie =
                format!("{}={}; Path=/{secure}; HttpOnly; SameSite=Lax", self.cookie_name(), browser.id);
            if let Ok(mut cookie) = HeaderValue::try_from(cookie) {
                cookie.set_sensitive(true);
                response.headers_mut().append(SET_COOKIE, cookie);
            }
        }
        response
    }

    /// `__Host-` keeps other hosts from setting it, and needs https. All ports of a host share its cookies, so on the loopback
    /// interface the name has the port.
    fn cookie_name(&self) -> String {
        match self.is_secure {
            true => "__Host-tsugite-session".to_owned(),
            false => format!("tsugite-session-{}", self.issuer_url.port),
        }
    }

    /// Whether a form was sent by a page of this server, as far as the browser says.
    pub(super) fn is_own_form(&self, request: &HttpRequest) -> bool {
        // A browser writes its origin in lower case and without a default port, whatever the issuer looks like.
        let is_own = |origin: &str| Url::parse(origin).is_ok_and(|url| url.is_same_origin(&self.issuer_url));
        let is_own_origin = match request.has_header("origin") {
            true => request.header("origin").is_some_and(is_own),
            false => true,
        };
        let is_own_site = match request.has_header("sec-fetch-site") {
            true => request.header("sec-fetch-site") == Some("same-origin"),
            false => true,
        };
        is_own_origin && is_own_site
    }
}
