//! [`UnverifiedJwt`]: a compact JWT that is parsed within limits, and its verification.
//!
//! Of the header only `alg`, `kid`, `typ` and, for proofs, `jwk` are read. `jku`, `x5u` and `x5c` would let the sender
//! choose the key, so they are ignored. `crit` names extensions that must be understood; none is.

use std::fmt;

use serde_json::{Map, Value};
use tsugite::base64;

use super::strict_json::parse_object;
use super::{Algorithm, Jwk};

/// The claims of a token.
pub(crate) type Claims = Map<String, Value>;

/// A compact JWT whose signature is not verified yet. Its claims are read by [`verify`](Self::verify) alone.
pub(crate) struct UnverifiedJwt<'a> {
    header: Map<String, Value>,
    pub(crate) algorithm: Algorithm,
    /// The text that is signed.
    input: &'a str,
    claims: &'a str,
    signature: Vec<u8>,
}

impl<'a> UnverifiedJwt<'a> {
    /// Parses a token of at most 16 KiB.
    pub(crate) fn parse(token: &'a str) -> Result<Self, JwtError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(JwtError("the token is larger than 16 KiB"));
        }
        let malformed = JwtError("the token is not a signed JWT");
        let (input, signature) = token.rsplit_once('.').ok_or(malformed)?;
        let (header, claims) = input.split_once('.').ok_or(malformed)?;
        if header.len() > MAX_HEADER_BYTES || claims.contains('.') {
            return Err(malformed);
        }
        let header = base64::decode_url(header).and_then(|text| parse_object(&text)).ok_or(malformed)?;
        if header.contains_key("crit") {
            return Err(JwtError("the token needs an extension that is not supported"));
        }
        let algorithm = header.get("alg").and_then(Value::as_str).and_then(Algorithm::from_name);
        let algorithm = algorithm.ok_or(JwtError("the algorithm of the token is not accepted"))?;
        let signature = base64::decode_url(signature).filter(|bytes| !bytes.is_empty()).ok_or(malformed)?;
        Ok(Self { header, algorithm, input, claims, signature })
    }

    /// The id of the key that signed the token.
    pub(crate) fn key_id(&self) -> Option<&str> {
        self.header.get("kid").and_then(Value::as_str)
    }

    /// Whether the token is of a type. `application/` may be left out, and case does not count (RFC 7515, 4.1.9).
    pub(crate) fn is_of_type(&self, wanted: &str) -> bool {
        let Some(typ) = self.header.get("typ").and_then(Value::as_str) else { return false };
        let short = match typ.split_at_checked("application/".len()) {
            Some((prefix, rest)) if prefix.eq_ignore_ascii_case("application/") => rest,
            _ => typ,
        };
        short.eq_ignore_ascii_case(wanted)
    }

    /// Whether the token says its type.
    pub(crate) fn has_type(&self) -> bool {
        self.header.contains_key("typ")
    }

    /// The key in the header. Only a proof of possession is verified with it.
    pub(crate) fn embedded_key(&self) -> Option<&Map<String, Value>> {
        self.header.get("jwk").and_then(Value::as_object)
    }

    /// The issuer that the token names. Anyone can write it: it only selects the keys that the token is verified with.
    pub(crate) fn claimed_issuer(&self) -> Result<Option<String>, JwtError> {
        Ok(self.claims()?.get("iss").and_then(Value::as_str).map(str::to_owned))
    }

    /// Verifies the signature and returns the claims. It checks no claim.
    pub(crate) fn verify(&self, key: &Jwk) -> Result<Claims, JwtError> {
        key.verify(self.algorithm.name(), self.input.as_bytes(), &self.signature)
            .map_err(|_| JwtError("the signature of the token is invalid"))?;
        self.claims()
    }

    fn claims(&self) -> Result<Claims, JwtError> {
        let claims = base64::decode_url(self.claims).and_then(|text| parse_object(&text));
        claims.ok_or(JwtError("the claims of the token are malformed"))
    }

    /// The header.
    pub(crate) fn header(&self) -> &Map<String, Value> {
        &self.header
    }
}

