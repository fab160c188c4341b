//! Verification of proofs, for resource servers and authorization servers (RFC 9449, 4.3). It does no I/O: nonces are in
//! `nonce.rs`, and the record that a proof was used is in `replay.rs`.

use std::fmt;

use serde_json::{Map, Value};

use crate::jose::{Algorithm, Claims, Jwk, UnverifiedJwt, has_private_members, sha256_text};
use crate::net::Url;

/// The request that a proof must be for.
pub(crate) struct ProvenRequest<'a> {
    pub(crate) method: &'a str,
    /// The URL as the server is known to its clients. Query and fragment do not count.
    pub(crate) url: &'a str,
    /// The access token that the request carries; none at a token endpoint.
    pub(crate) token: Option<&'a str>,
}

/// A proof whose signature and claims are verified. The caller still checks the nonce, and that it is used once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VerifiedProof {
    /// The thumbprint of the key (RFC 7638), which the token is bound to as `cnf.jkt`.
    pub(crate) thumbprint: String,
    /// The id of the proof (`jti`).
    pub(crate) id: String,
    pub(crate) nonce: Option<String>,
    /// When it was made, in seconds since 1970.
    pub(crate) issued_at: u64,
}

/// Why a proof was refused. The text contains no part of the proof, so that a client may see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProofError(pub(crate) &'static str);

impl fmt::Display for ProofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for ProofError {}

/// Verifies the proof of a request at the time `now`, in seconds since 1970.
pub(crate) fn verify_proof(
    proof: &str,
    request: &ProvenRequest<'_>,
    algorithms: &[Algorithm],
    now: u64,
) -> Result<VerifiedProof, ProofError> {
    let jwt = UnverifiedJwt::parse(proof).map_err(|error| match error.0 {
        reason if reason.contains("algorithm") => ProofError("the algorithm of the proof is not accepted"),
        _ => ProofError("the proof is malformed"),
    })?;
    if !jwt.is_of_type("dpop+jwt") {
        return Err(ProofError("the type of the proof is not dpop+jwt"));
    }
    if !algorithms.contains(&jwt.algorithm) {
        return Err(ProofError("the algorithm of the proof is not accepted"));
    }
    let key = public_key(jwt.embedded_key())?;
    let claims = jwt.verify(&key).map_err(|_| ProofError("the signature of the proof is invalid"))?;
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("htm") != Some(request.method) {
        return Err(ProofError("the proof is for another method"));
    }
    let wanted = normalized(request.url).ok_or(ProofError("the URL of the server is malformed"))?;
    if text("htu").and_then(normalized) != Some(wanted) {
        return Err(ProofError("the proof is for another URL"));
    }
    if let Some(token) = request.token
        && text("ath") != Some(&sha256_text(token))
    {
        return Err(ProofError("the proof is for another token"));
    }
    let issued_at = seconds(&claims, "iat").ok_or(ProofError("the proof does not say when it was made"))?;
    if issued_at.abs_diff(now) > MAX_AGE_SECONDS {
        return Err(ProofError("the proof was not made within the last 5 minutes; check the clock"));
    }
    let id = text("jti").filter(|id| (1..=MAX_ID_BYTES).contains(&id.len()));
    let thumbprint = key.thumbprint().map_err(|_| ProofError("the key of the proof is malformed"))?;
    Ok(VerifiedProof {
        thumbprint,
        id: id.ok_or(ProofError("the proof has no id of 1 to 256 bytes"))?.to_owned(),
        nonce: text("nonce").map(str::to_owned),
        issued_at,
    })
}

impl VerifiedProof {
    /// For how many seconds after `now` the proof could be used again, and has to be remembered: also at a replica whose clock
    /// is behind this one.
    pub(crate) fn seconds_to_remember(&self, now: u64) -> u64 {
        (self.issued_at + MAX_AGE_SECONDS + CLOCK_DIFFERENCE_SECONDS).saturating_sub(now) + 1
    }
}

/// The key in the header of a proof. A private key must not be there.
fn public_key(members: Option<&Map<String, Value>>) -> Result<Jwk, ProofError> {
    let members = members.ok_or(ProofError("the proof contains no key"))?;
    if has_private_members(members) {
        return Err(ProofError("the proof contains a private key"));
    }
    serde_json::from_value(Value::Object(members.clone()))
        .map_err(|_| ProofError("the key of the proof is malformed"))
}

