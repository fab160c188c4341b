//! The pages: plain HTML that works without scripts. Everything that a client has chosen is escaped.

use std::fmt::{self, Display};
use std::sync::OnceLock;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_FRAME_OPTIONS};
use http::{HeaderValue, StatusCode};
use ring::digest::{SHA256, digest};
use tsugite::base64;

use super::request::{AuthorizeRequest, ClientAnswer};
use crate::authorization_server::AuthorizationState;
use crate::authorization_server::clients::{Client, ClientOrigin, RedirectKind, redirect_kind, shown_host};
use crate::authorization_server::http_message::{EndpointError, HttpResponse, bytes_response};
use crate::net::Url;

/// The page on which a user logs in.
pub(super) struct LoginPage<'a> {
    pub(super) client: &'a Client,
    pub(super) request: &'a AuthorizeRequest,
    pub(super) sealed: &'a str,
    pub(super) problem: Option<&'a str>,
}

/// The page on which a user allows or denies.
pub(super) struct ConsentPage<'a> {
    pub(super) client: &'a Client,
    pub(super) request: &'a AuthorizeRequest,
    pub(super) sealed: &'a str,
    /// The user who is logged in; without one the login at the provider follows.
    pub(super) user: Option<&'a str>,
}

impl AuthorizationState {
    pub(super) fn login_page(&self, page: &LoginPage<'_>) -> HttpResponse {
        let problem = page.problem.map_or(String::new(), |problem| {
            format!("<p class=\"problem\" role=\"alert\">{}</p>", Escaped(problem))
        });
        let provider = self.settings.provider.as_ref().map_or(String::new(), |provider| {
            format!(
                "<button class=\"second\" name=\"action\" value=\"provider\" formnovalidate>Log in with {}</button>",
                Escaped(provider.shown_name())
            )
        });
        let body = format!(
            "<h1>Log in to {site}</h1>\n<p>To connect <strong>{client}</strong>.</p>\n{problem}\
             <form method=\"post\" action=\"{action}\">\n{request}\
             <label>Name <input name=\"name\" autocomplete=\"username\" autocapitalize=\"none\" spellcheck=\"false\" \
             maxlength=\"255\" required autofocus></label>\n\
             <label>Password <input name=\"password\" type=\"password\" autocomplete=\"current-password\" \
             maxlength=\"1024\" required></label>\n\
             <button name=\"action\" value=\"password\">Log in</button>\n{provider}</form>",
            site = Escaped(&self.settings.shown_name()),
            client = Escaped(page.client.shown_name()),
            action = Escaped(&self.url("/login")),
            request = hidden_request(page.sealed),
        );
        self.page(StatusCode::OK, "Log in", &body, Some(page.request))
    }

    pub(super) fn consent_page(&self, page: &ConsentPage<'_>) -> HttpResponse {
        let (client, request) = (page.client, page.request);
        let scopes: String = request.scopes.iter().map(|scope| self.scope_item(scope)).collect();
        let scopes = match scopes.is_empty() {
            true => String::new(),
            false => format!("<p>It will be able to:</p>\n<ul>\n{scopes}</ul>\n"),
        };
        let (heading, as_user, allow, switch) = match page.user {
            Some(user) => (
                format!("Allow {} to connect?", Escaped(client.shown_name())),
                format!("<dt>You are logged in as</dt><dd>{}</dd>\n", Escaped(user)),
                "Allow".to_owned(),
                "<button class=\"link\" name=\"action\" value=\"switch\">Log in as another user</button>\n",
            ),
            None => {
                let provider = self.settings.provider.as_ref().map(|provider| provider.shown_name());
                let provider = Escaped(provider.unwrap_or_default()).to_string();
                (
                    format!("Allow {} to connect?", Escaped(client.shown_name())),
                    self.provider_rows(),
                    format!("Allow and log in with {provider}"),
                    "",
                )
            }
        };
        let body = format!(
            "<h1>{heading}</h1>\n{origin}<dl>\n<dt>It connects to</dt><dd>{resource}</dd>\n\
             <dt>You will be sent to</dt><dd>{redirect}</dd>\n{as_user}</dl>\n{scopes}{warning}\
             <form method=\"post\" action=\"{action}\">\n{request}\
             <button name=\"action\" value=\"allow\">{allow}</button>\n\
             <button class=\"second\" name=\"action\" value=\"deny\">Deny</button>\n{switch}</form>",
            origin = origin_note(client),
            resource = Escaped(&request.resource),
            redirect = Escaped(&shown_host(&request.redirect_uri)),
            warning = redirect_warning(&request.redirect_uri),
            action = Escaped(&self.url("/consent")),
            request = hidden_request(page.sealed),
        );
        self.page(StatusCode::OK, "Allow access", &body, Some(request))
    }

    /// The rows about the provider: its host, and what it is asked for.
    fn provider_rows(&self) -> String {
        let Some(provider) = &self.settings.provider else { return String::new() };
        format!(
            "<dt>You will log in at</dt><dd>{}</dd>\n<dt>It is asked for</dt><dd>{}</dd>\n",
            Escaped(&provider.shown_host()),
            Escaped(&provider.scope())
        )
    }

    fn scope_item(&self, scope: &str) -> String {
        let known = self.settings.scopes.iter().find(|(known, _)| known == scope);
        let description = known.map(|(_, description)| description.as_str()).filter(|text| !text.is_empty());
        match description {
            Some(description) => {
                format!("<li>{} <small>({})</small></li>\n", Escaped(description), Escaped(scope))
            }
            None => format!("<li>{}</li>\n", Escaped(scope)),
        }
    }

