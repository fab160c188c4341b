//! The grant `jwt-bearer` (RFC 7523): an assertion of another issuer for a token.
//!
//! The identity provider of a company asserts with an ID-JAG that one of its users may be represented by a client; the
//! platform of a workload asserts what the workload is. Each issuer is limited to clients, subjects and scopes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{TokenCall, TokenGrant, invalid_grant};
use crate::authorization_server::AuthorizationState;
use crate::authorization_server::clients::SIGNING_ALGORITHMS;
use crate::authorization_server::http_message::{EndpointError, HttpResponse, OAuthError};
use crate::error::{AuthError, Result};
use crate::jose::{Claims, JwkSet, UnverifiedJwt};
use crate::net::{Trust, Url};
use crate::resource::{Issuer, IssuerKeys, KeyError, KeySource, key_thumbprint};
use crate::scopes;

/// Another issuer whose assertions are exchanged for tokens, and the limits of them.
///
/// Subjects of its users begin with its identifier and `|`, so that they are no users of this server.
///
/// ```
/// use tsugite_auth::authorization_server::TrustedIssuer;
///
/// let company = TrustedIssuer::identity_provider("https://idp.example").client("my-app").scopes(["notes:read"]);
/// let cluster = TrustedIssuer::workloads("https://cluster.example")
///     .client("nightly")
///     .subject("system:serviceaccount:prod:*")
///     .scopes(["notes:read"]);
/// ```
#[derive(Clone)]
pub struct TrustedIssuer {
    issuer: String,
    kind: AssertionKind,
    clients: Vec<String>,
    subjects: Vec<String>,
    scopes: Vec<String>,
    keys: Arc<IssuerKeys>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AssertionKind {
    /// An ID-JAG, which is used once, by a client that authenticates itself.
    IdJag,
    /// A token of a platform, which the workload may use many times.
    Workload,
}

impl TrustedIssuer {
    /// The identity provider of a company, which issues ID-JAGs. Clients that use them need a secret or keys.
    pub fn identity_provider(issuer: impl Into<String>) -> Self {
        Self::new(issuer.into(), AssertionKind::IdJag)
    }

    /// A platform that issues tokens to its workloads. It needs [subjects](Self::subject).
    pub fn workloads(issuer: impl Into<String>) -> Self {
        Self::new(issuer.into(), AssertionKind::Workload)
    }

    fn new(issuer: String, kind: AssertionKind) -> Self {
        let keys = issuer_keys(&issuer, KeySource::Metadata);
        Self { issuer, kind, clients: Vec::new(), subjects: Vec::new(), scopes: Vec::new(), keys }
    }

    /// Fetches the keys from this URL instead of the one that the metadata of the issuer names.
    #[must_use]
    pub fn keys_at(mut self, url: impl Into<String>) -> Self {
        self.keys = issuer_keys(&self.issuer, KeySource::Url(url.into(), None));
        self
    }

    /// Uses the keys of this JWK set, and fetches none. Fails if it has no usable key.
    pub fn keys(mut self, document: &str) -> Result<Self> {
        let document: Option<Map<String, Value>> = serde_json::from_str(document).ok();
        let keys = document.as_ref().and_then(JwkSet::from_document).filter(|keys| !keys.is_empty());
        let keys = keys.ok_or_else(|| AuthError::config("the JWK set has no usable public key"))?;
        self.keys = issuer_keys(&self.issuer, KeySource::Given(Arc::new(keys)));
        Ok(self)
    }

    /// Allows a client to use assertions of the issuer. At least one is needed.
    #[must_use]
    pub fn client(mut self, client_id: impl Into<String>) -> Self {
        self.clients.push(client_id.into());
        self
    }

    /// Allows a subject, or all that begin with the text before a last `*`. Without one, an identity provider may assert all
    /// its users.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subjects.push(subject.into());
        self
    }

