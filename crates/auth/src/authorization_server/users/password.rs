//! Password hashes: Argon2id in the PHC string format.

use std::sync::OnceLock;

use argon2::{Argon2, PasswordHash, PasswordHasher, PasswordVerifier};
use ring::rand::{SecureRandom, SystemRandom};

use crate::error::{AuthError, Result};
use crate::secret::Secret;

/// Hashes a password with a random salt.
pub(super) fn hash_password(password: &Secret) -> Result<String> {
    let mut salt = [0; 16];
    let filled = SystemRandom::new().fill(&mut salt);
    filled.map_err(|_| AuthError::config("this machine has no source of random numbers"))?;
    let hash = Argon2::default().hash_password_with_salt(password.expose().as_bytes(), &salt);
    let hash: PasswordHash = hash.map_err(|error| AuthError::config(format!("cannot hash: {error}")))?;
    Ok(hash.to_string())
}

/// Whether a text is a hash that passwords can be verified with.
pub(super) fn is_password_hash(text: &str) -> bool {
    PasswordHash::new(text).is_ok_and(|hash| hash.hash.is_some())
}

/// Whether a password belongs to a hash. Without a hash it takes the same time and returns false.
pub(super) fn verify_password(password: &Secret, hash: Option<&str>) -> bool {
    static UNKNOWN_USER: OnceLock<Option<String>> = OnceLock::new();
    let unknown = UNKNOWN_USER.get_or_init(|| hash_password(&Secret::new("no password has this hash")).ok());
    let compared = hash.or(unknown.as_deref()).and_then(|hash| PasswordHash::new(hash).ok());
    let verified = compared.is_some_and(|compared| {
        Argon2::default().verify_password(password.expose().as_bytes(), &compared).is_ok()
    });
    verified && hash.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_matches_its_own_hash_only() {
        let hash = hash_password(&Secret::new("correct horse")).unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(verify_password(&Secret::new("correct horse"), Some(&hash)));
        assert!(!verify_password(&Secret::new("correct hors"), Some(&hash)));
        assert!(!verify_password(&Secret::new("no password has this hash"), None));
        assert!(!verify_password(&Secret::new("x"), Some("x")));
        assert_ne!(hash, hash_password(&Secret::new("correct horse")).unwrap());
    }
}
