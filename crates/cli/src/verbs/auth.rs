//! `tsugite auth`: the stored logins.

use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tsugite_auth::store::StoredToken;
use tsugite_auth::{FileStore, Store};

use crate::console::{Console, Style};
use crate::error::Result;
use crate::login::login_error;
use crate::url_hints;

/// Show the servers that you are logged in to
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "Examples:\n  tsugite auth list\n  tsugite auth list --json"
)]
pub(crate) struct Auth {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
}

/// List the servers, their authorization servers and scopes; never a token
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tsugite auth list\n  tsugite auth list --json")]
struct List {
    /// Print the list and errors as JSON
    #[arg(long)]
    json: bool,
}

impl Auth {
    pub(crate) async fn run(self) -> Result<()> {
        let Action::List(List { json }) = self.action;
        let console = Console::new(json);
        let store = FileStore::in_home().map_err(login_error)?;
        let tokens = store.read().await.map_err(login_error)?.tokens;
        if json {
            let logins: Vec<Value> = tokens.iter().map(token_json).collect();
            return console.print_json(&json!({ "logins": logins }));
        }
        if tokens.is_empty() {
            console.note("you are not logged in to any server");
        }
        for token in &tokens {
            for server in &token.servers {
                let server = console.sanitized_name(&url_hints::redacted(server));
                console.print_line(&console.paint(Style::Green, &server))?;
            }
            console.print_line(&format!("  at      {}", console.sanitized_name(&token.issuer)))?;
            if !token.scopes().is_empty() {
                let scopes = console.sanitized_name(&token.scopes().join(" "));
                console.print_line(&format!("  scopes  {scopes}"))?;
            }
            console.print_line(&format!("  token   {}", validity(token)))?;
        }
        Ok(())
    }

    pub(crate) fn wants_json(&self) -> bool {
        let Action::List(List { json }) = &self.action;
        *json
    }
}

/// A login without its secrets.
pub(super) fn token_json(token: &StoredToken) -> Value {
    let servers: Vec<String> = token.servers.iter().map(|server| url_hints::redacted(server)).collect();
    json!({
        "servers": servers,
        "issuer": token.issuer,
        "resource": token.resource,
        "clientId": token.client_id,
        "scopes": token.scopes(),
        "expiresAt": token.expires_at,
        "refreshable": token.refresh_token.is_some(),
    })
}

/// How long the token is valid.
fn validity(token: &StoredToken) -> String {
    let refreshed = if token.refresh_token.is_some() { ", then refreshed" } else { "" };
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or(Duration::ZERO).as_secs();
    match token.expires_at.map(|at| at.saturating_sub(now)) {
        None => format!("valid until the server rejects it{refreshed}"),
        Some(0) if token.refresh_token.is_some() => "expired, refreshed at the next request".to_owned(),
        Some(0) => "expired".to_owned(),
        Some(seconds @ 1..120) => format!("valid for {seconds} s{refreshed}"),
        Some(seconds @ 120..7200) => format!("valid for {} minutes{refreshed}", seconds / 60),
        Some(seconds) => format!("valid for {} hours{refreshed}", seconds / 3600),
    }
}
