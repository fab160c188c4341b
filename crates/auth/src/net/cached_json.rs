//! JSON documents that an authorization server fetches and keeps for a while.

use serde_json::{Map, Value};
use tsugite::client::FetchRequest;

use super::http::{GuardedHttp, fetch_error};
use super::url::Url;
use crate::error::Result;
use crate::jose::parse_object;

impl GuardedHttp {
    /// Fetches the JSON object at exactly this URL, of at most 64 KiB, and the seconds for which it may be cached. `None` if
    /// there is none, or if it names a member twice; a redirect is not followed.
    pub(crate) async fn get_cached_json(
        &self,
        url: &Url,
    ) -> Result<(Option<Map<String, Value>>, Option<u64>)> {
        let request = FetchRequest::get(url.as_str()).header("accept", "application/json");
        let response = self.fetch_limited(url, request, MAX_DOCUMENT_BYTES).await?;
        let max_age = response.header("cache-control").and_then(max_age);
        match response.status {
            200 => Ok((parse_object(&response.body), max_age)),
            // The host has no time now; that says nothing about the document.
            status @ (408 | 425 | 429) => Err(fetch_error(url, &format!("HTTP status {status}"))),
            300..=499 => Ok((None, None)),
            status => Err(fetch_error(url, &format!("HTTP status {status}"))),
        }
    }
}

/// The seconds for which a response may be cached, by its `Cache-Control`.
fn max_age(header: &str) -> Option<u64> {
    let mut directives = header.split(',').map(|directive| directive.trim().to_ascii_lowercase());
    if directives.clone().any(|directive| matches!(directive.as_str(), "no-store" | "no-cache")) {
        return Some(0);
    }
    directives.find_map(|directive| directive.strip_prefix("max-age=")?.trim_matches('"').parse().ok())
}

const MAX_DOCUMENT_BYTES: usize = 64 << 10;