/// The issuer that a token names, also if it could not be verified because of its header: a token with an algorithm that is
/// not supported is still one of its issuer. `None` if it is no JWT, or names none.
pub(crate) fn claimed_issuer(token: &str) -> Option<String> {
    let mut parts = Some(token).filter(|token| token.len() <= MAX_TOKEN_BYTES)?.split('.');
    let (_, claims, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    let claims = base64::decode_url(claims).and_then(|text| parse_object(&text))?;
    claims.get("iss").and_then(Value::as_str).map(str::to_owned)
}

/// Why a token was refused. The text contains no part of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JwtError(pub(crate) &'static str);

impl fmt::Display for JwtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for JwtError {}

const MAX_TOKEN_BYTES: usize = 16 << 10;
const MAX_HEADER_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jose::SigningKey;
    use serde_json::json;

    fn token(header: &str, claims: &str) -> String {
        format!("{}.{}.c2ln", base64::encode_url(header.as_bytes()), base64::encode_url(claims.as_bytes()))
    }

    fn refusal(token: &str) -> &'static str {
        UnverifiedJwt::parse(token).err().map_or("", |error| error.0)
    }

    #[test]
    fn tokens_are_parsed_within_limits() {
        let padding = |bytes: usize| token(r#"{"alg":"ES256"}"#, &"x".repeat(bytes));
        assert!(UnverifiedJwt::parse(&padding(12_000)).is_ok());
        assert!(refusal(&padding(13_000)).contains("16 KiB"));
        let long = format!(r#"{{"alg":"ES256","x":"{}"}}"#, "x".repeat(4096));
        for malformed in [
            String::new(),
            ".".to_owned(),
            "..".to_owned(),
            "a.b.c.d.e".to_owned(),
            token(&long, "{}"),
            token("[]", "{}"),
            token(r#"{"alg":"ES256","alg":"ES256"}"#, "{}"),
            token(r#"{"alg":"ES256"}"#, "{}").replace(".c2ln", "."),
        ] {
            assert!(refusal(&malformed).contains("signed JWT"), "{malformed}");
        }
        for header in [r#"{"alg":"none"}"#, r#"{"alg":"HS256"}"#, r#"{"alg":1}"#, "{}", r#"{"alg":"es256"}"#]
        {
            assert!(refusal(&token(header, "{}")).contains("algorithm"), "{header}");
        }
        assert!(refusal(&token(r#"{"alg":"ES256","crit":[]}"#, "{}")).contains("extension"));
    }

    #[test]
    fn type_is_compared_without_case_and_prefix() {
        for (typ, is_of_type) in [
            (r#""at+jwt""#, true),
            (r#""AT+JWT""#, true),
            (r#""application/at+jwt""#, true),
            (r#""Application/at+JWT""#, true),
            (r#""JWT""#, false),
            (r#""application/""#, false),
            ("1", false),
        ] {
            let token = token(&format!(r#"{{"alg":"ES256","typ":{typ}}}"#), "{}");
            assert_eq!(UnverifiedJwt::parse(&token).unwrap().is_of_type("at+jwt"), is_of_type, "{typ}");
        }
    }

    #[test]
    fn claims_that_are_named_twice_are_refused() {
        let (key, _) = SigningKey::generate().unwrap();
        let public: Jwk = serde_json::from_value(key.public_jwk().unwrap()).unwrap();
        let good = key.sign_jwt(&[], &[("sub", json!("x"))]).unwrap();
        assert!(UnverifiedJwt::parse(&good).unwrap().verify(&public).is_ok());
        let (head, _) = good.split_once('.').unwrap();
        let input = format!("{head}.{}", base64::encode_url(br#"{"aud":"a","aud":"b"}"#));
        let signature = base64::encode_url(&key.sign(input.as_bytes()).unwrap());
        let token = format!("{input}.{signature}");
        let error = UnverifiedJwt::parse(&token).unwrap().verify(&public).unwrap_err();
        assert!(error.0.contains("claims"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in "\\PC*", parts in "[A-Za-z0-9_.-]{0,80}") {
            let _ = (UnverifiedJwt::parse(&text).is_ok(), UnverifiedJwt::parse(&parts).is_ok());
        }
    }
}
