//! [`VerifyError`]: why a token is not accepted.

use std::fmt;
use std::time::Duration;

/// Why a [verifier](super::VerifyToken) does not accept a token.
///
/// A description is sent to the client; it must contain no part of a token.
#[derive(Debug)]
pub struct VerifyError {
    kind: VerifyErrorKind,
    description: Option<String>,
    nonce: Option<String>,
    retry_after: Option<Duration>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The kinds of a [`VerifyError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyErrorKind {
    /// The token is unknown, expired or revoked, or was not issued for this server. The client gets 401.
    InvalidToken,
    /// The DPoP proof is missing or invalid. The client gets 401.
    InvalidProof,
    /// The DPoP proof needs a nonce of this server. The client gets 401 with the nonce.
    UseNonce,
    /// The token could not be checked, for example because the issuer cannot be reached. The client gets 503.
    Unavailable,
}

impl VerifyError {
    /// The token is unknown, expired or revoked, or was not issued for this server.
    pub fn invalid_token() -> Self {
        Self::from_kind(VerifyErrorKind::InvalidToken)
    }

    /// The DPoP proof is missing or invalid, for this reason.
    pub fn invalid_proof(description: impl Into<String>) -> Self {
        Self::from_kind(VerifyErrorKind::InvalidProof).with_description(description)
    }

    /// The DPoP proof must contain this nonce.
    pub fn use_nonce(nonce: impl Into<String>) -> Self {
        Self::from_kind(VerifyErrorKind::UseNonce).with_nonce(nonce)
    }

    /// The token could not be checked. The cause is logged and not shown to the client.
    pub fn unavailable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: Some(cause.into()), ..Self::from_kind(VerifyErrorKind::Unavailable) }
    }

    fn from_kind(kind: VerifyErrorKind) -> Self {
        Self { kind, description: None, nonce: None, retry_after: None, source: None }
    }

    /// Explains the error to the client (`error_description`).
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Gives the client the nonce of its next DPoP proof.
    #[must_use]
    pub fn with_nonce(mut self, nonce: impl Into<String>) -> Self {
        self.nonce = Some(nonce.into());
        self
    }

    /// Sets when the client may try again; after one second unless set.
    #[must_use]
    pub fn with_retry_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> VerifyErrorKind {
        self.kind
    }

    /// The explanation for the client.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The nonce of the client's next DPoP proof.
    pub fn nonce(&self) -> Option<&str> {
        self.nonce.as_deref()
    }

    /// When the client may try again.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            VerifyErrorKind::InvalidToken => "the token is not valid",
            VerifyErrorKind::InvalidProof => "the DPoP proof is not valid",
            VerifyErrorKind::UseNonce => "the DPoP proof needs a nonce of this server",
            VerifyErrorKind::Unavailable => "the token could not be checked",
        })?;
        self.description.iter().try_for_each(|description| write!(f, ": {description}"))
    }
}

impl std::error::Error for VerifyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.source {
            Some(source) => Some(&**source),
            None => None,
        }
    }
}
