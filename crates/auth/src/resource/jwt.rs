//! [`Jwt`]: verifies signed access tokens of an issuer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tsugite::client::Fetcher;
use tsugite::transport::http::{
    ProtectedResource, TokenRequest, Verified, VerifyError, VerifyFuture, VerifyToken,
};

use super::claims::ClaimRules;
use super::issuer::Issuer;
use super::issuer_keys::{IssuerKeys, KeyError, KeySource};
use crate::dpop::now;
use crate::error::{AuthError, Result};
use crate::jose::{Algorithm, JwkSet, JwtError, UnverifiedJwt, claimed_issuer};

/// Verifies signed access tokens (JWT, RFC 9068) of one issuer, with the keys that the issuer publishes.
///
/// A token is accepted if a key of the issuer has signed it, its `iss` is the issuer, byte for byte, this server is one of
/// its audiences (`aud`), it is valid now (`exp`, `nbf`), and it names a subject or a client. The issuer is first contacted
/// when a token arrives, so a server starts while its issuer is down; until the keys are known, clients get 503.
///
/// ```
/// use tsugite::Server;
/// use tsugite_auth::resource::Jwt;
///
/// let verifier = Jwt::issuer("https://idp.example").audience("api://notes").scopes_in(["realm_access", "roles"]);
/// let server = Server::new("notes", "1.0.0").authorize(verifier);
/// # let _ = server;
/// ```
#[doc(alias("JWKS", "OpenID Connect", "bearer"))]
#[derive(Clone)]
pub struct Jwt {
    rules: ClaimRules,
    algorithms: Vec<Algorithm>,
    /// The only accepted type; `at+jwt` and `JWT` if none is set.
    only_type: Option<String>,
    issuer: Issuer,
    source: KeySource,
    refresh_interval: Duration,
    recheck_interval: Duration,
    description: ProtectedResource,
    /// Made of the settings above.
    keys: Arc<IssuerKeys>,
}

impl Jwt {
    /// Accepts tokens of an issuer, whose identifier is compared byte for byte. Its keys are found through its metadata
    /// (RFC 8414 or OpenID Connect).
    pub fn issuer(issuer: impl Into<String>) -> Self {
        let name = issuer.into();
        let (issuer, source) = (Issuer::new(name.clone()), KeySource::Metadata);
        let refresh_interval = Duration::from_secs(30);
        Self {
            rules: ClaimRules { issuer: Some(name), ..ClaimRules::default() },
            algorithms: Algorithm::ALL.to_vec(),
            only_type: None,
            keys: IssuerKeys::new(source.clone(), issuer.clone(), refresh_interval),
            issuer,
            source,
            refresh_interval,
            recheck_interval: Duration::from_secs(60),
            description: ProtectedResource::new(),
        }
    }

