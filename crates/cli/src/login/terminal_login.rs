//! [`TerminalLogin`]: a login that says how to log in where it may not ask.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tsugite::client::{
    Authorizer, AuthorizerFuture, Challenge, ChallengeKind, Credentials, ErrorKind, Fetcher, Identity,
    RequestInfo, ResponseInfo,
};
use tsugite_auth::{FileStore, Login, Store};

use crate::console::Console;
use crate::options::LoginMode;

/// The login of a client of this program.
pub(crate) struct TerminalLogin {
    pub(super) login: Login,
    /// The store that other processes may log in with; `None` if tokens are in memory.
    pub(super) store: Option<FileStore>,
    pub(super) may_ask: bool,
    pub(super) mode: LoginMode,
    /// The command that logs in.
    pub(super) command: String,
    /// Whether the user has been told how to log in.
    pub(super) noted: AtomicBool,
}

impl TerminalLogin {
    /// Whether a token for the server is stored.
    async fn has_token(&self, server: &str) -> bool {
        match &self.store {
            Some(store) => store.read().await.is_ok_and(|vault| vault.token(server).is_some()),
            None => false,
        }
    }

    /// The result of a challenge that no token was found for. A verb reports the challenge itself.
    fn refuse(&self) -> tsugite::client::Result<bool> {
        match self.mode {
            LoginMode::Ask | LoginMode::StoredOnly => Ok(false),
            LoginMode::Bridge => {
                let message = format!("the server requires a login; run `{}`, then try again", self.command);
                Err(ErrorKind::Authorization(message).into())
            }
            LoginMode::Off => {
                if !self.noted.swap(true, Ordering::Relaxed) {
                    let note = "the server requires a login; run";
                    Console::new(false).note(&format!("{note} `{}`, then start this again", self.command));
                }
                // Clients that need no token of their own do not learn the address of the server.
                let message = "the server requires a login, and this bridge has none";
                Err(ErrorKind::Authorization(message.to_owned()).into())
            }
        }
    }
}

impl Authorizer for TerminalLogin {
    fn attach(&self, server: &str, fetcher: &Fetcher) {
        self.login.attach(server, fetcher);
    }

    fn authorize<'a>(&'a self, request: RequestInfo<'a>) -> AuthorizerFuture<'a, Credentials> {
        self.login.authorize(request)
    }

    fn observe(&self, request: RequestInfo<'_>, response: ResponseInfo<'_>) {
        self.login.observe(request, response);
    }

    fn handle_challenge<'a>(
        &'a self,
        request: RequestInfo<'a>,
        rejected: &'a Credentials,
        challenge: &'a Challenge,
    ) -> AuthorizerFuture<'a, bool> {
        Box::pin(async move {
            if self.may_ask || challenge.kind == ChallengeKind::DpopNonce {
                return self.login.handle_challenge(request, rejected, challenge).await;
            }
            // Another process may have logged in. Without a token, there is no need to find the authorization server.
            if !self.has_token(request.server).await {
                return self.refuse();
            }
            match self.login.handle_challenge(request, rejected, challenge).await {
                Ok(true) => Ok(true),
                Ok(false) => self.refuse(),
                Err(error) => {
                    tracing::debug!(%error, "cannot renew the token");
                    self.refuse()
                }
            }
        })
    }

    fn identity(&self, server: &str) -> Option<Identity> {
        self.login.identity(server)
    }

    fn extensions(&self, server: &str) -> Vec<(String, Value)> {
        self.login.extensions(server)
    }
}
