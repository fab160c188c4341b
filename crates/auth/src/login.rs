//! [`Login`]: how a client gets its tokens.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tsugite::client::Fetcher;

use crate::error::Result;
use crate::flow::{Browser, RedirectTarget, UserAgent};
use crate::grants::{Assertion, EnterpriseIdp, Grant};
use crate::registration::ClientCredentials;
use crate::server_login::ServerLogin;
use crate::settings::Settings;
use crate::store::{MemoryStore, Store};

/// How a client gets its tokens. It is an [`Authorizer`](tsugite::client::Authorizer): pass it to
/// [`ClientBuilder::login`](tsugite::client::ClientBuilder::login). Clones share their tokens, so one login can serve many
/// clients.
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use tsugite::client::Client;
/// use tsugite_auth::{FileStore, Login, Prompt};
///
/// let login = Login::browser("my app").store(FileStore::in_home()?).scopes(["files:read"]);
/// let client = Client::builder("https://example.com/mcp").login(login).connect().await?;
/// // On a machine without a browser: prints the address, and reads the pasted answer.
/// let headless = Login::with_agent("my app", Prompt::terminal());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Login {
    pub(crate) settings: Arc<Settings>,
    pub(crate) servers: Arc<Mutex<HashMap<String, Arc<ServerLogin>>>>,
}

impl Login {
    /// Lets a person log in with the browser of this machine. The name is shown to the user when the client is registered.
    pub fn browser(client_name: impl Into<String>) -> Self {
        Self::with_agent(client_name, Browser::system())
    }

    /// Lets a person log in another way: with a [`Prompt`](crate::Prompt), or a [`UserAgent`] of the application.
    pub fn with_agent(client_name: impl Into<String>, agent: impl UserAgent) -> Self {
        Self::new(client_name.into(), Grant::AuthorizationCode(Box::new(agent)), None)
    }

    /// Acts for the application itself, with credentials that were registered beforehand.
    pub fn client_credentials(client: ClientCredentials) -> Self {
        Self::new(client.client_id.clone(), Grant::ClientCredentials, Some(client))
    }

    /// Acts for a user whom the identity provider of a company has logged in. `client` is this application as the
    /// authorization server of the protected server knows it.
    pub fn enterprise(client: ClientCredentials, idp: EnterpriseIdp) -> Self {
        Self::new(client.client_id.clone(), Grant::Enterprise(idp), Some(client))
    }

    /// Acts for a workload whose platform issues signed tokens. A rejected token is reported, and nothing else is tried.
    pub fn workload(client: ClientCredentials, token: Assertion) -> Self {
        Self::new(client.client_id.clone(), Grant::Workload(token), Some(client))
    }

    fn new(client_name: String, grant: Grant, client: Option<ClientCredentials>) -> Self {
        let settings = Settings {
            client_name,
            grant: Arc::new(grant),
            client,
            client_metadata_url: None,
            redirect: None,
            scopes: None,
            offline_access: true,
            dpop: false,
            require_pkce_metadata: false,
            allow_private: false,
            ask_user: true,
            login_timeout: Duration::from_secs(300),
            store: Arc::new(MemoryStore::new()),
            fetcher: None,
        };
        Self { settings: Arc::new(settings), servers: Arc::default() }
    }

    /// Changes the settings. Clones made before keep theirs.
    fn change(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self.servers = Arc::default();
        self
    }

    /// Uses a client that was registered beforehand.
    pub fn client(self, client: ClientCredentials) -> Self {
        self.change(|settings| settings.client = Some(client))
    }

    /// Uses the URL of a client ID metadata document as the client id, at authorization servers that support it.
    ///
    /// The document lists `http://127.0.0.1/callback` among its `redirect_uris`, or the one of
    /// [`redirect_uri`](Self::redirect_uri). Fails if the URL is not https or has no path.
    pub fn client_metadata_url(self, url: impl Into<String>) -> Result<Self> {
        let url = url.into();
        crate::registration::check_metadata_url(&url)?;
        Ok(self.change(|settings| settings.client_metadata_url = Some(url)))
    }

    /// Sets the redirect URI: `http` with the host `127.0.0.1`, `[::1]` or `localhost`, and a port. Without it, the login
    /// listens on a free port of `127.0.0.1`.
    pub fn redirect_uri(self, uri: impl Into<String>) -> Self {
        let uri = uri.into();
        self.change(|settings| settings.redirect = Some(RedirectTarget::Fixed(uri)))
    }

    /// Sets the scopes to ask for, instead of those that the server names.
    pub fn scopes<S: Into<String>>(self, scopes: impl IntoIterator<Item = S>) -> Self {
        let scopes = scopes.into_iter().map(Into::into).collect();
        self.change(|settings| settings.scopes = Some(scopes))
    }

    /// Sets whether to ask for `offline_access`, and so for a refresh token, where it is offered; true by default.
    pub fn offline_access(self, wanted: bool) -> Self {
        self.change(|settings| settings.offline_access = wanted)
    }

    /// Binds tokens to a key (DPoP), also where the server does not require it.
    #[doc(alias("DPoP", "proof_of_possession"))]
    pub fn dpop(self) -> Self {
        self.change(|settings| settings.dpop = true)
    }

    /// Refuses an authorization server whose metadata does not list the methods of PKCE
    /// (`code_challenge_methods_supported`), as the specification demands since 2025-11-25. Without this setting such a login
    /// goes on, with PKCE: large providers support it and do not say so. Metadata that lists other methods than S256 only is
    /// refused in any case.
    pub fn require_pkce_metadata(self) -> Self {
        self.change(|settings| settings.require_pkce_metadata = true)
    }

    /// Allows URLs that a server names to be on private addresses and on this machine, wherever the server is. Link-local
    /// addresses and those of metadata services stay refused.
    pub fn allow_private_addresses(self) -> Self {
        self.change(|settings| settings.allow_private = true)
    }

    /// Sets whether a person may be asked to log in; true by default. With false, stored tokens are used and refreshed, and
    /// a call that needs a login fails with [`ErrorKind::Unauthorized`](tsugite::client::ErrorKind::Unauthorized).
    pub fn ask_user(self, allowed: bool) -> Self {
        self.change(|settings| settings.ask_user = allowed)
    }

    /// Sets how long a person may take to log in; 5 minutes by default.
    pub fn login_timeout(self, limit: Duration) -> Self {
        self.change(|settings| settings.login_timeout = limit)
    }

    /// Sets where registrations and tokens are kept; in memory by default.
    pub fn store(self, store: impl Store) -> Self {
        self.change(|settings| settings.store = Arc::new(store))
    }

    /// Sets the HTTP client for requests to authorization servers, instead of one with the proxy and the certificates of
    /// the client that logs in.
    pub fn fetcher(self, fetcher: Fetcher) -> Self {
        self.change(|settings| settings.fetcher = Some(fetcher))
    }

    /// Logs in to a server now, also where a token is stored, for example as another user. Fails if the server cannot be
    /// reached or its authorization server refuses.
    pub async fn log_in(&self, server: &str) -> Result<()> {
        self.server(server).log_in().await
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("client_name", &self.settings.client_name).finish_non_exhaustive()
    }
}
