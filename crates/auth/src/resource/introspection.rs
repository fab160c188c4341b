//! [`Introspection`]: asks the authorization server whether a token is valid (RFC 7662).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{OnceCell, Semaphore};
use tsugite::client::Fetcher;
use tsugite::transport::http::{
    ProtectedResource, TokenRequest, Verified, VerifyError, VerifyFuture, VerifyToken,
};

use super::claims::ClaimRules;
use super::issuer::Issuer;
use super::jwt::refused;
use crate::dpop::now;
use crate::error::{AuthError, Result};
use crate::jose::{Claims, JwtError, parse_object};
use crate::net::{GuardedHttp, Url, encode_form};
use crate::registration::ClientCredentials;
use crate::token_endpoint::OAuthClient;

/// Asks the authorization server about each token, for tokens that only it can read.
///
/// The answer must say that the token is active and that this server is one of its audiences (`aud`). It is kept for 30
/// seconds, so a revoked token is accepted for so long at most. If the authorization server does not answer, clients get
/// 503.
///
/// ```
/// use tsugite::Server;
/// use tsugite_auth::ClientCredentials;
/// use tsugite_auth::resource::Introspection;
///
/// let client = ClientCredentials::secret("notes-server", "s3cret");
/// let server = Server::new("notes", "1.0.0").authorize(Introspection::new("https://idp.example", client));
/// # let _ = server;
/// ```
#[derive(Clone)]
pub struct Introspection {
    rules: ClaimRules,
    issuer: Issuer,
    client: ClientCredentials,
    /// The endpoint that the operator has named.
    endpoint: Option<String>,
    cache_ttl: Duration,
    description: ProtectedResource,
    found: Arc<OnceCell<Endpoint>>,
    in_flight: Arc<Semaphore>,
}

/// The endpoint, and this server as its client.
struct Endpoint {
    url: Url,
    http: GuardedHttp,
    client: OAuthClient,
}

impl Introspection {
    /// Accepts the tokens of an issuer, whose metadata names the endpoint. `client` is this server as the issuer knows it.
    pub fn new(issuer: impl Into<String>, client: ClientCredentials) -> Self {
        let name = issuer.into();
        Self {
            rules: ClaimRules { issuer: Some(name.clone()), complete: false, ..ClaimRules::default() },
            issuer: Issuer::new(name),
            client,
            endpoint: None,
            cache_ttl: Duration::from_secs(30),
            description: ProtectedResource::new(),
            found: Arc::default(),
            in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
        }
    }

    /// Uses this endpoint instead of the one that the metadata names.
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self
    }

    /// Accepts an audience beside the address of this server. Compared byte for byte.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.rules.audiences.push(audience.into());
        self
    }

    /// Sets for how long an answer is kept; 30 seconds unless set. A token that is revoked is accepted for so long.
    pub fn cache_ttl(mut self, ttl: Duration) -> Self {
        self.cache_ttl = ttl;
        self
    }

    /// Accepts tokens so long after their expiry and before their beginning, since clocks differ; 60 seconds unless set.
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.rules.leeway = leeway;
        self
    }

    /// Reads scopes also from this member of the answer, such as `["roles"]`.
    pub fn scopes_in<S: Into<String>>(mut self, path: impl IntoIterator<Item = S>) -> Self {
        self.rules.scope_claims.push(path.into_iter().map(Into::into).collect());
        self
    }

    /// Refuses tokens without a subject, which clients get for themselves.
    pub fn require_subject(mut self) -> Self {
        self.rules.subject_required = true;
        self
    }

    /// Sends requests to the issuer with this fetcher: a proxy, further certificates, a resolver.
    pub fn fetcher(mut self, fetcher: Fetcher) -> Self {
        self.issuer.fetcher = fetcher;
        self
    }

    /// Uses an endpoint in a private network although the metadata of the issuer is elsewhere.
    pub fn allow_private_addresses(mut self) -> Self {
        self.issuer.allow_private = true;
        self
    }

    /// Adds to what clients without a token are told: a name, scopes. The issuer is always listed.
    pub fn describe(mut self, description: ProtectedResource) -> Self {
        self.description = self.description.merge(description);
        self
    }

    async fn verify_token(&self, request: &TokenRequest) -> Result<Verified, VerifyError> {
        if request.token.len() > MAX_TOKEN_BYTES {
            return Err(refused(JwtError("the token is larger than 16 KiB")));
        }
        // Anyone can send unknown tokens, and each costs a request.
        let Ok(_permit) = self.in_flight.try_acquire() else {
            let busy = format!("{MAX_IN_FLIGHT} introspection requests are in flight");
            return Err(VerifyError::unavailable(busy));
        };
        let claims = self.introspect(&request.token).await.map_err(VerifyError::unavailable)?;
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Err(refused(JwtError("the token is not active")));
        }
        if let Some(kind) = claims.get("token_type")
            && !kind.as_str().is_some_and(is_access_token)
        {
            return Err(refused(JwtError("the token is not an access token")));
        }
        let verified = self.rules.check(claims, &request.resource, now()).map_err(refused)?;
        Ok(verified.cache_for(self.cache_ttl))
    }

    async fn introspect(&self, token: &str) -> Result<Claims> {
        let endpoint = self.found.get_or_try_init(|| self.find_endpoint()).await?;
        let authentication = endpoint.client.authenticate(&self.issuer.name)?;
        let own = authentication.params.iter().map(|(name, value)| (*name, value.as_str()));
        let params: Vec<_> =
            [("token", token), ("token_type_hint", "access_token")].into_iter().chain(own).collect();
        let form = "application/x-www-form-urlencoded";
        let body = encode_form(&params);
        let response = endpoint.http.post(&endpoint.url, form, body, &authentication.headers).await?;
        let failed = |reason: String| {
            AuthError::token(format!("{} cannot be asked: {reason}", endpoint.url.without_query()))
        };
        match response.status {
            200 => parse_object(&response.body).ok_or_else(|| failed("its answer is malformed".to_owned())),
            status => Err(failed(format!("HTTP status {status}"))),
        }
    }

    async fn find_endpoint(&self) -> Result<Endpoint> {
        match &self.endpoint {
            Some(url) => {
                let client = self.client.client(None);
                Ok(Endpoint { url: Url::parse(url)?, http: self.issuer.trusted(), client })
            }
            None => {
                let metadata = self.issuer.metadata().await?;
                let url = metadata.introspection_endpoint()?;
                let methods = metadata.introspection_endpoint_auth_methods_supported;
                let methods = methods.or(metadata.token_endpoint_auth_methods_supported);
                let client = self.client.client(methods.as_deref());
                Ok(Endpoint { http: self.issuer.http_for(&url), url, client })
            }
        }
    }
}

impl VerifyToken for Introspection {
    fn verify<'a>(&'a self, request: &'a TokenRequest) -> VerifyFuture<'a, Verified> {
        Box::pin(self.verify_token(request))
    }

    fn resource(&self) -> ProtectedResource {
        ProtectedResource::new().authorization_server(&*self.issuer.name).merge(self.description.clone())
    }
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Introspection");
        shown.field("issuer", &self.issuer.name).field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// Whether `token_type` is that of an access token. Some servers also answer for refresh tokens.
fn is_access_token(token_type: &str) -> bool {
    ["bearer", "dpop"].iter().any(|known| token_type.eq_ignore_ascii_case(known))
}

const MAX_TOKEN_BYTES: usize = 16 << 10;
const MAX_IN_FLIGHT: usize = 64;
