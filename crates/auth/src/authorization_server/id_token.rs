//! ID tokens of the OpenID provider: what it says about a user.

use serde_json::Value;

use super::clients::SIGNING_ALGORITHMS;
use super::openid::ProviderConnection;
use crate::error::{AuthError, Result};
use crate::jose::{Claims, UnverifiedJwt};
use crate::resource::KeyError;
use crate::secret::Secret;

impl ProviderConnection {
    /// Verifies an ID token. The first one of a login has the nonce of the login; a renewed one need not have it.
    pub(super) async fn verify_id_token(&self, token: &str, nonce: Option<&str>, now: u64) -> Result<Claims> {
        let jwt = UnverifiedJwt::parse(token).map_err(|error| AuthError::token(error.0))?;
        if !SIGNING_ALGORITHMS.contains(&jwt.algorithm) {
            return Err(AuthError::token("the algorithm of the ID token is not accepted"));
        }
        let claims = self.keys.verify(&jwt).await.map_err(|error| match error {
            KeyError::Refused(reason) => AuthError::token(reason.0),
            KeyError::Unavailable(error, _) => error,
        })?;
        self.check_id_token(&claims, nonce, now)?;
        Ok(claims)
    }

    /// Checks the claims of an ID token (OpenID Connect Core, 3.1.3.7 and 12.2).
    fn check_id_token(&self, claims: &Claims, nonce: Option<&str>, now: u64) -> Result<()> {
        let refused = |reason: &str| Err(AuthError::token(format!("the ID token of the provider {reason}")));
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let client_id = self.provider.client_id.as_str();
        if text("iss") != Some(&self.provider.issuer) {
            return refused("is from another issuer");
        }
        let is_for_us = match claims.get("aud") {
            Some(Value::String(audience)) => audience == client_id,
            Some(Value::Array(all)) => {
                let is_named = all.iter().any(|each| each.as_str() == Some(client_id));
                is_named && (all.len() == 1 || text("azp") == Some(client_id))
            }
            _ => false,
        };
        if !is_for_us {
            return refused("is for another client");
        }
        if nonce.is_some_and(|nonce| text("nonce").map(Secret::from) != Some(Secret::from(nonce))) {
            return refused("belongs to another login");
        }
        let seconds =
            |name: &str| claims.get(name).and_then(Value::as_f64).map(|number| number.max(0.0) as u64);
        if seconds("exp").is_none_or(|exp| exp.saturating_add(LEEWAY_SECONDS) <= now) {
            return refused("has expired");
        }
        match text("sub").is_some_and(|subject| !subject.is_empty() && subject.len() <= 255) {
            true => Ok(()),
            false => refused("names no user"),
        }
    }
}

const LEEWAY_SECONDS: u64 = 60;
