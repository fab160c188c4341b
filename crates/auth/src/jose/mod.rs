//! Signatures of JSON Web Tokens on `ring`: the keys of clients, and the verification of tokens of others.
//!
//! Own code, because the JOSE crates that are kept either need a second library of cryptography or a provider that is set
//! for the whole process.

mod algorithm;
mod jwt;
mod key_set;
mod sign;
mod strict_json;
#[cfg(test)]
mod tests;
mod verify;

pub use algorithm::Algorithm;
pub use sign::SigningKey;
pub use verify::{Jwk, VerifyError};

pub(crate) use jwt::{Claims, JwtError, UnverifiedJwt, claimed_issuer};
pub(crate) use key_set::{JwkSet, has_private_members};
pub(crate) use strict_json::parse_object;

use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use tsugite::base64;

use crate::error::{AuthError, Result};

/// A random text of 256 bits.
pub(crate) fn random_text() -> Result<String> {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| AuthError::config("this machine has no source of random numbers"))?;
    Ok(base64::encode_url(&bytes))
}

/// The SHA-256 digest of a text, in base64url.
pub(crate) fn sha256_text(text: &str) -> String {
    base64::encode_url(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}
