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
    /// Whether the endpoints may be in a private network although they are not at the origin of the issuer.
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

    /// The client for a URL that the metadata names. Only at the origin of the issuer it may be in a private network.
    pub(crate) fn http_for(&self, url: &Url) -> GuardedHttp {
        let is_own = Url::parse(&self.name).is_ok_and(|issuer| issuer.is_same_origin(url));
        match is_own || self.allow_private {
            true => self.trusted(),
            false => GuardedHttp::new(self.fetcher.clone(), Trust::default()),
        }
    }

    /// The client for URLs that the operator has named.
    pub(crate) fn trusted(&self) -> GuardedHttp {
        GuardedHttp::new(self.fetcher.clone(), Trust::USER)
    }
}
