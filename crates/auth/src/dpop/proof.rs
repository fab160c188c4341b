//! [`Proof`]: the proof of a client, for one request.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::error::Result;
use crate::jose::{SigningKey, random_text, sha256_text};

/// One proof: for a method and a URL, and at a server for the token that is sent with it.
pub(crate) struct Proof<'a> {
    pub(crate) verb: &'a str,
    pub(crate) url: &'a str,
    pub(crate) token: Option<&'a str>,
    pub(crate) nonce: Option<&'a str>,
}

impl Proof<'_> {
    /// Signs the proof. Each has an id of its own.
    pub(crate) fn sign(&self, key: &SigningKey) -> Result<String> {
        let mut claims = vec![
            ("jti", json!(random_text()?)),
            ("htm", json!(self.verb)),
            ("htu", json!(self.url.split(['?', '#']).next())),
            ("iat", json!(now())),
        ];
        claims.extend(self.token.map(|token| ("ath", json!(sha256_text(token)))));
        claims.extend(self.nonce.map(|nonce| ("nonce", json!(nonce))));
        key.sign_jwt(&[("typ", json!("dpop+jwt")), ("jwk", key.public_jwk()?)], &claims)
    }
}

/// The time in seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jose::Jwk;

    #[test]
    fn proofs_are_fresh_and_bound_to_their_request() {
        // ACL-069, ACL-070
        let (key, _) = SigningKey::generate().unwrap();
        let jwk: Jwk = serde_json::from_value(key.public_jwk().unwrap()).unwrap();
        let proof = Proof { verb: "POST", url: "https://h/mcp?x=1#f", token: Some("t"), nonce: Some("n") };
        let (one, two) = (proof.sign(&key).unwrap(), proof.sign(&key).unwrap());
        let (header, claims) = jwk.verify_jwt(&one, &["ES256"]).unwrap();
        let (_, other) = jwk.verify_jwt(&two, &["ES256"]).unwrap();
        assert_eq!((header["typ"].as_str(), header["alg"].as_str()), (Some("dpop+jwt"), Some("ES256")));
        assert!(header["jwk"].get("d").is_none() && header["jwk"]["kty"] == "EC");
        assert_eq!((claims["htm"].as_str(), claims["htu"].as_str()), (Some("POST"), Some("https://h/mcp")));
        assert_eq!((claims["ath"].as_str(), claims["nonce"].as_str()), (Some(&*sha256_text("t")), Some("n")));
        assert_ne!(claims["jti"], other["jti"]);
        assert!(now().abs_diff(claims["iat"].as_u64().unwrap()) < 60);
    }
}
