//! The URL of the endpoint, as the owner of a server writes it.

use http::Uri;

/// A URL that [`Http::public_url`](super::Http::public_url) accepts, as it was written.
#[derive(Debug, Clone)]
pub(super) struct PublicUrl {
    text: String,
    /// Where the path begins.
    origin_end: usize,
}

impl PublicUrl {
    /// `None` if it is no URL of HTTP, or has a user, a query or a fragment.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let scheme = uri.scheme_str()?;
        let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        let authority = uri.authority()?;
        if !is_http || text.contains(['?', '#', '@', ' ', '"', '\\']) || authority.host().is_empty() {
            return None;
        }
        let origin_end = scheme.len() + "://".len() + authority.as_str().len();
        Some(Self { text: text.to_owned(), origin_end })
    }

    /// The host without a port.
    pub(super) fn host(&self) -> Option<String> {
        let uri: Uri = self.text.parse().ok()?;
        uri.host().map(str::to_ascii_lowercase)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn origin(&self) -> &str {
        self.text.get(..self.origin_end).unwrap_or_default()
    }

    /// The path; empty if the URL has none.
    pub(super) fn path(&self) -> &str {
        self.text.get(self.origin_end..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_url_is_kept_as_written() {
        let url = PublicUrl::parse("HTTPS://Notes.example:8443/v1/mcp").unwrap();
        assert_eq!((url.origin(), url.path()), ("HTTPS://Notes.example:8443", "/v1/mcp"));
        assert_eq!(url.host().as_deref(), Some("notes.example"));
        for wrong in
            ["notes.example/mcp", "/mcp", "ftp://h/", "https://u@h/", "https://h/?a", "https://h/#a", ""]
        {
            assert!(PublicUrl::parse(wrong).is_none(), "{wrong}");
        }
    }
}