    /// Sets the scopes that tokens have at most. Without them tokens have none.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    pub(in crate::authorization_server) fn is_identity_provider(&self) -> bool {
        self.kind == AssertionKind::IdJag
    }

    pub(in crate::authorization_server) fn check(&self) -> Result<()> {
        Trust::USER.check_url(&Url::parse(&self.issuer)?)?;
        let issuer = &self.issuer;
        if self.clients.is_empty() {
            return Err(AuthError::config(format!("the trusted issuer {issuer:?} needs a client")));
        }
        match self.kind == AssertionKind::Workload && self.subjects.is_empty() {
            true => Err(AuthError::config(format!(
                "the trusted issuer {issuer:?} needs the subjects of workloads"
            ))),
            false => Ok(()),
        }
    }

    pub(in crate::authorization_server) fn allows_client(&self, client_id: &str) -> bool {
        self.clients.iter().any(|allowed| allowed == client_id)
    }

    fn allows_subject(&self, subject: &str) -> bool {
        let fits = |allowed: &String| match allowed.strip_suffix('*') {
            Some(beginning) => subject.starts_with(beginning),
            None => subject == allowed,
        };
        self.subjects.is_empty() || self.subjects.iter().any(fits)
    }
}

impl AuthorizationState {
    pub(super) async fn exchange_assertion(
        &self,
        call: &TokenCall<'_>,
    ) -> Result<HttpResponse, EndpointError> {
        let assertion = call.form.get("assertion").unwrap_or_default();
        let jwt = UnverifiedJwt::parse(assertion).map_err(|error| invalid_grant(error.0))?;
        if !SIGNING_ALGORITHMS.contains(&jwt.algorithm) {
            return Err(invalid_grant("the algorithm of the assertion is not accepted").into());
        }
        let claimed = jwt.claimed_issuer().map_err(|error| invalid_grant(error.0))?;
        let is_jag = jwt.is_of_type("oauth-id-jag+jwt");
        let fits = |known: &&TrustedIssuer| {
            Some(&known.issuer) == claimed.as_ref() && known.is_identity_provider() == is_jag
        };
        let issuer = self.settings.issuers.iter().find(fits);
        let issuer = issuer.ok_or_else(|| invalid_grant("the issuer of the assertion is not trusted"))?;
        if !issuer.allows_client(&call.client.client_id) {
            return Err(invalid_grant("the client may not use assertions of this issuer").into());
        }
        let claims = issuer.keys.verify(&jwt).await.map_err(|error| match error {
            KeyError::Refused(reason) => EndpointError::from(invalid_grant(reason.0)),
            KeyError::Unavailable(error, _) => EndpointError::Unavailable(error.into()),
        })?;
        let subject = self.check_assertion_claims(issuer, &claims)?;
        match key_thumbprint(&claims).map_err(|error| invalid_grant(error.0))? {
            bound if bound.is_none() || bound == call.key => {}
            _ => {
                return Err(
                    invalid_grant("the assertion is bound to a key that the client did not prove").into()
                );
            }
        }
        self.use_proof(call).await?;
        let (resource, asserted) = match issuer.kind {
            AssertionKind::IdJag => self.check_id_jag(call, issuer, &claims).await?,
            AssertionKind::Workload => {
                let resource = self.settings.requested_resource(call.form);
                (resource.ok_or_else(unknown_resource)?.to_owned(), None)
            }
        };
        let wanted = call.form.get("scope").map(scopes::parse);
        let mut granted = issuer.scopes.clone();
        for limit in [asserted, wanted, call.client.scopes.clone()].into_iter().flatten() {
            granted.retain(|scope| limit.contains(scope));
        }
        granted.retain(|scope| self.settings.scope_names().any(|known| known == scope));
        let grant = TokenGrant {
            client_id: call.client.client_id.clone(),
            subject: format!("{}|{subject}", issuer.issuer),
            scopes: granted,
            resource,
            key: call.key.clone(),
            family: None,
            authenticated_at: None,
        };
        self.token_response(&grant, None).await
    }