    /// An error that no client is told, because none can be trusted.
    pub(super) fn error_page(&self, status: StatusCode, reason: &str) -> HttpResponse {
        let body = format!("<h1>This does not work</h1>\n<p>{}</p>", Escaped(reason));
        self.page(status, "Error", &body, None)
    }

    /// An error that the client gets when the user follows the link.
    pub(super) fn refusal_page(&self, client: &Client, answer: &ClientAnswer, url: &str) -> HttpResponse {
        let body = format!(
            "<h1>{client} cannot connect</h1>\n<p>It has sent a request that is refused: {reason} \
             <small>({code})</small>.</p>\n<p><a href=\"{url}\" rel=\"noreferrer\">Go back to {host}</a></p>",
            client = Escaped(client.shown_name()),
            reason = Escaped(answer.description),
            code = Escaped(answer.code),
            url = Escaped(url),
            host = Escaped(&shown_host(&answer.redirect_uri)),
        );
        self.page(StatusCode::BAD_REQUEST, "Error", &body, None)
    }

    /// A form that is too old, or belongs to another browser.
    pub(super) fn stale_page(&self) -> HttpResponse {
        let reason = "This page is too old, or it was opened in another browser. Go back to the application and connect again.";
        self.error_page(StatusCode::BAD_REQUEST, reason)
    }

    /// A failure of this server. The log has the cause.
    pub(super) fn failure_page(&self, error: EndpointError) -> HttpResponse {
        match error {
            EndpointError::OAuth(error) => self.error_page(error.status, &error.description),
            EndpointError::Unavailable(error) => {
                tracing::error!(%error, "the authorization server cannot answer now");
                self.error_page(StatusCode::SERVICE_UNAVAILABLE, "The server is not ready. Try again later.")
            }
        }
    }

    fn page(
        &self,
        status: StatusCode,
        title: &str,
        body: &str,
        request: Option<&AuthorizeRequest>,
    ) -> HttpResponse {
        let html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"robots\" content=\"noindex\">\n<title>{title} – {site}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n",
            title = Escaped(title),
            site = Escaped(&self.settings.shown_name()),
        );
        let mut response = bytes_response(status, "text/html; charset=utf-8", Bytes::from(html));
        let headers = response.headers_mut();
        let policy = HeaderValue::try_from(self.content_policy(request));
        let none = || HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
        headers.insert(CONTENT_SECURITY_POLICY, policy.unwrap_or_else(|_| none()));
        headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        // Not `no-referrer`: the `Origin` of our own forms would be `null`.
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// No script, no frame, no image. Browsers apply `form-action` also to the redirects after a form, so the way back to the
    /// client is allowed: by scheme, since a client may redirect further.
    fn content_policy(&self, request: Option<&AuthorizeRequest>) -> String {
        let mut targets = vec!["'self'".to_owned(), "https:".to_owned()];
        let uri = request.map(|request| request.redirect_uri.as_str()).unwrap_or_default();
        let provider = self.settings.provider.as_ref().is_some_and(|provider| !provider.is_secure());
        match redirect_kind(uri) {
            Some(RedirectKind::Loopback) => targets.push("http:".to_owned()),
            Some(RedirectKind::PrivateScheme) => {
                let scheme = uri.split(':').next().unwrap_or_default();
                targets.push(format!("{}:", scheme.to_ascii_lowercase()));
            }
            Some(RedirectKind::Https) | None if provider => targets.push("http:".to_owned()),
            Some(RedirectKind::Https) | None => {}
        }
        format!(
            "default-src 'none'; style-src 'sha256-{}'; form-action {}; frame-ancestors 'none'; base-uri 'none'",
            style_digest(),
            targets.join(" ")
        )
    }
}

/// The parties that vouch for the client, in words.
fn origin_note(client: &Client) -> String {
    match client.origin {
        ClientOrigin::Settings => String::new(),
        ClientOrigin::Registration => {
            "<p class=\"faint\">This application has registered itself. Its name is not verified.</p>\n"
                .to_owned()
        }
        ClientOrigin::Document => {
            let host = Url::parse(&client.client_id).map(|url| url.host).unwrap_or_default();
            format!(
                "<p class=\"faint\">This application is published by <strong>{}</strong>.</p>\n",
                Escaped(&host)
            )
        }
    }
}

fn redirect_warning(uri: &str) -> &'static str {
    match redirect_kind(uri) {
        Some(RedirectKind::Loopback) => {
            "<p class=\"warning\"><strong>This application runs on your computer.</strong> Any program there could \
             pretend to be it. Continue only if you have just started it.</p>\n"
        }
        Some(RedirectKind::PrivateScheme) => {
            "<p class=\"warning\"><strong>This is an application on your device.</strong> Another one could pretend to \
             be it. Continue only if you have just used it.</p>\n"
        }
        Some(RedirectKind::Https) | None => "",
    }
}

fn hidden_request(sealed: &str) -> String {
    format!("<input type=\"hidden\" name=\"request\" value=\"{}\">\n", Escaped(sealed))
}

/// A text in HTML, between tags or in a quoted attribute. Control characters and those that change the direction of text are
/// left out.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {}
                letter if letter.is_control() => {}
                letter => fmt::Write::write_char(f, letter)?,
            }
        }
        Ok(())
    }
}

/// The digest of the style, which alone the policy allows.
fn style_digest() -> &'static str {
    static DIGEST: OnceLock<String> = OnceLock::new();
    DIGEST.get_or_init(|| base64::encode(digest(&SHA256, STYLE.as_bytes()).as_ref()))
}

const STYLE: &str = include_str!("page.css");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_place() {
        let text = Escaped("<b onclick='x' title=\"y\">&\u{202e}\u{0}\n</b>").to_string();
        assert_eq!(text, "&lt;b onclick=&#39;x&#39; title=&quot;y&quot;&gt;&amp;&lt;/b&gt;");
    }
}
