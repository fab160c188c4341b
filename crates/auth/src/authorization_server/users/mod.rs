//! The people who can log in: [`Users`], and [`UserFile`], which keeps them in a file.

mod file;
mod password;

pub use file::UserFile;

pub(super) use file::MAX_PASSWORD_BYTES;

use std::future::Future;
use std::pin::Pin;

use tsugite::store::StoreError;

use super::AuthorizationState;
use crate::error::Result;
use crate::secret::Secret;

/// The people who can log in with a name and a password.
pub trait Users: Send + Sync + 'static {
    /// Returns the user, or `None` if there is no such user or the password is wrong.
    ///
    /// An implementation takes the same time in both cases, so that an attacker does not learn which names exist. The
    /// server limits how often this is called for one name and for one address.
    fn check_password(&self, name: String, password: Secret) -> UserFuture<Option<User>>;

    /// Whether a user who logged in before still exists. It is asked when a token is refreshed and when a session is used, so
    /// that a user who was removed gets no further tokens.
    fn is_active(&self, subject: String) -> UserFuture<bool>;
}

/// The future that a method of [`Users`] returns.
pub type UserFuture<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// A person who has logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// The subject of tokens. It never changes, and never belongs to another person. It contains no `|` and does not begin
    /// with `client:`, which mark users of other issuers and clients.
    pub subject: String,
    /// The name on pages.
    pub display_name: String,
}

impl User {
    /// A user whose subject is also the name on pages.
    pub fn new(subject: impl Into<String>) -> Self {
        let subject = subject.into();
        Self { display_name: subject.clone(), subject }
    }

    /// Sets the name on pages.
    #[must_use]
    pub fn display_name(mut self, name: impl Into<String>) -> Self {
        self.display_name = name.into();
        self
    }

    /// Whether the subject cannot be mistaken for that of another issuer or of a client.
    pub(super) fn has_valid_subject(&self) -> bool {
        is_local_subject(&self.subject)
    }
}

impl AuthorizationState {
    /// Whether a user who logged in before is still known: a local one to the users, one of the provider by that login.
    pub(super) async fn is_active(
        &self,
        subject: &str,
        provider_grant: Option<&str>,
    ) -> Result<bool, StoreError> {
        match (&self.settings.users, provider_grant) {
            (Some(users), None) if is_local_subject(subject) => {
                Ok(users.is_active(subject.to_owned()).await?)
            }
            (_, Some(grant)) => self.has_provider_grant(grant).await,
            // Their server has no such users any more.
            _ => Ok(false),
        }
    }
}

/// Whether a subject can be that of a local user.
pub(super) fn is_local_subject(subject: &str) -> bool {
    let is_clean = !subject.chars().any(|letter| letter.is_control() || letter == '|');
    is_clean && (1..=255).contains(&subject.len()) && !subject.starts_with("client:")
}
