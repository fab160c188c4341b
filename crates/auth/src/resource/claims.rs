//! The claims of a token: who it is from, who it is for, when it is valid, and what it allows. Pure functions over time.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use tsugite::server::Principal;
use tsugite::transport::http::Verified;

use crate::jose::{Claims, JwtError};
use crate::net::Url;
use crate::scopes;

/// The claims that a token must have.
#[derive(Debug, Clone)]
pub(crate) struct ClaimRules {
    /// Compared byte for byte.
    pub(crate) issuer: Option<String>,
    /// Accepted beside the address of the server.
    pub(crate) audiences: Vec<String>,
    pub(crate) leeway: Duration,
    /// Where scopes stand, beside `scope` and `scp`: the names of nested members.
    pub(crate) scope_claims: Vec<Vec<String>>,
    pub(crate) subject_required: bool,
    /// Whether `iss` and `exp` must be there, as in a JWT. The answer of an introspection endpoint may leave them out.
    pub(crate) complete: bool,
}

impl Default for ClaimRules {
    fn default() -> Self {
        Self {
            issuer: None,
            audiences: Vec::new(),
            leeway: Duration::from_secs(60),
            scope_claims: Vec::new(),
            subject_required: false,
            complete: true,
        }
    }
}

impl ClaimRules {
    /// Checks the claims of a token that was sent to `resource` at the time `now`, in seconds since 1970.
    pub(crate) fn check(&self, claims: Claims, resource: &str, now: u64) -> Result<Verified, JwtError> {
        let issuer = self.check_issuer(&claims)?;
        self.check_audience(&claims, resource)?;
        let expires_at = self.check_time(&claims, now)?;
        let thumbprint = key_thumbprint(&claims)?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
        let subject = text("sub");
        let client_id = [text("client_id"), text("azp")].into_iter().find(|id| !id.is_empty());
        if subject.is_empty() && (self.subject_required || client_id.is_none()) {
            return Err(JwtError("the token names no subject"));
        }
        let mut principal = Principal::new(subject)
            .with_issuer(issuer)
            .with_client_id(client_id.unwrap_or_default())
            .with_scopes(self.scopes(&claims)?);
        if let Some(seconds) = expires_at {
            // An expiry that no clock can show is none.
            let expiry = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
            principal = expiry.into_iter().fold(principal, Principal::with_expiry);
        }
        let verified = Verified::new(principal.with_claims(claims));
        Ok(thumbprint.into_iter().fold(verified, Verified::bound_to_key))
    }

    fn check_issuer(&self, claims: &Claims) -> Result<String, JwtError> {
        let wrong = JwtError("the token is from another issuer");
        match (&self.issuer, claims.get("iss")) {
            (Some(issuer), Some(Value::String(named))) if issuer == named => Ok(named.clone()),
            (Some(issuer), None) if !self.complete => Ok(issuer.clone()),
            (None, None) => Ok(String::new()),
            (None, Some(Value::String(named))) => Ok(named.clone()),
            _ => Err(wrong),
        }
    }

    /// One audience must be this server. A longer or shorter path is another server.
    fn check_audience(&self, claims: &Claims, resource: &str) -> Result<(), JwtError> {
        let malformed = JwtError("the audience of the token is malformed");
        let named = match claims.get("aud") {
            None => return Err(JwtError("the token names no audience")),
            Some(Value::String(audience)) => vec![audience.as_str()],
            Some(Value::Array(all)) => {
                all.iter().map(Value::as_str).collect::<Option<_>>().ok_or(malformed)?
            }
            Some(_) => return Err(malformed),
        };
        let own = Url::parse(resource).ok();
        let is_own = |audience: &&str| {
            let is_resource = || {
                let audience = Url::parse(audience).ok();
                own.as_ref()
                    .zip(audience.as_ref())
                    .is_some_and(|(own, audience)| own.is_same_resource(audience))
            };
            self.audiences.iter().any(|known| known == audience) || is_resource()
        };
        match named.iter().any(is_own) {
            true => Ok(()),
            false => Err(JwtError("the token is for another audience")),
        }
    }

    /// Returns when the token is no longer accepted, in seconds since 1970.
    fn check_time(&self, claims: &Claims, now: u64) -> Result<Option<u64>, JwtError> {
        let leeway = self.leeway.as_secs();
        if let Some(not_before) = seconds(claims, "nbf")?
            && not_before > now.saturating_add(leeway)
        {
            return Err(JwtError("the token is not valid yet"));
        }
        let expires_at = match seconds(claims, "exp")? {
            Some(expiry) => expiry.saturating_add(leeway),
            None if self.complete => return Err(JwtError("the token has no expiry")),
            None => return Ok(None),
        };
        match expires_at > now {
            true => Ok(Some(expires_at)),
            false => Err(JwtError("the token has expired")),
        }
    }

