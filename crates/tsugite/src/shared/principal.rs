//! The authenticated caller of a request.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The caller that the transport authenticated. Cheap to clone.
///
/// As a handler parameter it rejects unauthenticated calls; use `Option<Principal>` to accept them. Over HTTP the principal
/// is the owner of the token that the verifier of [`Server::authorize`](crate::Server::authorize) accepted, or comes from the
/// request extensions; in memory from [`connect_as`](crate::transport::memory::connect_as), over stdio from
/// [`Server::stdio_principal`](crate::Server::stdio_principal).
///
/// Two principals are equal if issuer, subject, client and scopes are. Claims and expiry do not count: they differ with every
/// token of the same caller.
#[derive(Clone)]
#[doc(alias("AuthInfo", "AccessToken", "user", "caller"))]
pub struct Principal(Arc<PrincipalInner>);

#[derive(Clone, Default)]
struct PrincipalInner {
    issuer: String,
    subject: String,
    client_id: String,
    scopes: Vec<String>,
    claims: Map<String, Value>,
    expires_at: Option<SystemTime>,
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
        Self(Arc::new(PrincipalInner { subject: subject.into(), ..PrincipalInner::default() }))
    }

    /// Creates the principal of a token that names no subject: the client itself is the caller.
    pub fn from_client(client_id: impl Into<String>) -> Self {
        Self::new("").with_client_id(client_id)
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

    /// Sets the client that the token was issued to. It identifies the caller only if there is no subject.
    #[must_use]
    pub fn with_client_id(mut self, client_id: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.0).client_id = client_id.into();
        self
    }

    /// Sets the scopes the caller was granted, in place of earlier ones.
    #[must_use]
    pub fn with_scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        Arc::make_mut(&mut self.0).scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the claims of the token, in place of earlier ones.
    #[must_use]
    pub fn with_claims(mut self, claims: Map<String, Value>) -> Self {
        Arc::make_mut(&mut self.0).claims = claims;
        self
    }

    /// Sets when the token is no longer accepted, leeway included. Streams of the caller end then, unless it has sent a
    /// newer token.
    #[must_use]
    pub fn with_expiry(mut self, expires_at: SystemTime) -> Self {
        Arc::make_mut(&mut self.0).expires_at = Some(expires_at);
        self
    }

    /// The identifier of the caller at the issuer; empty if the token names none.
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// The issuer; empty if there is none.
    pub fn issuer(&self) -> &str {
        &self.0.issuer
    }

    /// The client that the token was issued to; empty if it is not known.
    pub fn client_id(&self) -> &str {
        &self.0.client_id
    }

    /// The claims of the token, as far as its verifier keeps them.
    pub fn claims(&self) -> &Map<String, Value> {
        &self.0.claims
    }

    /// When the token is no longer accepted, if it expires.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.0.expires_at
    }

    /// Whether the caller was granted `scope`.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.0.scopes.iter().any(|granted| granted == scope)
    }

    /// Whether both are the same caller: issuer and subject agree, or issuer and client if neither has a subject. Scopes,
    /// claims and expiry do not count, since a refreshed token may have others.
    pub fn is_same(&self, other: &Self) -> bool {
        let (one, other) = (&*self.0, &*other.0);
        let is_same_client = || !one.subject.is_empty() || one.client_id == other.client_id;
        one.issuer == other.issuer && one.subject == other.subject && is_same_client()
    }

    /// Whether the principal names a caller at all.
    pub(crate) fn is_identified(&self) -> bool {
        !self.0.subject.is_empty() || !self.0.client_id.is_empty()
    }

    /// The part that [`is_same`](Self::is_same) compares, to be stored or used as a key.
    pub(crate) fn identity(&self) -> CallerIdentity {
        let client_id = if self.0.subject.is_empty() { self.0.client_id.clone() } else { String::new() };
        CallerIdentity { issuer: self.0.issuer.clone(), subject: self.0.subject.clone(), client_id }
    }
}

/// The identity of a caller, without the rights and the age of its token.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct CallerIdentity {
    pub(crate) issuer: String,
    pub(crate) subject: String,
    /// Empty if there is a subject.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) client_id: String,
}

impl CallerIdentity {
    /// The caller without scopes.
    pub(crate) fn to_principal(&self) -> Principal {
        Principal::new(&*self.subject).with_issuer(&*self.issuer).with_client_id(&*self.client_id)
    }
}

/// Whether two requests have the same caller.
pub(crate) fn is_same_caller(one: Option<&Principal>, other: Option<&Principal>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.is_same(other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (&*self.0, &*other.0);
        one.issuer == other.issuer
            && one.subject == other.subject
            && one.client_id == other.client_id
            && one.scopes == other.scopes
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.issuer.hash(state);
        self.0.subject.hash(state);
        self.0.client_id.hash(state);
        self.0.scopes.hash(state);
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.subject.is_empty() {
            true => write!(f, "Principal(client {:?})", self.0.client_id),
            false => write!(f, "Principal({:?})", self.0.subject),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caller_is_the_subject_or_else_the_client() {
        let ann = Principal::new("ann").with_issuer("https://a");
        assert!(ann.is_same(&ann.clone().with_client_id("app").with_scopes(["x"])));
        assert!(!ann.is_same(&Principal::new("ann").with_issuer("https://b")));
        assert!(!ann.is_same(&Principal::from_client("ann").with_issuer("https://a")));
        let job = Principal::from_client("job");
        assert!(job.is_same(&Principal::from_client("job").with_expiry(SystemTime::UNIX_EPOCH)));
        assert!(!job.is_same(&Principal::from_client("other")) && !job.is_same(&Principal::new("job")));
        for one in [ann, job] {
            assert!(one.identity().to_principal().is_same(&one) && one.is_identified());
        }
        assert!(!Principal::new("").is_identified());
    }

    #[test]
    fn claims_and_expiry_are_no_part_of_equality() {
        let ann = Principal::new("ann").with_scopes(["read"]);
        let claims = Map::from_iter([("jti".to_owned(), Value::from("1"))]);
        assert_eq!(ann, ann.clone().with_claims(claims).with_expiry(SystemTime::UNIX_EPOCH));
        assert_ne!(ann, ann.clone().with_scopes(["write"]));
    }
}
