//! Logs in where a server requires it: the settings of the command line and of configuration entries, the user at the
//! terminal (`terminal_agent`), the answer to a challenge (`terminal_login`), and the clients that a login is served to
//! (`served_logins`).

mod served_logins;
mod terminal_agent;
mod terminal_login;

use std::fs;
use std::io::Read;
use std::path::Path;

use tsugite::client::servers::{ConnectionConfig, OAuthConfig};
use tsugite_auth::store::{StoredToken, Vault};
use tsugite_auth::{AuthError, AuthErrorKind, ClientCredentials, FileStore, Login, MemoryStore, Store};

use crate::console::Console;
use crate::error::{CliError, ExitStatus, Result};
use crate::headers;
use crate::options::{CommonOptions, LoginMode, LoginOptions};
use crate::targets::Target;
use crate::trust::shell_word;
pub(crate) use served_logins::ServedLogins;
use terminal_agent::TerminalAgent;
pub(crate) use terminal_login::TerminalLogin;

/// A server that a login is possible at.
pub(crate) struct LoginServer {
    pub(crate) url: String,
    oauth: Option<OAuthConfig>,
    /// The target that names the server, quoted for a shell.
    word: String,
}

impl LoginServer {
    /// Returns the server of a target; `None` if it has no http URL, or gets an `Authorization` header anyway.
    pub(crate) fn from_target(target: &Target, word: &str, common: &CommonOptions) -> Result<Option<Self>> {
        let (url, headers, oauth) = match target {
            Target::Url(url) => (url, [].as_slice(), None),
            Target::Configured(ConnectionConfig::Url { url, headers, oauth, .. }) => {
                (url, headers.as_slice(), oauth.clone())
            }
            _ => return Ok(None),
        };
        let given = headers::from_options(common)?;
        let has_own =
            headers.iter().chain(&given).any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let is_http = !url.starts_with("unix:");
        Ok((is_http && !has_own).then(|| Self { url: url.clone(), oauth, word: shell_word(word) }))
    }

    /// The command that logs in to the server.
    pub(crate) fn command(&self) -> String {
        format!("tsugite login {}", self.word)
    }

    /// Whether requests to the server act for the user: a token is stored, or an id of a client is set.
    pub(crate) async fn is_personal(&self, options: &LoginOptions) -> Result<bool> {
        let has_client = self.oauth.as_ref().is_some_and(|oauth| oauth.client_id.is_some());
        let Ok(store) = FileStore::in_home() else { return Ok(false) };
        let vault = store.read().await.map_err(login_error)?;
        Ok(has_client || options.client_id.is_some() || vault.token(&self.url).is_some())
    }

    /// Returns the login of a client. Without a home folder, tokens are kept in memory.
    pub(crate) async fn authorizer(&self, options: &LoginOptions) -> Result<TerminalLogin> {
        let store = match options.mode {
            LoginMode::Off => None,
            _ => FileStore::in_home().ok(),
        };
        let may_ask = match options.mode {
            LoginMode::Ask | LoginMode::Bridge => Console::new(false).is_interactive(),
            LoginMode::StoredOnly | LoginMode::Off => false,
        };
        let login = self.login(options, store.clone()).await?.ask_user(may_ask);
        let mode = options.mode;
        Ok(TerminalLogin { login, store, may_ask, mode, command: self.command(), noted: Default::default() })
    }

    /// Returns the login with all settings.
    pub(crate) async fn login(&self, options: &LoginOptions, store: Option<FileStore>) -> Result<Login> {
        let agent = TerminalAgent::new(options.no_browser);
        let mut login = Login::with_agent("Tsugite", agent);
        let vault = match &store {
            Some(store) => store.read().await.map_err(login_error)?,
            None => Vault::default(),
        };
        login = match store {
            Some(store) => login.store(store),
            None => login.store(MemoryStore::new()),
        };
        if let Some(client) = self.client(options, &vault)? {
            login = login.client(client);
        }
        let given: Vec<&str> = options.scopes.iter().flat_map(|scope| scope.split_whitespace()).collect();
        let configured = self.oauth.as_ref().and_then(|oauth| oauth.scopes.as_deref());
        login = match (given.is_empty(), configured) {
            (false, _) => login.scopes(given),
            (true, Some(scopes)) => login.scopes(scopes),
            (true, None) => login,
        };
        Ok(match self.oauth.as_ref().and_then(|oauth| oauth.callback_port) {
            Some(port) => login.redirect_uri(format!("http://localhost:{port}/callback")),
            None => login,
        })
    }

    /// The client of the options, of the configuration entry, or of an earlier login with `--client-id`.
    fn client(&self, options: &LoginOptions, vault: &Vault) -> Result<Option<ClientCredentials>> {
        if let Some(id) = &options.client_id {
            return Ok(Some(match &options.client_secret_file {
                Some(file) => ClientCredentials::secret(id, read_secret(file)?),
                None => ClientCredentials::public(id),
            }));
        }
        if let Some(OAuthConfig { client_id: Some(id), client_secret, .. }) = &self.oauth {
            return Ok(Some(match client_secret {
                Some(secret) => ClientCredentials::secret(id, secret.as_str()),
                None => ClientCredentials::public(id),
            }));
        }
        Ok(vault
            .token(&self.url)
            .filter(|token| is_own_client(token, vault))
            .map(|token| ClientCredentials::public(token.client_id.as_str()).issuer(token.issuer.as_str())))
    }
}

/// Whether a token was issued to a public client that was not registered dynamically: its id is needed to refresh it.
fn is_own_client(token: &StoredToken, vault: &Vault) -> bool {
    let registered = vault.registrations.get(&token.issuer);
    token.auth_method == "none" && registered.is_none_or(|known| known.client_id != token.client_id)
}

/// Converts an error of a login.
pub(crate) fn login_error(error: AuthError) -> CliError {
    let failure = match error.kind() {
        AuthErrorKind::Config => CliError::usage("cannot log in"),
        AuthErrorKind::Store => CliError::usage("cannot use the stored logins"),
        _ => CliError::new(ExitStatus::Unauthorized, "cannot log in"),
    };
    let failure = failure.at_step("login").detail(error.to_string());
    match error.kind() {
        AuthErrorKind::Registration => {
            failure.hint("--client-id ID logs in with a client that was registered there beforehand")
        }
        AuthErrorKind::Login => failure.hint("--no-browser prints the address, and reads the pasted answer"),
        AuthErrorKind::Discovery | AuthErrorKind::Fetch => {
            failure.hint("if the server takes a token of another kind, --bearer-env NAME sends it")
        }
        _ => failure,
    }
}

/// Reads the secret of `--client-secret-file`: one line.
fn read_secret(file: &Path) -> Result<String> {
    let wrong = |reason: String| {
        CliError::usage(format!("--client-secret-file: cannot read {}", file.display())).detail(reason)
    };
    let mut text = String::new();
    let opened = fs::File::open(file).map_err(|error| wrong(error.to_string()))?;
    opened.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    let secret = text.trim();
    let is_valid = !secret.is_empty()
        && text.len() as u64 <= MAX_SECRET_BYTES
        && !secret.contains(|letter: char| letter.is_control());
    match is_valid {
        true => Ok(secret.to_owned()),
        false => Err(wrong(format!("it must be one line of at most {MAX_SECRET_BYTES} bytes"))),
    }
}

const MAX_SECRET_BYTES: u64 = 64 * 1024;