    fn scopes(&self, claims: &Claims) -> Result<Vec<String>, JwtError> {
        let mut all = Vec::new();
        let usual = [vec!["scope".to_owned()], vec!["scp".to_owned()]];
        for path in usual.iter().chain(&self.scope_claims) {
            let Some((first, rest)) = path.split_first() else { continue };
            let value = rest.iter().try_fold(claims.get(first), |value, name| Some(value?.get(name)));
            let granted = match value.flatten() {
                None | Some(Value::Null) => continue,
                Some(Value::String(text)) => scopes::parse(text),
                Some(Value::Array(items)) => {
                    let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
                    texts
                        .collect::<Option<Vec<_>>>()
                        .ok_or(JwtError("the scopes of the token are malformed"))?
                }
                Some(_) => return Err(JwtError("the scopes of the token are malformed")),
            };
            all = scopes::union(&all, &granted);
        }
        Ok(all)
    }
}

/// The key that the token is bound to. A binding of another kind cannot be checked, so such a token is refused.
pub(crate) fn key_thumbprint(claims: &Claims) -> Result<Option<String>, JwtError> {
    let Some(confirmation) = claims.get("cnf") else { return Ok(None) };
    let members = confirmation.as_object().filter(|members| members.len() == 1);
    match members.and_then(|members| members.get("jkt")).and_then(Value::as_str) {
        Some(thumbprint) if !thumbprint.is_empty() => Ok(Some(thumbprint.to_owned())),
        _ => Err(JwtError("the token is bound to its sender in a way that is not supported")),
    }
}

