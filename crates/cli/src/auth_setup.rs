//! `serve --auth FILE`: the authorization server beside a served server.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use tsugite::Server;
use tsugite::transport::http::Http;
use tsugite_auth::AuthError;
use tsugite_auth::authorization_server::{AuthFile, AuthorizationServer};

use crate::console::Console;
use crate::error::{CliError, Result};
use crate::state::State;

/// The settings of `--auth`, before the address is known.
pub(crate) struct AuthSetup {
    file: AuthFile,
    path: PathBuf,
    state: State,
}

/// Where the server is served.
pub(crate) struct ServedAt<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) is_public: bool,
    pub(crate) scheme: &'a str,
    pub(crate) path: &'a str,
}

/// An authorization server for one address.
pub(crate) struct ServedAuth {
    server: AuthorizationServer,
    /// The URL of the protected server, if it does not follow from the address.
    public_url: Option<String>,
}

impl AuthSetup {
    pub(crate) fn read(path: &Path, state: State) -> Result<Self> {
        let file = AuthFile::read(path).map_err(|error| {
            let name = path.display();
            auth_error(&error).hint(format!("`tsugite users add {name} NAME` creates the file with a user"))
        })?;
        Ok(Self { file, path: path.to_owned(), state })
    }

    /// Makes the authorization server. An address that other machines can reach needs an issuer with https.
    pub(crate) fn serve_at(&self, place: &ServedAt<'_>) -> Result<ServedAuth> {
        let has_secure_issuer = self.file.issuer().is_some_and(|issuer| issuer.starts_with("https://"));
        if place.is_public && !has_secure_issuer {
            return Err(CliError::usage("passwords and tokens must not cross a network without https")
                .at_step("auth")
                .detail(format!("the server at {} can be reached by other machines", place.address))
                .hint(format!(
                    "set \"issuer\" in {} to the https URL under which clients reach the server: that of --tls-cert, or of \
                     a proxy in front",
                    self.path.display()
                )));
        }
        let origin = format!("{}://{}", place.scheme, place.address);
        let mut builder = self.file.builder(&origin).map_err(|error| auth_error(&error))?;
        let public_url = match (self.file.resource(), self.file.issuer()) {
            (Some(resource), _) => Some(resource.to_owned()),
            (None, Some(issuer)) => Some(format!("{}{}", origin_of(issuer), place.path)),
            (None, None) => None,
        };
        match &public_url {
            Some(url) => builder = builder.resource(url),
            None => {
                // All names of this machine, as clients may use any of them.
                let (scheme, port, path) = (place.scheme, place.address.port(), place.path);
                builder = builder.resource(format!("{origin}{path}"));
                for host in ["127.0.0.1", "localhost", "[::1]"] {
                    builder = builder.resource(format!("{scheme}://{host}:{port}{path}"));
                }
            }
        }
        if let Some(store) = &self.state.store {
            builder = builder.store(std::sync::Arc::clone(store));
        }
        if let Some(keys) = &self.state.keys {
            builder = builder.seal_keys(keys.clone());
        }
        let server = builder.build().map_err(|error| auth_error(&error))?;
        Ok(ServedAuth { server, public_url })
    }

    /// Says what a person has to know before clients come.
    pub(crate) fn note(&self, console: &Console) {
        if self.file.is_without_people() {
            let name = self.path.display();
            console.note(&format!("no user can log in yet; `tsugite users add {name} NAME` adds one"));
        }
        if !self.file.follows_new_users() {
            let name = self.path.display();
            console.note(&format!(
                "users log in at the provider; if you add users to {name}, start the server again"
            ));
        }
        if self.state.store.is_none() {
            console.note("logins are kept in memory and end with this process; --state FILE keeps them");
        }
    }
}

impl ServedAuth {
    /// Protects a server, and serves the authorization server beside it.
    pub(crate) fn apply(&self, server: Server, http: Http) -> (Server, Http) {
        let http = self.public_url.iter().fold(http, Http::public_url);
        (server.authorize(self.server.verifier()), self.server.beside(http))
    }

    pub(crate) fn issuer(&self) -> &str {
        self.server.issuer()
    }
}

/// Replaces port 0 by a free port: the issuer contains the port.
pub(crate) fn choose_port(addresses: &mut [SocketAddr]) -> Result<()> {
    let Some(first) = addresses.iter().find(|address| address.port() == 0) else { return Ok(()) };
    let port = TcpListener::bind(first).and_then(|listener| listener.local_addr()).map_err(|error| {
        CliError::usage(format!("there is no free port at {}", first.ip())).detail(error.to_string())
    })?;
    for address in addresses.iter_mut().filter(|address| address.port() == 0) {
        address.set_port(port.port());
    }
    Ok(())
}

/// The scheme and authority of a URL.
fn origin_of(url: &str) -> &str {
    let authority = url.find("://").map_or(0, |at| at + "://".len());
    let rest = url.get(authority..).unwrap_or_default();
    url.get(..authority + rest.find('/').unwrap_or(rest.len())).unwrap_or(url)
}

fn auth_error(error: &AuthError) -> CliError {
    CliError::usage("cannot use the settings of --auth").at_step("auth").detail(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_what_comes_before_the_path() {
        assert_eq!(origin_of("https://h.example/auth/x"), "https://h.example");
        assert_eq!(origin_of("https://h.example"), "https://h.example");
    }
}
