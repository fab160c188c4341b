//! `tsugite login`: logs in to a server before any call, or as another user.

use clap::Args;
use serde_json::{Value, json};
use tsugite::client::{Authorizer, Fetcher};
use tsugite_auth::{FileStore, Logout as LogoutOutcome, Store};

use super::expect_no_more;
use crate::console::{Console, sanitize};
use crate::error::{CliError, Result};
use crate::login::{LoginServer, login_error};
use crate::options::CommonOptions;
use crate::targets;

/// Log in to a server, and keep the token for later commands
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite login [OPTIONS] TARGET",
    after_help = "The browser opens, you log in, and the token is kept in ~/.local/state/tsugite/credentials.json, which only you can read.\nOther verbs log in by themselves when a server requires it and they run on a terminal.\n\nExamples:\n  tsugite login https://example.com/mcp\n  tsugite login https://example.com/mcp --no-browser\n  tsugite login cursor:github --scope repo --scope read:org"
)]
pub(crate) struct Login {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

/// Log out of a server: revoke its token and forget it
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite logout [OPTIONS] TARGET",
    after_help = "Examples:\n  tsugite logout https://example.com/mcp\n  tsugite logout cursor:github"
)]
pub(crate) struct Logout {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl Login {
    pub(crate) async fn run(self) -> Result<()> {
        let (server, name) = server(self.words, &self.common, "login").await?;
        let store = FileStore::in_home().map_err(login_error)?;
        let login = server.login(&self.common.login, Some(store.clone())).await?;
        login.attach(&server.url, &fetcher(&self.common));
        login.log_in(&server.url).await.map_err(login_error)?;
        let vault = store.read().await.map_err(login_error)?;
        let console = Console::new(self.common.json);
        match (vault.token(&server.url), self.common.json) {
            (Some(token), true) => console.print_json(&super::auth::token_json(token)),
            (Some(token), false) => {
                let issuer = console.sanitized_name(&token.issuer);
                console.print_line(&format!("logged in to {name} at {issuer}"))
            }
            (None, _) => Err(CliError::usage("the token was removed in the meantime").at_step("login")),
        }
    }
}

impl Logout {
    pub(crate) async fn run(self) -> Result<()> {
        let (server, name) = server(self.words, &self.common, "logout").await?;
        let store = FileStore::in_home().map_err(login_error)?;
        let login = server.login(&self.common.login, Some(store)).await?;
        login.attach(&server.url, &fetcher(&self.common));
        let outcome = login.logout(&server.url).await.map_err(login_error)?;
        let console = Console::new(self.common.json);
        if self.common.json {
            return console.print_json(&logout_json(&outcome));
        }
        match outcome {
            LogoutOutcome::NoToken => console.print_line(&format!("you were not logged in to {name}")),
            LogoutOutcome::Revoked => {
                console.print_line(&format!("logged out of {name}; the token was revoked"))
            }
            LogoutOutcome::Unsupported => {
                console.note("the authorization server revokes no tokens: yours is deleted here, and ends when it expires");
                console.print_line(&format!("logged out of {name}"))
            }
            LogoutOutcome::Failed(error) => {
                let reason = sanitize(&error.to_string());
                console.note(&format!("the token is deleted here, but could not be revoked: {reason}"));
                console.print_line(&format!("logged out of {name}"))
            }
        }
    }
}

fn logout_json(outcome: &LogoutOutcome) -> Value {
    let reason = match outcome {
        LogoutOutcome::NoToken => return json!({ "loggedOut": false }),
        LogoutOutcome::Revoked => return json!({ "loggedOut": true, "revoked": true }),
        LogoutOutcome::Unsupported => "the authorization server revokes no tokens".to_owned(),
        LogoutOutcome::Failed(error) => error.to_string(),
    };
    json!({ "loggedOut": true, "revoked": false, "reason": reason })
}

/// The HTTP client for requests to authorization servers.
fn fetcher(common: &CommonOptions) -> Fetcher {
    let fetcher = Fetcher::new().proxy_from_env();
    common.timeout.map_or(fetcher.clone(), |limit| fetcher.connect_timeout(limit))
}

/// Resolves the target to a server with a URL, and its name for messages.
async fn server(words: Vec<String>, common: &CommonOptions, verb: &str) -> Result<(LoginServer, String)> {
    let (found, rest) = targets::resolve(words, common, verb).await?;
    expect_no_more(&rest)?;
    match LoginServer::from_target(&found.target, &found.word, common)? {
        Some(server) => Ok((server, found.display_name)),
        None => Err(CliError::usage(format!("`{verb}` does not apply to {}", found.display_name))
            .at_step("login")
            .detail(
                "a login needs a server with an http URL, and without an `Authorization` header of your own",
            )),
    }
}
