//! Authentication of clients at the token and revocation endpoints.

use std::sync::Arc;

use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, StatusCode};
use serde_json::Value;
use tsugite::base64;

use super::client_keys::given_keys;
use super::{Client, ClientAuth, ClientOrigin};
use crate::authorization_server::AuthorizationState;
use crate::authorization_server::http_message::{EndpointError, HttpRequest, OAuthError, Params};
use crate::authorization_server::records::hex_digest;
use crate::jose::{Algorithm, UnverifiedJwt};
use crate::net::decode_form;
use crate::resource::{IssuerKeys, KeyError};
use crate::secret::Secret;

/// The algorithms of assertions and proofs of clients. All are asymmetric.
pub(in crate::authorization_server) const SIGNING_ALGORITHMS: &[Algorithm] =
    &[Algorithm::Es256, Algorithm::Es384, Algorithm::EdDsa, Algorithm::Rs256, Algorithm::Ps256];

/// The proof that a request contains.
enum Presented<'a> {
    Nothing,
    Basic(Secret),
    Post(Secret),
    Assertion(&'a str),
}

impl AuthorizationState {
    /// The client that sent a request. Fails with `invalid_client` if it is unknown, or does not prove that it is it.
    pub(in crate::authorization_server) async fn authenticate_client(
        &self,
        request: &HttpRequest,
        form: &Params,
    ) -> Result<Client, EndpointError> {
        let (client_id, presented) = presented(request, form).ok_or_else(|| refused(request))?;
        let found = self.find_client(&client_id, request.client).await?;
        let client = found.ok_or_else(|| refused(request))?;
        let is_authentic = match (&client.auth, presented) {
            (ClientAuth::None, Presented::Nothing) => true,
            (ClientAuth::SecretBasic(digest) | ClientAuth::Secret(digest), Presented::Basic(secret))
            | (ClientAuth::SecretPost(digest) | ClientAuth::Secret(digest), Presented::Post(secret)) => {
                self.check_secret(request, &client, &secret, digest).await?
            }
            (ClientAuth::Keys(keys), Presented::Assertion(assertion)) => {
                self.check_assertion(request, &client, assertion, &given_keys(keys)).await?
            }
            (ClientAuth::KeysAt(url), Presented::Assertion(assertion)) => {
                let keys = self.keys_at(url, request.client).await?;
                self.check_assertion(request, &client, assertion, &keys).await?
            }
            _ => false,
        };
        match is_authentic {
            true => Ok(client),
            false => Err(refused(request).into()),
        }
    }

    /// Compares a secret, unless too many were wrong.
    async fn check_secret(
        &self,
        request: &HttpRequest,
        client: &Client,
        secret: &Secret,
        digest: &str,
    ) -> Result<bool, EndpointError> {
        if self.is_guessing(&client.client_id, request.client).await? {
            return Err(OAuthError::too_many(std::time::Duration::from_secs(2)).into());
        }
        let is_right = Secret::new(hex_digest(secret.expose())) == Secret::from(digest);
        if !is_right {
            self.count_wrong_secret(&client.client_id, request.client).await?;
        }
        Ok(is_right)
    }

    /// Checks an assertion of a client about itself (RFC 7523, 3). Each is accepted once.
    async fn check_assertion(
        &self,
        request: &HttpRequest,
        client: &Client,
        assertion: &str,
        keys: &Arc<IssuerKeys>,
    ) -> Result<bool, EndpointError> {
        let Ok(jwt) = UnverifiedJwt::parse(assertion) else { return Ok(false) };
        if !SIGNING_ALGORITHMS.contains(&jwt.algorithm) {
            return Ok(false);
        }
        let claims = match keys.verify(&jwt).await {
            Ok(claims) => claims,
            Err(KeyError::Refused(_)) => return Ok(false),
            Err(KeyError::Unavailable(error, _)) => return Err(error.into()),
        };
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let is_own = [text("iss"), text("sub")] == [Some(client.client_id.as_str()); 2];
        let is_for_us = self.is_own_audience(claims.get("aud"));
        let now = self.clock.seconds();
        let seconds = |name: &str| claims.get(name).and_then(Value::as_f64).map(|number| number as u64);
        let expires = seconds("exp").filter(|exp| (now..=now + MAX_ASSERTION_SECONDS).contains(exp));
        let has_begun = seconds("nbf").is_none_or(|from| from <= now + LEEWAY_SECONDS);
        let (Some(expires), Some(id), true) = (expires, text("jti"), is_own && is_for_us && has_begun) else {
            return Ok(false);
        };
        if client.origin == ClientOrigin::Document && !self.spend_assertion(request.client).await? {
            return Err(OAuthError::too_many(std::time::Duration::from_secs(2)).into());
        }
        let name = format!("{} {id}", client.client_id);
        let ttl = std::time::Duration::from_secs(expires - now + LEEWAY_SECONDS);
        Ok(self.records.claim("assertion", &name, ttl).await?)
    }

    /// Whether an audience names this server alone: its issuer, or its token endpoint.
    pub(in crate::authorization_server) fn is_own_audience(&self, audience: Option<&Value>) -> bool {
        let is_own = |text: &str| text == self.settings.issuer || text == self.url("/token");
        match audience {
            Some(Value::String(text)) => is_own(text),
            Some(Value::Array(all)) => match all.as_slice() {
                [Value::String(text)] => is_own(text),
                _ => false,
            },
            _ => false,
        }
    }
}

/// The client id of a request, and the one proof that it contains. `None` if it is malformed or there are two.
fn presented<'a>(request: &HttpRequest, form: &'a Params) -> Option<(String, Presented<'a>)> {
    let named = form.get("client_id");
    let assertion = form.get("client_assertion");
    let (client_id, presented) =
        match (request.has_header("authorization"), form.get("client_secret"), assertion) {
            (true, None, None) => {
                let (id, secret) = basic_credentials(request.header("authorization")?)?;
                (id, Presented::Basic(secret))
            }
            (false, Some(secret), None) => (named?.to_owned(), Presented::Post(Secret::new(secret))),
            (false, None, Some(assertion)) => {
                if form.get("client_assertion_type") != Some(ASSERTION_TYPE) {
                    return None;
                }
                let claimed = UnverifiedJwt::parse(assertion).ok()?.claimed_issuer().ok()??;
                (claimed, Presented::Assertion(assertion))
            }
            (false, None, None) => (named?.to_owned(), Presented::Nothing),
            _ => return None,
        };
    named.is_none_or(|named| named == client_id).then_some((client_id, presented))
}

/// The credentials of a `Basic` header. Both parts are form-encoded (RFC 6749, 2.3.1).
fn basic_credentials(header: &str) -> Option<(String, Secret)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(base64::decode(encoded.trim())?).ok()?;
    let (id, secret) = pair.split_once(':')?;
    // A part that is no valid encoding is meant as it is: some clients do not encode.
    let decode = |part: &str| match decode_form(&format!("v={part}")).as_deref() {
        Some([(_, value)]) if !part.contains('&') => value.clone(),
        _ => part.to_owned(),
    };
    Some((decode(id), Secret::new(decode(secret))))
}

/// The same error whatever is wrong, so that it tells nothing about which clients exist.
fn refused(request: &HttpRequest) -> OAuthError {
    let mut error = OAuthError::new("invalid_client", "the client is unknown or did not authenticate itself");
    error.status = StatusCode::UNAUTHORIZED;
    if request.has_header("authorization") {
        error.headers.push((WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"token\"")));
    }
    error
}

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const MAX_ASSERTION_SECONDS: u64 = 600;
const LEEWAY_SECONDS: u64 = 60;
