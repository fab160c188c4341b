//! [`ApiKeys`]: tokens that are known in advance.

use std::fmt;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use tsugite::server::Principal;
use tsugite::transport::http::{TokenRequest, Verified, VerifyError, VerifyFuture, VerifyToken};

use crate::error::{AuthError, Result};

/// Tokens that are known in advance, each with its owner. Clients send one as `Authorization: Bearer …`, or alone in a
/// [header of its own](Self::header).
///
/// Only the SHA-256 digests of the keys are kept and compared. A key should have at least 128 random bits: a digest of a
/// word can be guessed.
///
/// ```
/// use tsugite::prelude::*;
/// use tsugite_auth::resource::ApiKeys;
///
/// let keys = ApiKeys::new()
///     .add("8b1f4c5e0d3a4b7c9e2f1a6d", Principal::new("build").with_scopes(["notes:read"]))
///     .add("0e9d8c7b6a5f4e3d2c1b0a9f", Principal::new("ann").with_scopes(["notes:read", "notes:write"]));
/// let server = Server::new("notes", "1.0.0").authorize(keys);
/// # let _ = server;
/// ```
#[doc(alias("StaticToken", "X-Api-Key"))]
#[derive(Clone, Default)]
pub struct ApiKeys {
    keys: Vec<([u8; 32], Principal)>,
    headers: Vec<String>,
}

impl ApiKeys {
    /// Knows no key.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts `key` as that of `owner`.
    pub fn add(mut self, key: impl AsRef<[u8]>, owner: Principal) -> Self {
        self.keys.push((key_digest(key.as_ref()), owner));
        self
    }

    /// Accepts the key with this SHA-256 digest in hexadecimal, so that a configuration contains no key.
    pub fn add_sha256(mut self, hex: &str, owner: Principal) -> Result<Self> {
        let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
        let byte = |pair: &[u8; 2]| {
            let text = std::str::from_utf8(pair).ok().filter(|text| !text.starts_with('+'))?;
            u8::from_str_radix(text, 16).ok()
        };
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        let digest = bytes.filter(|_| rest.is_empty()).and_then(|bytes| bytes.try_into().ok());
        let digest = digest.ok_or_else(|| AuthError::config("a SHA-256 digest has 64 hexadecimal digits"))?;
        self.keys.push((digest, owner));
        Ok(self)
    }

    /// Accepts a key also in this header, alone and without a scheme, such as `X-Api-Key: 8b1f…`. A request that has a token in
    /// `Authorization`, too, is refused with 400. Fails if this cannot be the name of such a header.
    pub fn header(mut self, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_taken = TAKEN_HEADERS.iter().any(|taken| name.eq_ignore_ascii_case(taken));
        if name.is_empty() || !name.bytes().all(is_token) || is_taken || has_prefix(&name, "mcp-") {
            return Err(AuthError::config(format!("{name:?} cannot be the header of an API key")));
        }
        self.headers.push(name);
        Ok(self)
    }

    /// The owner of a key. The time does not depend on which key it is.
    fn owner(&self, key: &str) -> Option<&Principal> {
        let digest = key_digest(key.as_bytes());
        let is_same = |known: &[u8; 32]| known.iter().zip(digest).fold(0, |all, (a, b)| all | (a ^ b)) == 0;
        self.keys.iter().fold(None, |found, (known, owner)| if is_same(known) { Some(owner) } else { found })
    }
}

impl VerifyToken for ApiKeys {
    fn verify<'a>(&'a self, request: &'a TokenRequest) -> VerifyFuture<'a, Verified> {
        let verified = match self.owner(&request.token) {
            Some(owner) => Ok(Verified::new(owner.clone()).cache_for(Duration::MAX)),
            None => Err(VerifyError::invalid_token()),
        };
        Box::pin(std::future::ready(verified))
    }

    fn key_headers(&self) -> Vec<String> {
        self.headers.clone()
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|(_, owner)| owner)).finish()
    }
}

fn has_prefix(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Headers that mean something else, or that web pages cannot keep out of a request.
const TAKEN_HEADERS: [&str; 12] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "dpop",
    "host",
    "last-event-id",
    "origin",
    "proxy-authorization",
    "transfer-encoding",
];

fn key_digest(key: &[u8]) -> [u8; 32] {
    digest(&SHA256, key).as_ref().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_belongs_to_its_owner() {
        let (ann, bob) = (Principal::new("ann"), Principal::new("bob"));
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let keys = ApiKeys::new().add("one", ann).add_sha256(hex, bob).unwrap();
        let owner = |key: &str| keys.owner(key).map(|owner| owner.subject().to_owned());
        assert_eq!((owner("one").as_deref(), owner("abc").as_deref()), (Some("ann"), Some("bob")));
        for unknown in ["", "on", "one ", "onE", hex] {
            assert_eq!(owner(unknown), None, "{unknown}");
        }
        assert_eq!(ApiKeys::new().owner(""), None);
        assert!(!format!("{keys:?}").contains("one"));
    }

    #[test]
    fn header_of_a_key_means_nothing_else() {
        let keys = ApiKeys::new().header("X-Api-Key").unwrap();
        assert_eq!(keys.key_headers(), ["X-Api-Key"]);
        for name in ["", "X Api", "X-Api-Key:", "authorization", "Cookie", "DPoP", "Mcp-Session-Id", "Origin"]
        {
            assert!(ApiKeys::new().header(name).is_err(), "{name}");
        }
    }

    #[test]
    fn malformed_digests_are_refused() {
        for hex in ["", "ba", &"g".repeat(64), &"a".repeat(63), &"a".repeat(66), &"+1".repeat(32)] {
            assert!(ApiKeys::new().add_sha256(hex, Principal::new("ann")).is_err(), "{hex}");
        }
    }
}
