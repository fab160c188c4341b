//! `--issuer URL`: a served server whose clients get their tokens from an outside issuer.

use clap::Args;
use tsugite::Server;
use tsugite::transport::http::{Http, ProtectedResource};
use tsugite_auth::resource::Jwt;

use crate::error::{CliError, Result};

/// The options for clients that log in at an outside issuer.
#[derive(Debug, Default, Args)]
pub(crate) struct IssuerOptions {
    /// Serve only clients with an access token that this issuer has signed for the server
    #[arg(long, value_name = "URL", conflicts_with_all = ["token", "no_auth"])]
    issuer: Option<String>,
    /// Also accept tokens for this audience; those for the address of the server always are
    #[arg(long = "audience", value_name = "AUDIENCE", requires = "issuer")]
    audiences: Vec<String>,
    /// Refuse tokens without this scope
    #[arg(long = "required-scope", value_name = "SCOPE", requires = "issuer")]
    required_scopes: Vec<String>,
    /// The URL under which clients reach the server, which their tokens are for
    #[arg(long, value_name = "URL", requires = "issuer")]
    public_url: Option<String>,
}

impl IssuerOptions {
    /// The issuer, if there is one.
    pub(crate) fn issuer(&self) -> Option<&str> {
        self.issuer.as_deref()
    }

    /// Fails if tokens cannot name the server that other machines reach at this address.
    pub(crate) fn check_address(&self, listen: &str, is_public: bool) -> Result<()> {
        match is_public && self.issuer.is_some() && self.public_url.is_none() {
            false => Ok(()),
            true => {
                Err(CliError::usage(format!("the server at {listen} has no URL that tokens could be for"))
                    .at_step("listen")
                    .hint("--public-url URL sets the URL under which clients reach the server"))
            }
        }
    }

    /// Adds the URL of the server.
    pub(crate) fn settings(&self, http: Http) -> Http {
        self.public_url.iter().fold(http, Http::public_url)
    }

    /// Lets clients with a token of the issuer in, and no others.
    pub(crate) fn authorize(&self, server: Server) -> Server {
        let Some(issuer) = &self.issuer else { return server };
        let scopes = ProtectedResource::new().scopes_required(&self.required_scopes);
        let verifier = self.audiences.iter().fold(Jwt::issuer(issuer).describe(scopes), Jwt::audience);
        server.authorize(verifier)
    }
}
