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
//!
//! A verifier accepts a token only if this server is an audience of it. Its address is
//! [`Http::public_url`](tsugite::transport::http::Http::public_url), or that of a listener on the loopback interface; a
//! server behind a proxy must set it, or further audiences.

mod claims;
mod issuer;
mod issuer_keys;
mod jwt;

pub use jwt::Jwt;
