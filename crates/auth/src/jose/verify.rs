//! [`Jwk`]: a public key that verifies tokens.

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::Value;
use tsugite::base64;

use super::jwt::UnverifiedJwt;
use super::{Algorithm, sha256_text};

/// A public key of a JSON Web Key Set.
#[derive(Debug, Clone, Default, Deserialize)]
#[non_exhaustive]
pub struct Jwk {
    /// The kind of key: `EC`, `OKP` or `RSA`.
    pub kty: String,
    /// The id of the key.
    pub kid: Option<String>,
    /// The only algorithm that the key is for.
    pub alg: Option<String>,
    /// The use of the key: `sig` or `enc`.
    #[serde(rename = "use")]
    pub usage: Option<String>,
    /// The operations that the key is for.
    pub key_ops: Option<Vec<String>>,
    /// The curve.
    pub crv: Option<String>,
    /// A coordinate of the public point.
    pub x: Option<String>,
    /// The other coordinate.
    pub y: Option<String>,
    /// The modulus of RSA.
    pub n: Option<String>,
    /// The exponent of RSA.
    pub e: Option<String>,
}

/// The signature is invalid, the key is malformed, or the algorithm is none of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyError;

impl std::fmt::Display for VerifyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the signature of the token is invalid")
    }
}

impl std::error::Error for VerifyError {}

impl Jwk {
    /// Verifies a compact JWT and returns its header and claims. It checks no claim.
    pub fn verify_jwt(&self, token: &str, algorithms: &[&str]) -> Result<(Value, Value), VerifyError> {
        let token = UnverifiedJwt::parse(token).map_err(|_| VerifyError)?;
        if !algorithms.contains(&token.algorithm.name()) {
            return Err(VerifyError);
        }
        let claims = token.verify(self).map_err(|_| VerifyError)?;
        Ok((Value::Object(token.header().clone()), Value::Object(claims)))
    }

    /// Verifies a signature. The algorithm must fit the key.
    pub fn verify(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> Result<(), VerifyError> {
        if !Algorithm::from_name(algorithm).is_some_and(|algorithm| self.supports(algorithm)) {
            return Err(VerifyError);
        }
        match (self.kty.as_str(), self.crv.as_deref(), algorithm) {
            ("EC", Some("P-256"), "ES256") => {
                check(&ECDSA_P256_SHA256_FIXED, &self.point(32)?, message, signature)
            }
            ("EC", Some("P-384"), "ES384") => {
                check(&ECDSA_P384_SHA384_FIXED, &self.point(48)?, message, signature)
            }
            ("OKP", Some("Ed25519"), "EdDSA" | "Ed25519") => {
                check(&ED25519, &decode(&self.x)?, message, signature)
            }
            ("RSA", _, "RS256") => self.check_rsa(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            ("RSA", _, "RS384") => self.check_rsa(&RSA_PKCS1_2048_8192_SHA384, message, signature),
            ("RSA", _, "RS512") => self.check_rsa(&RSA_PKCS1_2048_8192_SHA512, message, signature),
            ("RSA", _, "PS256") => self.check_rsa(&RSA_PSS_2048_8192_SHA256, message, signature),
            ("RSA", _, "PS384") => self.check_rsa(&RSA_PSS_2048_8192_SHA384, message, signature),
            ("RSA", _, "PS512") => self.check_rsa(&RSA_PSS_2048_8192_SHA512, message, signature),
            _ => Err(VerifyError),
        }
    }

    /// Whether the kind, the algorithm and the use of the key allow to verify with it.
    pub(crate) fn supports(&self, algorithm: Algorithm) -> bool {
        use Algorithm::{EdDsa, Es256, Es384};
        let kind = match algorithm {
            Es256 => ("EC", Some("P-256")),
            Es384 => ("EC", Some("P-384")),
            EdDsa => ("OKP", Some("Ed25519")),
            _ => ("RSA", None),
        };
        let (kty, crv) = kind;
        self.kty == kty
            && (crv.is_none() || self.crv.as_deref() == crv)
            && self.alg.as_deref().is_none_or(|only| Algorithm::from_name(only) == Some(algorithm))
            && self.usage.as_deref().is_none_or(|usage| usage == "sig")
            && self.key_ops.as_ref().is_none_or(|all| all.iter().any(|operation| operation == "verify"))
    }

    /// The thumbprint of the key with SHA-256 (RFC 7638), in base64url. Fails if a member is missing or malformed.
    pub fn thumbprint(&self) -> Result<String, VerifyError> {
        let number = |value: &Option<String>| match decode(value)?.is_empty() {
            true => Err(VerifyError),
            false => value.clone().ok_or(VerifyError),
        };
        let crv = self.crv.as_deref();
        // The members that the kind requires, in the order of their names.
        let text = match (self.kty.as_str(), crv) {
            ("EC", Some(crv @ ("P-256" | "P-384"))) => {
                let (x, y) = (number(&self.x)?, number(&self.y)?);
                format!(r#"{{"crv":"{crv}","kty":"EC","x":"{x}","y":"{y}"}}"#)
            }
            ("OKP", Some(crv @ "Ed25519")) => {
                format!(r#"{{"crv":"{crv}","kty":"OKP","x":"{}"}}"#, number(&self.x)?)
            }
            ("RSA", _) => format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, number(&self.e)?, number(&self.n)?),
            _ => return Err(VerifyError),
        };
        Ok(sha256_text(&text))
    }

    /// The uncompressed point of a curve.
    fn point(&self, length: usize) -> Result<Vec<u8>, VerifyError> {
        let (x, y) = (decode(&self.x)?, decode(&self.y)?);
        if x.len() != length || y.len() != length {
            return Err(VerifyError);
        }
        Ok([&[4], &*x, &*y].concat())
    }

    fn check_rsa(
        &self,
        parameters: &RsaParameters,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), VerifyError> {
        let (n, e) = (decode(&self.n)?, decode(&self.e)?);
        let key = RsaPublicKeyComponents { n: trim(&n), e: trim(&e) };
        key.verify(parameters, message, signature).map_err(|_| VerifyError)
    }
}

fn check(
    algorithm: &'static dyn VerificationAlgorithm,
    key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Result<(), VerifyError> {
    UnparsedPublicKey::new(algorithm, key).verify(message, signature).map_err(|_| VerifyError)
}

fn decode(text: &Option<String>) -> Result<Vec<u8>, VerifyError> {
    base64::decode_url(text.as_deref().unwrap_or_default()).ok_or(VerifyError)
}

/// Numbers are without leading zeros in `ring`.
fn trim(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}
