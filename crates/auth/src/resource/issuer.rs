//! [`Issuer`]: requests of a protected server to the issuer that its operator has named.

use tsugite::client::Fetcher;

use crate::discovery::ServerMetadata;
use crate::error::Result;
use crate::net::{GuardedHttp, Trust, Url};

/// An issuer, and how it is reached.
#[derive(Clone)]
pub(crate) struct Issuer {
    pub(crate) name: String,
    pub(crate) fetcher: Fetcher,
    /// Whether the endpoints may be in a private network although neither the issuer nor its origin is.
    pub(crate) allow_private: bool,
}

impl Issuer {
    pub(crate) fn new(name: String) -> Self {
        Self { name, fetcher: Fetcher::new(), allow_private: false }
    }

    /// Fetches the metadata. The issuer was named by the operator, so it may be in a private network.
    pub(crate) async fn metadata(&self) -> Result<ServerMetadata> {
        ServerMetadata::fetch(&self.trusted(), &self.name).await
    }

    /// The client for a URL that the metadata names. It may be in a private network only at the origin of the issuer, or if
    /// the issuer itself is at a private address.
    pub(crate) fn http_for(&self, url: &Url) -> GuardedHttp {
        let issuer = Url::parse(&self.name).ok();
        let is_own = issuer.as_ref().is_some_and(|issuer| issuer.is_same_origin(url));
        let trust = match (is_own || self.allow_private, &issuer) {
            (true, _) => Trust::USER,
            (false, Some(issuer)) => Trust::of_server(issuer, None),
            (false, None) => Trust::default(),
        };
        GuardedHttp::new(self.fetcher.clone(), trust)
    }

    /// The client for URLs that the operator has named.
    pub(crate) fn trusted(&self) -> GuardedHttp {
        GuardedHttp::new(self.fetcher.clone(), Trust::USER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_cannot_lead_into_a_private_network() {
        let allowed = |issuer: &str, url: &str| {
            let url = Url::parse(url).unwrap();
            Issuer::new(issuer.to_owned()).http_for(&url).trust.check_url(&url).is_ok()
        };
        let public = "https://idp.example";
        assert!(allowed(public, "https://idp.example/jwks") && allowed(public, "https://keys.example/jwks"));
        for url in [
            "http://idp.example/jwks",
            "https://127.0.0.1/jwks",
            "http://127.0.0.1/jwks",
            "https://10.0.0.1/jwks",
            "https://169.254.169.254/jwks",
        ] {
            assert!(!allowed(public, url), "{url}");
        }
        assert!(allowed("http://127.0.0.1:1", "http://localhost:2/jwks"));
        assert!(allowed("https://10.0.0.1", "https://10.0.0.2/jwks"));
        assert!(!allowed("https://10.0.0.1", "http://127.0.0.1/jwks"));
        let open = Issuer { allow_private: true, ..Issuer::new(public.to_owned()) };
        let url = Url::parse("https://10.0.0.1/jwks").unwrap();
        assert!(open.http_for(&url).trust.check_url(&url).is_ok());
    }
}
