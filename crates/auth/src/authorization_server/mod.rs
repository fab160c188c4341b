//! An authorization server of OAuth 2.1 for those who have none: login, consent, tokens and their keys.
//!
//! ```no_run
//! # fn f() -> Result<(), tsugite_auth::AuthError> {
//! use tsugite_auth::authorization_server::{AuthorizationServer, UserFile};
//!
//! let auth = AuthorizationServer::builder("https://example.com")
//!     .resource("https://example.com/mcp")
//!     .scope("notes:read", "Read your notes")
//!     .users(UserFile::new("auth.json"))
//!     .build()?;
//! # Ok(()) }
//! ```
//!
//! [`AuthorizationServer`] is a `tower` service for any router, and for
//! [`Http::route_service`](tsugite::transport::http::Http::route_service). Its state is in a [`Store`], so that
//! replicas share it.

// - `service`: the paths, and which function answers. `http_message`: requests and responses.
// - `metadata`, `keys`: the documents of the issuer, and the keys that sign.
// - `clients`: which clients there are, and how they prove that they are it.
// - `authorize`: `/authorize`, with login and consent. `users`, `openid`, `id_token`: who can log in.
// - `token`: `/token`, one file for each grant. `revoke`: `/revoke`. `verifier`: verifies tokens without network.
// - `settings`, `auth_file`: the builder, and the same in a file.
// - `records`, `limits`, `clock`: the state in the store, rate limits, and the time.

mod auth_file;
mod authorize;
mod clients;
mod clock;
mod http_message;
mod id_token;
mod keys;
mod limits;
mod metadata;
mod openid;
mod records;
mod revoke;
mod service;
mod settings;
mod token;
mod users;
mod verifier;

pub use auth_file::AuthFile;
pub use clients::ConfiguredClient;
pub use openid::OpenIdProvider;
pub use settings::AuthorizationServerBuilder;
pub use token::TrustedIssuer;
pub use users::{User, UserFile, UserFuture, Users};
pub use verifier::IssuedTokens;

use std::fmt;
use std::sync::Arc;

use tsugite::client::Fetcher;
use tsugite::server::SealKeys;
use tsugite::store::Store;

use crate::error::Result;
use crate::net::{GuardedHttp, Trust, Url};
use crate::purge_timer::PurgeTimer;
use clients::{ClientKeyCache, DocumentCache};
use clock::Clock;
use keys::SigningKeys;
use openid::ProviderConnection;
use records::Records;
use settings::ServerSettings;

/// An authorization server. Cheap to clone; clones share their state.
///
/// It answers at the paths of its issuer: `/authorize`, `/token`, `/register`, `/revoke`, `/jwks`, the pages `/login`,
/// `/consent` and `/callback`, and `/.well-known/oauth-authorization-server`.
#[derive(Clone)]
pub struct AuthorizationServer(Arc<AuthorizationState>);

/// The parts that endpoints share.
struct AuthorizationState {
    settings: ServerSettings,
    /// The issuer, parsed.
    issuer_url: Url,
    /// The path of the issuer, without a slash at its end.
    base_path: String,
    is_secure: bool,
    store: Arc<dyn Store>,
    records: Arc<Records>,
    keys: SigningKeys,
    clock: Clock,
    /// For URLs that clients name.
    http: GuardedHttp,
    documents: DocumentCache,
    client_keys: ClientKeyCache,
    provider: Option<ProviderConnection>,
    purge_timer: PurgeTimer,
}

impl AuthorizationServer {
    /// Begins the settings of a server. The issuer is the URL under which browsers and clients reach it.
    pub fn builder(issuer: impl Into<String>) -> AuthorizationServerBuilder {
        AuthorizationServerBuilder::new(issuer.into())
    }

    /// The issuer of the tokens.
    pub fn issuer(&self) -> &str {
        &self.0.settings.issuer
    }

    fn from_settings(
        settings: ServerSettings,
        store: Arc<dyn Store>,
        seal_keys: SealKeys,
        fetcher: Fetcher,
    ) -> Result<Self> {
        let url = Url::parse(&settings.issuer)?;
        let clock = Clock::new();
        let records = Arc::new(Records::new(Arc::clone(&store), seal_keys, &settings.issuer, clock));
        let keys = SigningKeys::new(
            Arc::clone(&records),
            clock,
            settings.key_rotation_interval,
            settings.access_token_ttl,
        );
        let provider = settings.provider.clone().map(|provider| ProviderConnection::new(provider, &fetcher));
        let http = GuardedHttp::new(fetcher, Trust::default().allow_private(settings.allow_private));
        Ok(Self(Arc::new(AuthorizationState {
            base_path: url.path().to_owned(),
            is_secure: url.secure,
            issuer_url: url,
            settings,
            store,
            records,
            keys,
            clock,
            http,
            documents: DocumentCache::default(),
            client_keys: ClientKeyCache::default(),
            provider,
            purge_timer: PurgeTimer::default(),
        })))
    }
}

impl AuthorizationState {
    /// The URL of an endpoint.
    fn url(&self, endpoint: &str) -> String {
        format!("{}{}{endpoint}", self.issuer_url.origin(), self.base_path)
    }
}

impl fmt::Debug for AuthorizationServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationServer").field("issuer", &self.0.settings.issuer).finish_non_exhaustive()
    }
}
