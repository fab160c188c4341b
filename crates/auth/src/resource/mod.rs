//! Verifiers for protected servers: whose token it is, and whether it was issued for this server.
//!
//! ```
//! use tsugite::Server;
//! use tsugite_auth::resource::Jwt;
//!
//! let server = Server::new("notes", "1.0.0").authorize(Jwt::issuer("https://idp.example"));
//! # let _ = server;
//! ```
//!
//! - [`Jwt`] verifies signed tokens with the keys of their issuer, without a request for each token.
//! - [`Introspection`] asks the authorization server about tokens that only it can read (RFC 7662).
//! - [`ApiKeys`] knows its tokens in advance.
//! - [`AnyOf`] combines verifiers.
//! - [`Dpop`] adds proofs that the sender of a token holds its key (RFC 9449).
//!
//! A verifier accepts a token only if this server is an audience of it. Its address is
//! [`Http::public_url`](tsugite::transport::http::Http::public_url), or that of a listener on the loopback interface; a
//! server behind a proxy must set it, or further audiences.

mod any_of;
mod api_keys;
mod claims;
mod dpop;
mod introspection;
mod issuer;
mod issuer_keys;
mod jwt;

pub use any_of::AnyOf;
pub use api_keys::ApiKeys;
pub use dpop::Dpop;
pub use introspection::Introspection;
pub use jwt::Jwt;

#[cfg(feature = "authorization-server")]
pub(crate) use claims::{ClaimRules, key_thumbprint};
#[cfg(feature = "authorization-server")]
pub(crate) use issuer::Issuer;
#[cfg(feature = "authorization-server")]
pub(crate) use issuer_keys::{IssuerKeys, KeyError, KeySource};
