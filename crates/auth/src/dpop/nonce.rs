//! [`NonceKey`]: nonces that a server asks for in proofs (RFC 9449, 8 and 9).
//!
//! A nonce is the number of a time slot and its authentication code, so a server keeps no list of them, and replicas with
//! the same key accept each other's nonces. The nonces of the current and of the previous slot are valid.

use std::fmt;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use tsugite::base64;

use crate::error::{AuthError, Result};

/// A secret that makes the nonces of a server.
#[derive(Clone)]
pub(crate) struct NonceKey(hmac::Key);

impl NonceKey {
    /// A key from 32 unpredictable bytes.
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// A random key, for a server that is one process.
    pub(crate) fn random() -> Result<Self> {
        let mut secret = [0; 32];
        let filled = SystemRandom::new().fill(&mut secret);
        filled.map_err(|_| AuthError::config("this machine has no source of random numbers"))?;
        Ok(Self::new(&secret))
    }

    /// The nonce to ask for at the time `now`, in seconds since 1970.
    pub(crate) fn nonce(&self, now: u64) -> String {
        let slot = (now / SLOT_SECONDS).to_be_bytes();
        let tag = hmac::sign(&self.0, &message(slot));
        base64::encode_url(&[&slot, tag.as_ref().get(..TAG_BYTES).unwrap_or_default()].concat())
    }

    /// Whether this server asked for the nonce, at most two time slots of 5 minutes ago.
    pub(crate) fn accepts(&self, nonce: &str, now: u64) -> bool {
        [now, now.saturating_sub(SLOT_SECONDS)].into_iter().any(|time| {
            let wanted = self.nonce(time);
            let (one, two) = (wanted.as_bytes(), nonce.as_bytes());
            one.len() == two.len() && one.iter().zip(two).fold(0, |all, (a, b)| all | (a ^ b)) == 0
        })
    }

    /// Whether the nonce is still accepted but a newer one should be used: it is of the previous slot.
    pub(crate) fn is_old(&self, nonce: &str, now: u64) -> bool {
        self.nonce(now) != nonce
    }
}

impl fmt::Debug for NonceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NonceKey")
    }
}

/// The authenticated text, apart from other uses of the same secret.
fn message(slot: [u8; 8]) -> Vec<u8> {
    [b"tsugite dpop nonce ".as_slice(), &slot].concat()
}

const SLOT_SECONDS: u64 = 300;
const TAG_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_expire_and_belong_to_a_key() {
        let (key, other) = (NonceKey::new(&[1; 32]), NonceKey::random().unwrap());
        let now = 3_000_000;
        let nonce = key.nonce(now);
        assert!(key.accepts(&nonce, now) && !key.is_old(&nonce, now));
        assert!(key.accepts(&nonce, now + 599) && key.is_old(&nonce, now + 599));
        assert!(!key.accepts(&nonce, now + 600) && !key.accepts(&nonce, now - 301));
        assert!(!other.accepts(&nonce, now) && NonceKey::new(&[1; 32]).accepts(&nonce, now));
        for wrong in ["", "x", &nonce[1..], &format!("{nonce}A"), &nonce.replace(&nonce[..1], "_")] {
            assert!(!key.accepts(wrong, now), "{wrong}");
        }
        assert_eq!(format!("{key:?}"), "NonceKey");
    }
}
