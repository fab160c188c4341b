//! [`StaticToken`]: one token that is known in advance.

use std::fmt;

use ring::digest::{SHA256, digest};

use super::verify_error::VerifyError;
use super::verify_token::{TokenRequest, Verified, VerifyFuture, VerifyToken};
use crate::server::Principal;

/// One token that is known in advance, and its owner.
#[derive(Clone)]
pub struct StaticToken {
    /// Compared instead of the token, so that the time of the comparison says nothing about the token.
    digest: [u8; 32],
    owner: Principal,
}

impl StaticToken {
    /// Accepts `token` as that of `owner`.
    pub fn new(token: impl AsRef<[u8]>, owner: Principal) -> Self {
        Self { digest: token_digest(token.as_ref()), owner }
    }

    /// Whether this is the token.
    pub fn matches(&self, token: impl AsRef<[u8]>) -> bool {
        token_digest(token.as_ref()) == self.digest
    }
}

impl VerifyToken for StaticToken {
    fn verify<'a>(&'a self, request: &'a TokenRequest) -> VerifyFuture<'a, Verified> {
        let verified = match self.matches(&request.token) {
            true => Ok(Verified::new(self.owner.clone()).cache_for(std::time::Duration::MAX)),
            false => Err(VerifyError::invalid_token()),
        };
        Box::pin(std::future::ready(verified))
    }
}

impl fmt::Debug for StaticToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticToken").field("owner", &self.owner).finish_non_exhaustive()
    }
}

fn token_digest(token: &[u8]) -> [u8; 32] {
    digest(&SHA256, token).as_ref().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_not_shown() {
        let known = StaticToken::new("s3cret", Principal::new("ann"));
        assert!(!format!("{known:?}").contains("s3cret"));
        assert!(known.matches("s3cret") && !known.matches("s3cre") && !known.matches(""));
    }
}