    /// Checks the claims that all assertions have, and returns the subject.
    fn check_assertion_claims<'a>(
        &self,
        issuer: &TrustedIssuer,
        claims: &'a Claims,
    ) -> Result<&'a str, OAuthError> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("iss") != Some(&issuer.issuer) {
            return Err(invalid_grant("the issuer of the assertion is not trusted"));
        }
        let names_issuer = || match claims.get("aud") {
            Some(Value::Array(all)) => {
                all.len() == 1 && all.first().and_then(Value::as_str) == Some(&self.settings.issuer)
            }
            audience => audience.and_then(Value::as_str) == Some(&self.settings.issuer),
        };
        let is_for_us = match issuer.kind {
            AssertionKind::IdJag => names_issuer(),
            AssertionKind::Workload => self.is_own_audience(claims.get("aud")),
        };
        if !is_for_us {
            return Err(invalid_grant("the assertion is for another audience"));
        }
        let now = self.clock.seconds();
        let seconds =
            |name: &str| claims.get(name).and_then(Value::as_f64).map(|number| number.max(0.0) as u64);
        if seconds("exp").is_none_or(|exp| exp.saturating_add(LEEWAY_SECONDS) <= now) {
            return Err(invalid_grant("the assertion has expired"));
        }
        let begins = [seconds("nbf"), seconds("iat")];
        if begins.into_iter().flatten().any(|from| from > now + LEEWAY_SECONDS) {
            return Err(invalid_grant("the assertion is not valid yet"));
        }
        let subject = text("sub").filter(|subject| !subject.is_empty() && subject.len() <= 255);
        let subject = subject.ok_or_else(|| invalid_grant("the assertion names no subject"))?;
        match issuer.allows_subject(subject) {
            true => Ok(subject),
            false => Err(invalid_grant("the subject of the assertion is not allowed")),
        }
    }

    /// Checks what an ID-JAG has in addition. Returns its resource and its scopes.
    async fn check_id_jag(
        &self,
        call: &TokenCall<'_>,
        issuer: &TrustedIssuer,
        claims: &Claims,
    ) -> Result<(String, Option<Vec<String>>), EndpointError> {
        if call.client.is_public() {
            return Err(OAuthError::new("invalid_client", "the client must authenticate itself").into());
        }
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("client_id") != Some(&call.client.client_id) {
            return Err(invalid_grant("the assertion is for another client").into());
        }
        let named = text("resource").ok_or_else(|| invalid_grant("the assertion names no resource"))?;
        let known = self.settings.find_resource(named);
        let resource =
            known.ok_or_else(|| invalid_grant("the assertion is for another resource"))?.to_owned();
        self.check_resource(call, &resource)?;
        let now = self.clock.seconds();
        let seconds = |name: &str| claims.get(name).and_then(Value::as_u64);
        let (Some(issued), Some(expires)) = (seconds("iat"), seconds("exp")) else {
            return Err(invalid_grant("the assertion does not say when it was issued").into());
        };
        if expires.saturating_sub(issued) > MAX_ID_JAG_SECONDS {
            return Err(invalid_grant("the assertion is valid for too long").into());
        }
        let id = text("jti").ok_or_else(|| invalid_grant("the assertion has no id"))?;
        // Last: an assertion that is refused for another reason is not used up.
        let ttl = Duration::from_secs(expires.saturating_add(2 * LEEWAY_SECONDS).saturating_sub(now).max(1));
        if !self.records.claim("id-jag", &format!("{} {id}", issuer.issuer), ttl).await? {
            return Err(invalid_grant("the assertion was used before").into());
        }
        Ok((resource, Some(text("scope").map(scopes::parse).unwrap_or_default())))
    }
}

fn issuer_keys(issuer: &str, source: KeySource) -> Arc<IssuerKeys> {
    IssuerKeys::new(source, Issuer::new(issuer.to_owned()), KEY_REFRESH_INTERVAL)
}

fn unknown_resource() -> OAuthError {
    OAuthError::new("invalid_target", "tokens for this `resource` are not issued here")
}

impl fmt::Debug for TrustedIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrustedIssuer")
            .field("issuer", &self.issuer)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

const KEY_REFRESH_INTERVAL: Duration = Duration::from_secs(30);
const LEEWAY_SECONDS: u64 = 60;
/// An ID-JAG is exchanged at once; identity providers issue it for some minutes.
const MAX_ID_JAG_SECONDS: u64 = 60 * 60;
