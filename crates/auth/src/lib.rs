//! OAuth 2.1 for the Model Context Protocol: gets clients into protected servers, and verifies their tokens there.
//!
//! ```no_run
//! # async fn f() -> tsugite::client::Result<()> {
//! use tsugite::client::Client;
//! use tsugite_auth::Login;
//!
//! let client = Client::builder("https://example.com/mcp").login(Login::browser("my app")).connect().await?;
//! # Ok(()) }
//! ```
//!
//! [`Login`] is an [`Authorizer`](tsugite::client::Authorizer). When a server answers with 401, it finds the authorization
//! server, registers the client if necessary, opens the browser, and repeats the request with the token it got. Later it
//! refreshes the token. Without a person, [`Login::client_credentials`], [`Login::enterprise`] and [`Login::workload`] get a
//! token.
//!
//! At a server, the verifiers of [`resource`] decide whose token it is:
//! `Server::new("notes", "1.0.0").authorize(Jwt::issuer("https://idp.example"))`.
//!
//! Every URL that a server names passes a guard: no request goes to a private address unless the server is at one itself.
//! Tokens are in no log, no error and no `Debug` output; [`FileStore`] keeps them for the next process.

// - `login`, `settings`: the settings. `authorizer`: the calls of the client. `server_login`: the state of one server, and
//   what happens on a challenge. `attempt`: one attempt to get a token. `logout`: its end.
// - `discovery`, `registration`, `flow`, `grants`, `token_endpoint`, `scopes`: the steps of an attempt.
// - `resource`: the verifiers of a server.
// - `net`: URLs, the guard, and requests. `jose`, `dpop`: signatures. `store`, `secret`: what is kept.

#[cfg(feature = "client")]
mod attempt;
#[cfg(feature = "authorization-server")]
pub mod authorization_server;
#[cfg(feature = "client")]
mod authorizer;
#[cfg(feature = "client")]
mod discovery;
#[cfg(feature = "client")]
mod dpop;
#[cfg(feature = "client")]
mod error;
#[cfg(feature = "client")]
mod flow;
#[cfg(feature = "client")]
mod grants;
#[cfg(feature = "client")]
mod jose;
#[cfg(feature = "client")]
mod login;
#[cfg(feature = "client")]
mod logout;
#[cfg(feature = "client")]
mod net;
#[cfg(feature = "client")]
mod private;
#[cfg(feature = "client")]
mod private_file;
#[cfg(feature = "client")]
mod purge_timer;
#[cfg(feature = "client")]
mod registration;
#[cfg(feature = "client")]
pub mod resource;
#[cfg(feature = "client")]
mod scopes;
#[cfg(feature = "client")]
mod secret;
#[cfg(feature = "client")]
mod server_login;
#[cfg(feature = "client")]
mod settings;
#[cfg(feature = "client")]
pub mod store;
#[cfg(feature = "client")]
mod token_endpoint;

#[cfg(feature = "client")]
pub use error::{AuthError, AuthErrorKind, Result};
#[cfg(feature = "client")]
pub use flow::{Browser, ClientQuestion, LoginPage, Prompt, UserAgent, UserAgentFuture};
#[cfg(feature = "client")]
pub use grants::{Assertion, EnterpriseIdp};
#[cfg(feature = "client")]
pub use jose::{Algorithm, Jwk, SigningKey, VerifyError};
#[cfg(feature = "client")]
pub use login::Login;
#[cfg(feature = "client")]
pub use logout::Logout;
#[cfg(feature = "client")]
pub use net::AddressClass;
#[cfg(feature = "client")]
pub use registration::ClientCredentials;
#[cfg(feature = "client")]
pub use secret::Secret;
#[cfg(feature = "keyring")]
pub use store::KeyringStore;
#[cfg(feature = "client")]
pub use store::{FileStore, MemoryStore, Store};