fn seconds(claims: &Claims, name: &str) -> Option<u64> {
    let value = claims.get(name)?;
    value.as_u64().or_else(|| value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64))
}

/// A URL as RFC 9449, 4.3 compares it: without query and fragment, and after the normalization of RFC 3986, 6.2.2 and
/// 6.2.3.
fn normalized(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let scheme = if url.secure { "https" } else { "http" };
    let mut path = String::with_capacity(url.path().len().max(1));
    let mut rest = url.path();
    while let Some((before, after)) = rest.split_once('%') {
        path.push_str(before);
        let (digits, after) = after.split_at_checked(2)?;
        let byte = u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => path.push(char::from(byte)),
            false => path.push_str(&format!("%{byte:02X}")),
        }
        rest = after;
    }
    path.push_str(rest);
    if path.is_empty() {
        path.push('/');
    }
    Some(format!("{scheme}://{}:{}{path}", url.host, url.port))
}

/// A proof is valid from 5 minutes before until 5 minutes after it was made, since clocks differ (ARS-035).
const MAX_AGE_SECONDS: u64 = 300;

/// The clocks of replicas differ by less.
const CLOCK_DIFFERENCE_SECONDS: u64 = 60;

const MAX_ID_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dpop::Proof;
    use crate::jose::SigningKey;
    use serde_json::json;

    const NOW: u64 = 1_562_262_700;
    const URL: &str = "https://server.example/mcp";

    fn request(token: Option<&str>) -> ProvenRequest<'_> {
        ProvenRequest { method: "POST", url: URL, token }
    }

    fn key() -> SigningKey {
        SigningKey::generate().unwrap().0
    }

    /// A proof with other members in its header and claims; null leaves one out.
    fn signed(key: &SigningKey, header: Value, claims: Value) -> String {
        let with = |base: Value, changes: &Value| {
            let mut all = base.as_object().unwrap().clone();
            all.extend(changes.as_object().unwrap().clone());
            all.retain(|_, value| !value.is_null());
            all.into_iter().collect::<Vec<_>>()
        };
        let header = with(json!({"typ": "dpop+jwt", "jwk": key.public_jwk().unwrap()}), &header);
        let base = json!({
            "jti": "1", "htm": "POST", "htu": URL, "iat": NOW, "ath": sha256_text("t"),
        });
        let claims = with(base, &claims);
        let borrowed = |all: &[(String, Value)]| -> Vec<(&'static str, Value)> {
            all.iter().map(|(name, value)| (&*name.clone().leak(), value.clone())).collect()
        };
        key.sign_jwt(&borrowed(&header), &borrowed(&claims)).unwrap()
    }

    fn refusal(header: Value, claims: Value) -> &'static str {
        let proof = signed(&key(), header, claims);
        verify_proof(&proof, &request(Some("t")), &Algorithm::ALL, NOW).map_or_else(|error| error.0, |_| "")
    }

    #[test]
    fn example_of_rfc_9449_is_accepted() {
        let proof = "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0Rs\
              cEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.e\
              yJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0Ijox\
              NTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg";
        let request =
            ProvenRequest { method: "POST", url: "https://SERVER.example.com:443/token?x#y", token: None };
        let verified = verify_proof(proof, &request, &[Algorithm::Es256], NOW).unwrap();
        assert_eq!(verified.thumbprint, "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I");
        assert_eq!((verified.id.as_str(), verified.issued_at), ("-BwC3ESc6acc2lTc", 1_562_262_616));
        assert!(verify_proof(proof, &request, &[Algorithm::EdDsa], NOW).is_err());
    }

    #[test]
    fn proofs_of_our_client_are_accepted() {
        let key = key();
        let proof = Proof { verb: "POST", url: URL, token: Some("t"), nonce: Some("n") }.sign(&key).unwrap();
        let now = crate::dpop::now();
        let verified = verify_proof(&proof, &request(Some("t")), &Algorithm::ALL, now).unwrap();
        assert_eq!(verified.nonce.as_deref(), Some("n"));
        assert!(verify_proof(&proof, &request(Some("u")), &Algorithm::ALL, now).is_err());
    }

    #[test]
    fn proof_for_another_request_is_refused() {
        for (claims, reason) in [
            (json!({}), ""),
            (json!({"htm": "GET"}), "method"),
            (json!({"htm": null}), "method"),
            (json!({"htu": "https://server.example/mcp2"}), "URL"),
            (json!({"htu": "https://server.example/mcp/"}), "URL"),
            (json!({"htu": "https://server.example:8443/mcp"}), "URL"),
            (json!({"htu": "http://server.example/mcp"}), "URL"),
            (json!({"htu": "https://evil.example/mcp"}), "URL"),
            (json!({"htu": "/mcp"}), "URL"),
            (json!({"htu": null}), "URL"),
            (json!({"htu": "HTTPS://Server.Example:443/%6dcp?x=1#y"}), ""),
            (json!({"ath": sha256_text("u")}), "token"),
            (json!({"ath": "t"}), "token"),
            (json!({"ath": null}), "token"),
            (json!({"jti": null}), "id"),
            (json!({"jti": ""}), "id"),
            (json!({"jti": "x".repeat(257)}), "id"),
            (json!({"jti": 1}), "id"),
        ] {
            let refused = refusal(json!({}), claims.clone());
            assert!(
                refused.contains(reason) && refused.is_empty() == reason.is_empty(),
                "{claims}: {refused}"
            );
        }
    }

    #[test]
    fn proof_is_valid_for_five_minutes() {
        for (issued_at, is_valid) in [
            (json!(NOW - 300), true),
            (json!(NOW - 301), false),
            (json!(NOW + 300), true),
            (json!(NOW + 301), false),
            (json!(NOW as f64 + 0.5), true),
            (json!(-1), false),
            (json!("now"), false),
            (json!(u64::MAX), false),
            (json!(1e300), false),
        ] {
            assert_eq!(refusal(json!({}), json!({"iat": issued_at})).is_empty(), is_valid, "{issued_at}");
        }
        let proof = signed(&key(), json!({}), json!({"iat": NOW + 300}));
        let proof = verify_proof(&proof, &request(Some("t")), &Algorithm::ALL, NOW).unwrap();
        assert_eq!(proof.seconds_to_remember(NOW), 661);
    }

    #[test]
    fn header_of_a_proof_must_be_safe() {
        let (own, other) = (key(), key());
        let private = |name: &str| {
            let mut jwk = own.public_jwk().unwrap();
            jwk[name] = json!("eA");
            jwk
        };
        for (header, reason) in [
            (json!({"typ": "JWT"}), "type"),
            (json!({"typ": null}), "type"),
            (json!({"jwk": null}), "no key"),
            (json!({"jwk": "x"}), "no key"),
            (json!({"jwk": {"kty": 1}}), "malformed"),
            (json!({"jwk": other.public_jwk().unwrap()}), "signature"),
            (json!({"jwk": {"kty": "oct", "k": "eA"}}), "private key"),
            (json!({"jwk": private("d")}), "private key"),
            (json!({"alg": "HS256"}), "algorithm"),
            (json!({"alg": "none"}), "algorithm"),
            (json!({"crit": ["x"]}), "malformed"),
        ] {
            let refused = refusal(header.clone(), json!({}));
            assert!(refused.contains(reason), "{header}: {refused}");
        }
        for text in ["", "x", "a.b.c", &"x".repeat(1 << 20)] {
            assert!(verify_proof(text, &request(None), &Algorithm::ALL, NOW).is_err());
        }
    }

    #[test]
    fn urls_are_normalized_before_they_are_compared() {
        let same = |one: &str, two: &str| normalized(one) == normalized(two) && normalized(one).is_some();
        assert!(same("https://h", "https://h/") && same("https://h/a%2fb", "https://H:443/a%2Fb"));
        assert!(!same("https://h/a/b", "https://h/a%2Fb") && !same("https://h/A", "https://h/a"));
        for malformed in ["https://h/%", "https://h/%+1", "https://h/%g0", "h/a", ""] {
            assert_eq!(normalized(malformed), None, "{malformed}");
        }
    }
}