/// A time in seconds since 1970, which may have a fraction.
fn seconds(claims: &Claims, name: &str) -> Result<Option<u64>, JwtError> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let whole = value.as_u64();
    let seconds =
        whole.or_else(|| value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64));
    seconds.map(Some).ok_or(JwtError("a time in the token is malformed"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: u64 = 1_000_000;
    const RESOURCE: &str = "https://notes.example/mcp";

    fn rules() -> ClaimRules {
        ClaimRules { issuer: Some("https://idp.example".to_owned()), ..ClaimRules::default() }
    }

    /// Valid claims with changes; null leaves a claim out.
    fn claims(changes: Value) -> Claims {
        let base = json!({
            "iss": "https://idp.example", "aud": RESOURCE, "sub": "ann", "client_id": "app", "exp": NOW + 100,
        });
        let mut all = base.as_object().unwrap().clone();
        all.extend(changes.as_object().unwrap().clone());
        all.retain(|_, value| !value.is_null());
        all
    }

    fn check(rules: &ClaimRules, changes: Value) -> Result<Verified, JwtError> {
        rules.check(claims(changes), RESOURCE, NOW)
    }

    /// The reason of the refusal, or nothing.
    fn refusal(changes: Value) -> &'static str {
        check(&rules(), changes).map_or_else(|error| error.0, |_| "")
    }

    fn assert_refusals(cases: impl IntoIterator<Item = (Value, &'static str)>) {
        for (changes, reason) in cases {
            let refused = refusal(changes.clone());
            assert!(
                refused.contains(reason) && refused.is_empty() == reason.is_empty(),
                "{changes}: {refused}"
            );
        }
    }

    #[test]
    fn principal_has_what_the_token_says() {
        let changes = json!({"scope": "a b", "scp": ["b", "c"], "tenant": 7});
        let verified = check(&rules(), changes).unwrap();
        let principal = verified.principal();
        assert_eq!((principal.issuer(), principal.subject()), ("https://idp.example", "ann"));
        assert_eq!((principal.client_id(), principal.claims()["tenant"].as_u64()), ("app", Some(7)));
        assert_eq!(principal.scopes(), ["a", "b", "c"]);
        assert_eq!(principal.expires_at(), Some(UNIX_EPOCH + Duration::from_secs(NOW + 160)));
        assert_eq!(verified.key_thumbprint(), None);
    }

    #[test]
    fn issuer_is_compared_byte_for_byte() {
        assert_refusals([
            (json!({"iss": "https://idp.example/"}), "issuer"),
            (json!({"iss": "https://IDP.example"}), "issuer"),
            (json!({"iss": "https://evil.example"}), "issuer"),
            (json!({"iss": ["https://idp.example"]}), "issuer"),
            (json!({"iss": null}), "issuer"),
        ]);
    }

    #[test]
    fn token_must_be_for_this_server() {
        // ARS-015, ARS-030, A-02
        assert_refusals([
            (json!({"aud": ["https://other.example", RESOURCE]}), ""),
            (json!({"aud": "HTTPS://Notes.EXAMPLE:443/mcp"}), ""),
            (json!({"aud": null}), "no audience"),
            (json!({"aud": []}), "audience"),
            (json!({"aud": [RESOURCE, 1]}), "malformed"),
            (json!({"aud": {}}), "malformed"),
            (json!({"aud": "https://notes.example"}), "another audience"),
            (json!({"aud": "https://notes.example/mc"}), "another audience"),
            (json!({"aud": "https://notes.example/mcp2"}), "another audience"),
            (json!({"aud": "https://notes.example/mcp/admin"}), "another audience"),
            (json!({"aud": "https://notes.example/MCP"}), "another audience"),
            (json!({"aud": "https://notes.example/mcp?x"}), "another audience"),
            (json!({"aud": "https://notes.example.evil.example/mcp"}), "another audience"),
            (json!({"aud": "http://notes.example/mcp"}), "another audience"),
            (json!({"aud": ""}), "another audience"),
        ]);
        let further = ClaimRules { audiences: vec!["api://notes".to_owned()], ..rules() };
        assert!(check(&further, json!({"aud": "api://notes"})).is_ok());
        assert!(check(&further, json!({"aud": "API://notes"})).is_err());
        // The address of the server is not known.
        assert!(rules().check(claims(json!({"aud": ""})), "", NOW).is_err());
    }

    #[test]
    fn token_is_valid_between_its_times() {
        assert_refusals([
            (json!({"exp": NOW - 59}), ""),
            (json!({"exp": NOW - 60}), "expired"),
            (json!({"exp": NOW as f64 - 59.5}), "expired"),
            (json!({"exp": 0}), "expired"),
            (json!({"exp": -1}), "malformed"),
            (json!({"exp": "never"}), "malformed"),
            (json!({"exp": null}), "no expiry"),
            (json!({"exp": u64::MAX}), ""),
            (json!({"exp": 1e300}), ""),
            (json!({"nbf": NOW + 60}), ""),
            (json!({"nbf": NOW + 61}), "not valid yet"),
            (json!({"nbf": []}), "malformed"),
        ]);
        let exact = ClaimRules { leeway: Duration::ZERO, ..rules() };
        assert!(check(&exact, json!({"exp": NOW + 1, "nbf": NOW})).is_ok());
        assert!(
            check(&exact, json!({"exp": NOW})).is_err() && check(&exact, json!({"nbf": NOW + 1})).is_err()
        );
    }

    #[test]
    fn token_names_a_subject_or_a_client() {
        assert_refusals([
            (json!({"sub": null}), ""),
            (json!({"sub": null, "client_id": null, "azp": "app"}), ""),
            (json!({"sub": null, "client_id": null}), "subject"),
            (json!({"sub": "", "client_id": ""}), "subject"),
            (json!({"sub": 1, "client_id": null}), "subject"),
        ]);
        let strict = ClaimRules { subject_required: true, ..rules() };
        assert!(check(&strict, json!({"sub": null})).is_err() && check(&strict, json!({})).is_ok());
    }

    #[test]
    fn scopes_stand_where_the_issuer_writes_them() {
        let roles = ["realm_access", "roles"].map(str::to_owned).to_vec();
        let rules = ClaimRules { scope_claims: vec![roles, vec!["https://h/roles".to_owned()]], ..rules() };
        let changes = json!({"scope": "a", "realm_access": {"roles": ["b"]}, "https://h/roles": "c d"});
        assert_eq!(check(&rules, changes).unwrap().principal().scopes(), ["a", "b", "c", "d"]);
        assert!(check(&rules, json!({"realm_access": 1})).unwrap().principal().scopes().is_empty());
        assert_refusals([
            (json!({"scope": ["a", "b"]}), ""),
            (json!({"scope": ["a", 1]}), "scopes"),
            (json!({"scp": {"a": true}}), "scopes"),
            (json!({"scope": 1}), "scopes"),
        ]);
    }

    #[test]
    fn binding_to_a_key_is_kept_and_others_are_refused() {
        let bound = check(&rules(), json!({"cnf": {"jkt": "abc"}})).unwrap();
        assert_eq!(bound.key_thumbprint(), Some("abc"));
        for confirmation in
            [json!({}), json!({"x5t#S256": "abc"}), json!({"jkt": ""}), json!("abc"), json!(false)]
        {
            assert!(refusal(json!({ "cnf": confirmation })).contains("bound"), "{confirmation}");
        }
        assert!(refusal(json!({"cnf": {"jkt": "abc", "x5t#S256": "abc"}})).contains("bound"));
    }
}
