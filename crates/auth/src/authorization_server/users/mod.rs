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

    /// Returns the [generation](User::generation) of a user who logged in before, or `None` if the user may not log in any
    /// more. It is asked before tokens are issued and when a session is used: logins of another generation have ended.
    fn generation(&self, subject: String) -> UserFuture<Option<String>>;
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
    /// A text that changes with the password, and for a new account with the subject of an earlier one. Sessions, refresh
    /// tokens and consents of another generation count no more. Empty by default.
    pub generation: String,
}

impl User {
    /// A user whose subject is also the name on pages.
    pub fn new(subject: impl Into<String>) -> Self {
        let subject = subject.into();
        Self { display_name: subject.clone(), subject, generation: String::new() }
    }

    /// Sets the name on pages.
    #[must_use]
    pub fn display_name(mut self, name: impl Into<String>) -> Self {
        self.display_name = name.into();
        self
    }

    /// Sets the generation. [`Users::generation`] has to return the same one.
    #[must_use]
    pub fn generation(mut self, generation: impl Into<String>) -> Self {
        self.generation = generation.into();
        self
    }

    /// Whether the subject cannot be mistaken for that of another issuer or of a client.
    pub(super) fn has_valid_subject(&self) -> bool {
        is_local_subject(&self.subject)
    }
}

/// A login of before, as the records that come of it name it.
#[derive(Clone, Copy)]
pub(super) struct EarlierLogin<'a> {
    pub(super) subject: &'a str,
    /// The generation of the user at that time.
    pub(super) generation: &'a str,
    /// The name of the login at the provider, for a user of the provider.
    pub(super) provider_grant: Option<&'a str>,
}

impl AuthorizationState {
    /// Whether a login still counts: that of a local user by the generation, that of a user of the provider there.
    pub(super) async fn is_active(&self, login: EarlierLogin<'_>) -> Result<bool, StoreError> {
        match (&self.settings.users, login.provider_grant) {
            (Some(users), None) if is_local_subject(login.subject) => {
                let generation = users.generation(login.subject.to_owned()).await?;
                Ok(generation.as_deref() == Some(login.generation))
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
