//! [`SigningKey`]: a private key that signs tokens.

use std::fmt;
use std::sync::Arc;

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512,
    RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use tsugite::base64;

use super::Algorithm;
use crate::error::{AuthError, Result};
use crate::secret::Secret;

/// A private key that signs tokens. `Debug` shows its algorithm only.
#[derive(Clone)]
pub struct SigningKey {
    algorithm: Algorithm,
    pair: Arc<Pair>,
    key_id: Option<String>,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>),
}

impl SigningKey {
    /// Reads a private key in PKCS #8 from PEM (`-----BEGIN PRIVATE KEY-----`).
    pub fn from_pem(pem: &str, algorithm: Algorithm) -> Result<Self> {
        let begin = "-----BEGIN PRIVATE KEY-----";
        let body = pem.split_once(begin).and_then(|(_, rest)| rest.split_once("-----END PRIVATE KEY-----"));
        let (body, _) =
            body.ok_or_else(|| AuthError::config("the private key is not in PKCS #8 (BEGIN PRIVATE KEY)"))?;
        let body: String = body.split_whitespace().collect();
        let der = base64::decode(&body).ok_or_else(|| AuthError::config("the private key is not base64"))?;
        Self::from_pkcs8(&der, algorithm)
    }

    /// Reads a private key in PKCS #8.
    pub fn from_pkcs8(der: &[u8], algorithm: Algorithm) -> Result<Self> {
        let random = SystemRandom::new();
        let pair = match algorithm {
            Algorithm::Es256 => {
                EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random).map(Pair::Ecdsa)
            }
            Algorithm::Es384 => {
                EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, der, &random).map(Pair::Ecdsa)
            }
            Algorithm::EdDsa => Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map(Pair::Ed25519),
            _ => RsaKeyPair::from_pkcs8(der).map(|pair| Pair::Rsa(Box::new(pair))),
        };
        let pair = pair.map_err(|error| {
            AuthError::config(format!("the private key cannot be used for {}: {error}", algorithm.name()))
        })?;
        Ok(Self { algorithm, pair: Arc::new(pair), key_id: None })
    }

    /// Generates a key for ES256. Returns it also in PKCS #8 and base64, to be stored.
    pub(crate) fn generate() -> Result<(Self, Secret)> {
        let generated = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let der = generated.map_err(|_| AuthError::config("cannot generate a key"))?;
        let key = Self::from_pkcs8(der.as_ref(), Algorithm::Es256)?;
        Ok((key, Secret::new(base64::encode(der.as_ref()))))
    }

    /// Reads what [`generate`](Self::generate) returned.
    pub(crate) fn from_stored(text: &Secret) -> Result<Self> {
        let der = base64::decode(text.expose()).ok_or_else(|| AuthError::store("a stored key is invalid"))?;
        Self::from_pkcs8(&der, Algorithm::Es256)
    }

    /// Sets the id of the key (`kid`) in the tokens it signs.
    pub fn key_id(mut self, id: impl Into<String>) -> Self {
        self.key_id = Some(id.into());
        self
    }

    /// The algorithm of the key.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The public key as a JWK.
    pub(crate) fn public_jwk(&self) -> Result<Value> {
        let curve = |name: &str, point: &[u8]| {
            let coordinates = point.strip_prefix(&[4])?;
            let (x, y) = coordinates.split_at_checked(coordinates.len() / 2)?;
            Some(json!({"kty": "EC", "crv": name, "x": base64::encode_url(x), "y": base64::encode_url(y)}))
        };
        let jwk = match (&*self.pair, self.algorithm) {
            (Pair::Ecdsa(pair), Algorithm::Es256) => curve("P-256", pair.public_key().as_ref()),
            (Pair::Ecdsa(pair), _) => curve("P-384", pair.public_key().as_ref()),
            (Pair::Ed25519(pair), _) => {
                let x = base64::encode_url(pair.public_key().as_ref());
                Some(json!({"kty": "OKP", "crv": "Ed25519", "x": x}))
            }
            (Pair::Rsa(pair), _) => {
                let RsaPublicKeyComponents::<Vec<u8>> { n, e } = pair.public_key().into();
                Some(json!({"kty": "RSA", "n": base64::encode_url(&n), "e": base64::encode_url(&e)}))
            }
        };
        jwk.ok_or_else(|| AuthError::config("the key has no public JWK"))
    }

    /// Signs claims as a compact JWT. The header gets `alg` and `kid` in addition.
    pub(crate) fn sign_jwt(&self, header: &[(&str, Value)], claims: &[(&str, Value)]) -> Result<String> {
        let mut all = vec![("alg", json!(self.algorithm.name()))];
        all.extend(self.key_id.as_ref().map(|id| ("kid", json!(id))));
        all.extend(header.iter().cloned());
        let part = |members: &[(&str, Value)]| {
            let members = members.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            base64::encode_url(Value::Object(members.collect()).to_string().as_bytes())
        };
        let input = format!("{}.{}", part(&all), part(claims));
        let signature = self.sign(input.as_bytes())?;
        Ok(format!("{input}.{}", base64::encode_url(&signature)))
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let random = SystemRandom::new();
        let failed = |_| AuthError::config("cannot sign with the private key");
        match &*self.pair {
            Pair::Ecdsa(pair) => Ok(pair.sign(&random, message).map_err(failed)?.as_ref().to_vec()),
            Pair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let padding: &dyn RsaEncoding = match self.algorithm {
                    Algorithm::Rs384 => &RSA_PKCS1_SHA384,
                    Algorithm::Rs512 => &RSA_PKCS1_SHA512,
                    Algorithm::Ps256 => &RSA_PSS_SHA256,
                    Algorithm::Ps384 => &RSA_PSS_SHA384,
                    Algorithm::Ps512 => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                pair.sign(padding, &random, message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}
