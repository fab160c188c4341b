//! The settings of a login.

use std::sync::Arc;
use std::time::Duration;

use tsugite::client::Fetcher;

use crate::flow::RedirectTarget;
use crate::grants::Grant;
use crate::registration::ClientCredentials;
use crate::store::{Store, StoredToken};

/// The settings of a login.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) client_name: String,
    pub(crate) grant: Arc<Grant>,
    pub(crate) client: Option<ClientCredentials>,
    pub(crate) client_metadata_url: Option<String>,
    pub(crate) redirect: Option<RedirectTarget>,
    pub(crate) scopes: Option<Vec<String>>,
    pub(crate) offline_access: bool,
    pub(crate) dpop: bool,
    pub(crate) require_pkce_metadata: bool,
    pub(crate) allow_private: bool,
    pub(crate) ask_user: bool,
    pub(crate) login_timeout: Duration,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) fetcher: Option<Fetcher>,
}

impl Settings {
    /// Whether a stored token was issued to the client of these settings.
    pub(crate) fn is_usable(&self, token: &StoredToken) -> bool {
        self.client.as_ref().is_none_or(|client| client.client_id == token.client_id)
    }

    /// Whether a person logs in.
    pub(crate) fn is_interactive(&self) -> bool {
        matches!(*self.grant, Grant::AuthorizationCode(_))
    }
}
