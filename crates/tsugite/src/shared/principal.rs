//! The authenticated caller of a request.

use std::fmt;
use std::sync::Arc;

/// The caller that the transport authenticated. Cheap to clone.
///
/// As a handler parameter it rejects unauthenticated calls; use `Option<Principal>` to accept them. Over stdio no caller
/// is authenticated. Over HTTP the principal comes from the request extensions, in memory from
/// [`connect_as`](crate::transport::memory::connect_as).
#[derive(Clone, PartialEq, Eq, Hash)]
#[doc(alias("AuthInfo", "AccessToken", "user", "caller"))]
pub struct Principal(Arc<PrincipalInner>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct PrincipalInner {
    issuer: String,
    subject: String,
    scopes: Vec<String>,
}

impl Principal {
    /// Creates a principal without an issuer or scopes. The subject identifies the caller among those of one issuer.
    ///
    /// ```
    /// use tsugite::server::Principal;
    ///
    /// let ann = Principal::new("ann").with_issuer("https://login.example").with_scopes(["admin"]);
    /// assert!(ann.has_scope("admin"));
    /// ```
    pub fn new(subject: impl Into<String>) -> Self {
        let subject = subject.into();
        Self(Arc::new(PrincipalInner { issuer: String::new(), subject, scopes: Vec::new() }))
    }

    /// The scopes that the caller was granted.
    pub fn scopes(&self) -> &[String] {
        &self.0.scopes
    }

    /// Sets the issuer that authenticated the caller. Equal subjects of two issuers are two callers.
    #[must_use]
    pub fn with_issuer(mut self, issuer: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.0).issuer = issuer.into();
        self
    }

    /// Sets the scopes the caller was granted, in place of earlier ones.
    #[must_use]
    pub fn with_scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        Arc::make_mut(&mut self.0).scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// The identifier of the caller at the issuer.
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// The issuer; empty if there is none.
    pub fn issuer(&self) -> &str {
        &self.0.issuer
    }

    /// Whether the caller was granted `scope`.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.0.scopes.iter().any(|granted| granted == scope)
    }
}

/// Whether two requests have the same caller: issuer and subject agree. Scopes do not count, since a refreshed token may
/// have others.
pub(crate) fn is_same_caller(one: Option<&Principal>, other: Option<&Principal>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.issuer() == other.issuer() && one.subject() == other.subject(),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Principal({:?})", self.0.subject)
    }
}
