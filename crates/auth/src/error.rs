//! [`AuthError`]: why no credentials could be obtained. It never contains a token.

use std::fmt;

use tsugite::client::{ClientError, ErrorKind};

/// The outcome of an operation of this crate.
pub type Result<T, E = AuthError> = std::result::Result<T, E>;

/// The reason why no credentials could be obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthError {
    kind: AuthErrorKind,
    message: String,
}

/// The step that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthErrorKind {
    /// A setting is invalid or missing.
    Config,
    /// A URL that the server named was refused.
    Refused,
    /// A request failed: no connection, no complete response, or an unexpected status.
    Fetch,
    /// The metadata of the server or of its authorization server is missing or invalid.
    Discovery,
    /// The client could not be registered.
    Registration,
    /// The user could not be logged in.
    Login,
    /// The authorization server refused to issue a token.
    Token,
    /// The store of credentials failed.
    Store,
}

impl AuthError {
    pub(crate) fn new(kind: AuthErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(AuthErrorKind::Config, message)
    }

    pub(crate) fn discovery(message: impl Into<String>) -> Self {
        Self::new(AuthErrorKind::Discovery, message)
    }

    /// The error of a login, for a [`UserAgent`](crate::UserAgent) of the application. It must not contain a secret.
    pub fn login(message: impl Into<String>) -> Self {
        Self::new(AuthErrorKind::Login, message)
    }

    pub(crate) fn token(message: impl Into<String>) -> Self {
        Self::new(AuthErrorKind::Token, message)
    }

    /// The error of a [`Store`](crate::Store) of the application. It must not contain a secret.
    pub fn store(message: impl Into<String>) -> Self {
        Self::new(AuthErrorKind::Store, message)
    }

    /// The step that failed.
    pub fn kind(&self) -> AuthErrorKind {
        self.kind
    }
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for AuthError {}

impl From<AuthError> for ClientError {
    fn from(error: AuthError) -> Self {
        match error.kind {
            AuthErrorKind::Config => ErrorKind::Config(error.message).into(),
            _ => ErrorKind::Authorization(error.message).into(),
        }
    }
}

/// A text of a peer as it may be shown: without control characters, and short.
pub(crate) fn shown(text: &str) -> String {
    let clean = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    clean.take(MAX_SHOWN_CHARS).collect()
}

const MAX_SHOWN_CHARS: usize = 300;
