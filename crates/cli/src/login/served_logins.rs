//! [`ServedLogins`]: whether servers that need a login may be served to clients, and to which.

use super::LoginServer;
use crate::error::{CliError, Result};
use crate::options::{CommonOptions, LoginMode};
use crate::targets::Target;

/// The logins behind a bridge. A bridge that is logged in acts for one person, so its clients need a token of that person.
pub(crate) struct ServedLogins {
    servers: Vec<LoginServer>,
    /// The name of the first server that requests act for the user at.
    pub(crate) personal: Option<String>,
}

impl ServedLogins {
    /// Finds the logins of targets, each with its word.
    pub(crate) async fn find<'a>(
        targets: impl Iterator<Item = (&'a Target, &'a str)>,
        common: &CommonOptions,
    ) -> Result<Self> {
        let mut found = Self { servers: Vec::new(), personal: None };
        for (target, word) in targets {
            let Some(server) = LoginServer::from_target(target, word, common)? else { continue };
            if found.personal.is_none() && server.is_personal(&common.login).await? {
                found.personal = Some(word.to_owned());
            }
            found.servers.push(server);
        }
        Ok(found)
    }

    /// Whether there is a server that may require a login.
    pub(crate) fn is_possible(&self) -> bool {
        !self.servers.is_empty()
    }

    /// Names the servers, for the token that their clients need.
    pub(crate) fn names(&self) -> String {
        let urls: Vec<&str> = self.servers.iter().map(|server| server.url.as_str()).collect();
        urls.join(" ")
    }

    /// The mode of the clients. `is_protected` says whether only the user can connect to the bridge.
    pub(crate) fn mode(&self, is_protected: bool) -> LoginMode {
        match is_protected || self.personal.is_some() {
            true => LoginMode::Bridge,
            false => LoginMode::Off,
        }
    }

    /// Fails if every client would be served as the user.
    pub(crate) fn check(&self, no_auth: bool) -> Result<()> {
        match &self.personal {
            Some(word) if no_auth => Err(CliError::usage(format!(
                "--no-auth would let every client act as you: you are logged in to {word}"
            ))
            .at_step("login")
            .hint("leave out --no-auth: clients then need a token of yours")
            .hint("`tsugite logout` forgets the login")),
            _ => Ok(()),
        }
    }

    /// Refuses to lend a login of the user to the users of an issuer.
    pub(crate) fn check_issuer(&self, issuer: Option<&str>) -> Result<()> {
        match (&self.personal, issuer) {
            (Some(word), Some(issuer)) => Err(CliError::usage(format!(
                "--issuer would let every user of {issuer} act as you: you are logged in to {word}"
            ))
            .at_step("login")
            .hint("`tsugite logout` forgets the login")),
            _ => Ok(()),
        }
    }
}