    /// Accepts an audience beside the address of this server, for issuers that do not know RFC 8707. Compared byte for byte.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.rules.audiences.push(audience.into());
        self
    }

    /// Accepts these algorithms only; all of [`Algorithm::ALL`] unless set.
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// Accepts tokens of this `typ` only, such as `at+jwt` (RFC 9068). Unless set, `at+jwt`, `JWT` and tokens without a type
    /// are accepted.
    pub fn token_type(mut self, only: impl Into<String>) -> Self {
        self.only_type = Some(only.into());
        self
    }

    /// Accepts tokens so long after their expiry and before their beginning, since clocks differ; 60 seconds unless set.
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.rules.leeway = leeway;
        self
    }

    /// Reads scopes also from this claim, such as `["roles"]` or `["realm_access", "roles"]`. `scope` and `scp` are always
    /// read. A claim is a text with spaces, or a list of texts.
    pub fn scopes_in<S: Into<String>>(mut self, path: impl IntoIterator<Item = S>) -> Self {
        self.rules.scope_claims.push(path.into_iter().map(Into::into).collect());
        self
    }

    /// Refuses tokens without a subject, which clients get for themselves.
    pub fn require_subject(mut self) -> Self {
        self.rules.subject_required = true;
        self
    }

    /// Fetches the keys from this URL instead of the one that the metadata names.
    pub fn keys_at(mut self, url: impl Into<String>) -> Self {
        self.source = KeySource::Url(url.into(), None);
        self.with_keys()
    }

    /// Uses the keys of this JWK set, and fetches none.
    pub fn keys(mut self, document: &str) -> Result<Self> {
        let document: Option<Map<String, Value>> = serde_json::from_str(document).ok();
        let keys = document.as_ref().and_then(JwkSet::from_document).filter(|keys| !keys.is_empty());
        let keys = keys.ok_or_else(|| AuthError::config("the JWK set has no usable public key"))?;
        self.source = KeySource::Given(Arc::new(keys));
        Ok(self.with_keys())
    }

    /// Sets how often keys are fetched at most, whatever tokens arrive; every 30 seconds unless set.
    pub fn refresh_interval(mut self, interval: Duration) -> Self {
        self.refresh_interval = interval;
        self.with_keys()
    }

    /// Sets after which time a token that is used again is verified again; 60 seconds unless set. For so long it is accepted
    /// after the issuer has withdrawn its key.
    pub fn recheck_interval(mut self, interval: Duration) -> Self {
        self.recheck_interval = interval;
        self
    }

    /// Sends requests to the issuer with this fetcher: a proxy, further certificates, a resolver.
    pub fn fetcher(mut self, fetcher: Fetcher) -> Self {
        self.issuer.fetcher = fetcher;
        self.with_keys()
    }

    /// Fetches keys in a private network although the metadata of the issuer is elsewhere.
    pub fn allow_private_addresses(mut self) -> Self {
        self.issuer.allow_private = true;
        self.with_keys()
    }

    /// Adds to what clients without a token are told: a name, scopes. The issuer is always listed.
    pub fn describe(mut self, description: ProtectedResource) -> Self {
        self.description = self.description.merge(description);
        self
    }

    fn with_keys(mut self) -> Self {
        self.keys = IssuerKeys::new(self.source.clone(), self.issuer.clone(), self.refresh_interval);
        self
    }

    /// Whether a token says that it is from this issuer. Then no other verifier should see it.
    pub(super) fn claims_issuer_of(&self, token: &str) -> bool {
        claimed_issuer(token).as_ref() == Some(&self.issuer.name)
    }

    async fn verify_token(&self, request: &TokenRequest) -> Result<Verified, VerifyError> {
        if request.resource.is_empty() && self.rules.audiences.is_empty() {
            return Err(VerifyError::unavailable(
                "the address of this server is not known; set `Http::public_url`, or an audience",
            ));
        }
        let token = UnverifiedJwt::parse(&request.token).map_err(refused)?;
        self.check_header(&token).map_err(refused)?;
        // Before any key is fetched: tokens of others must cause no request.
        if token.claimed_issuer().map_err(refused)?.as_ref() != Some(&self.issuer.name) {
            return Err(refused(JwtError("the token is from another issuer")));
        }
        let claims = self.keys.verify(&token).await.map_err(|error| match error {
            KeyError::Refused(reason) => refused(reason),
            KeyError::Unavailable(error, time) => {
                VerifyError::unavailable(error).with_retry_after(time.max(Duration::from_secs(1)))
            }
        })?;
        let verified = self.rules.check(claims, &request.resource, now()).map_err(refused)?;
        Ok(verified.cache_for(self.recheck_interval))
    }

    fn check_header(&self, token: &UnverifiedJwt<'_>) -> Result<(), JwtError> {
        if !self.algorithms.contains(&token.algorithm) {
            return Err(JwtError("the algorithm of the token is not accepted"));
        }
        let is_right = match &self.only_type {
            Some(only) => token.is_of_type(only),
            None => !token.has_type() || token.is_of_type("at+jwt") || token.is_of_type("JWT"),
        };
        match is_right {
            true => Ok(()),
            false => Err(JwtError("the type of the token is not accepted")),
        }
    }
}

impl VerifyToken for Jwt {
    fn verify<'a>(&'a self, request: &'a TokenRequest) -> VerifyFuture<'a, Verified> {
        Box::pin(self.verify_token(request))
    }

    fn resource(&self) -> ProtectedResource {
        ProtectedResource::new().authorization_server(&*self.issuer.name).merge(self.description.clone())
    }
}

impl fmt::Debug for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwt")
            .field("issuer", &self.issuer.name)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

/// The reason is for the client: it contains no part of the token.
pub(super) fn refused(reason: JwtError) -> VerifyError {
    VerifyError::invalid_token().with_description(reason.0)
}
