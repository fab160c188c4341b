//! Requests to URLs that a server names: checked, limited, and without redirects for POST.

use std::time::Duration;

use serde_json::{Map, Value};
use tsugite::client::{ErrorKind, FetchRequest, FetchResponse, Fetcher};
use tsugite::revision::Revision;

use super::guard::Trust;
use super::url::Url;
use crate::error::{AuthError, AuthErrorKind, Result};

/// An HTTP client behind the guard.
#[derive(Clone)]
pub(crate) struct GuardedHttp {
    fetcher: Fetcher,
    pub(crate) trust: Trust,
}

impl std::fmt::Debug for GuardedHttp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuardedHttp").finish_non_exhaustive()
    }
}

impl GuardedHttp {
    pub(crate) fn new(fetcher: Fetcher, trust: Trust) -> Self {
        Self { fetcher, trust }
    }

    /// The same client for URLs that the user has named.
    pub(crate) fn trusting_user(&self) -> Self {
        Self { trust: Trust::USER, ..self.clone() }
    }

    /// Fetches a JSON object. `None` if there is none at this URL. Each redirect is checked like the URL itself.
    pub(crate) async fn get_json(&self, url: &Url) -> Result<Option<Map<String, Value>>> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let request = FetchRequest::get(url.as_str())
                .header("accept", "application/json")
                .header("mcp-protocol-version", Revision::NEWEST.as_str());
            let response = self.fetch(&url, request).await?;
            match response.status {
                200 => return Ok(serde_json::from_slice(&response.body).ok()),
                301 | 302 | 303 | 307 | 308 => {
                    url = url.join(response.header("location").unwrap_or_default())?;
                }
                400..=499 => return Ok(None),
                status => return Err(fetch_error(&url, &format!("HTTP status {status}"))),
            }
        }
        Err(fetch_error(&url, &format!("more than {MAX_REDIRECTS} redirects")))
    }

    /// Sends a body. A redirect is an error: the body may contain credentials.
    pub(crate) async fn post(
        &self,
        url: &Url,
        content_type: &str,
        body: String,
        headers: &[(&str, String)],
    ) -> Result<FetchResponse> {
        let mut request =
            FetchRequest::post(url.as_str(), content_type, body).header("accept", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let response = self.fetch(url, request).await?;
        match response.status {
            300..=399 => Err(fetch_error(url, &format!("refused a redirect ({})", response.status))),
            _ => Ok(response),
        }
    }

    async fn fetch(&self, url: &Url, request: FetchRequest) -> Result<FetchResponse> {
        self.fetch_limited(url, request, MAX_RESPONSE_BYTES).await
    }

    pub(super) async fn fetch_limited(
        &self,
        url: &Url,
        request: FetchRequest,
        max_bytes: usize,
    ) -> Result<FetchResponse> {
        self.trust.check_url(url)?;
        let fetcher = self.fetcher.clone().filter(self.trust.filter(url));
        let request = request.max_bytes(max_bytes).timeout(RESPONSE_TIMEOUT);
        let response = fetcher.fetch(request).await;
        let response = response.map_err(|error| match error.kind() {
            ErrorKind::TooLarge(_) => AuthError::discovery(format!("{}: {error}", url.without_query())),
            _ => fetch_error(url, &error.to_string()),
        })?;
        // No encoding was asked for, and a small body may decode to a huge one.
        match response.header("content-encoding").unwrap_or("identity") {
            "identity" => Ok(response),
            _ => Err(fetch_error(url, "the response has a content encoding")),
        }
    }
}

pub(super) fn fetch_error(url: &Url, reason: &str) -> AuthError {
    AuthError::new(AuthErrorKind::Fetch, format!("cannot fetch {}: {reason}", url.without_query()))
}

const MAX_REDIRECTS: usize = 3;
const MAX_RESPONSE_BYTES: usize = 1 << 20;
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
