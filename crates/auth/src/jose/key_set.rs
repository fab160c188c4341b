//! [`JwkSet`]: the public keys of an issuer, and the choice among them.

use serde_json::{Map, Value};

use super::jwt::{Claims, JwtError, UnverifiedJwt};
use super::{Algorithm, Jwk};

/// The keys of an issuer that can verify signatures.
#[derive(Debug, Clone, Default)]
pub(crate) struct JwkSet {
    keys: Vec<Jwk>,
}

impl JwkSet {
    /// Reads a JWK set (RFC 7517, 5). Keys of other kinds and uses are left out. `None` if it has no `keys`.
    pub(crate) fn from_document(document: &Map<String, Value>) -> Option<Self> {
        let keys = document.get("keys")?.as_array()?.iter().take(MAX_KEYS);
        let keys = keys.filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok());
        Some(Self::new(keys))
    }

    pub(crate) fn new(keys: impl IntoIterator<Item = Jwk>) -> Self {
        Self { keys: keys.into_iter().filter(Jwk::is_usable).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether the token names one of these keys. If not, it may be signed with a key that is newer than the set.
    pub(crate) fn has_named_key(&self, token: &UnverifiedJwt<'_>) -> bool {
        token.key_id().is_some() && self.candidates(token).any(|key| key.kid.as_deref() == token.key_id())
    }

    /// Verifies the signature with the keys that the header allows, and returns the claims.
    pub(crate) fn verify(&self, token: &UnverifiedJwt<'_>) -> Result<Claims, JwtError> {
        let mut refused = JwtError("no key of the issuer fits the token");
        for key in self.candidates(token).take(MAX_TRIED_KEYS) {
            match token.verify(key) {
                Ok(claims) => return Ok(claims),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// The keys with the id of the token, or without one, that are for its algorithm.
    fn candidates<'a>(&'a self, token: &'a UnverifiedJwt<'_>) -> impl Iterator<Item = &'a Jwk> {
        let id = token.key_id();
        let fits = move |key: &&Jwk| match (id, key.kid.as_deref()) {
            (Some(wanted), Some(known)) => wanted == known,
            (None, _) | (_, None) => true,
        };
        self.keys.iter().filter(fits).filter(|key| key.supports(token.algorithm))
    }
}

impl Jwk {
    /// Whether the key verifies signatures of some algorithm.
    fn is_usable(&self) -> bool {
        Algorithm::ALL.into_iter().any(|algorithm| self.supports(algorithm))
    }
}

/// Whether a JWK has members that only a private or a shared key has.
pub(crate) fn has_private_members(members: &Map<String, Value>) -> bool {
    PRIVATE_MEMBERS.iter().any(|name| members.contains_key(*name))
}

const PRIVATE_MEMBERS: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// The most keys of a set that are read.
const MAX_KEYS: usize = 100;

/// The most keys that one token is verified with, since each costs a signature check.
const MAX_TRIED_KEYS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jose::SigningKey;
    use serde_json::json;

    fn set(keys: Value) -> JwkSet {
        JwkSet::from_document(json!({ "keys": keys }).as_object().unwrap()).unwrap()
    }

    fn verify(keys: Value, token: &str) -> bool {
        set(keys).verify(&UnverifiedJwt::parse(token).unwrap()).is_ok()
    }

    /// A public key with further members.
    fn public(key: &SigningKey, more: Value) -> Value {
        let mut jwk = key.public_jwk().unwrap();
        jwk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        jwk
    }

    #[test]
    fn key_is_chosen_by_id_algorithm_and_use() {
        let key = SigningKey::generate().unwrap().0.key_id("a");
        let token = key.sign_jwt(&[], &[]).unwrap();
        for (more, is_used) in [
            (json!({}), true),
            (json!({"kid": "a", "use": "sig", "alg": "ES256", "key_ops": ["verify"]}), true),
            (json!({"kid": "b"}), false),
            (json!({"use": "enc"}), false),
            (json!({"alg": "ES384"}), false),
            (json!({"key_ops": ["encrypt"]}), false),
            (json!({"kty": "oct", "k": "c2VjcmV0"}), false),
        ] {
            assert_eq!(verify(json!([public(&key, more.clone())]), &token), is_used, "{more}");
        }
    }

    #[test]
    fn keys_of_other_kinds_do_not_spoil_a_set() {
        let key = SigningKey::generate().unwrap().0;
        let token = key.sign_jwt(&[], &[]).unwrap();
        let odd = json!([1, {"kty": 1}, {"kty": "oct", "k": "eA"}, {"kty": "XX"}, public(&key, json!({}))]);
        assert_eq!(set(odd.clone()).keys.len(), 1);
        assert!(verify(odd, &token));
        assert!(JwkSet::from_document(&Map::new()).is_none());
        let many: Vec<Value> = (0..1000).map(|_| public(&key, json!({}))).collect();
        assert_eq!(set(json!(many)).keys.len(), MAX_KEYS);
    }

    #[test]
    fn few_keys_are_tried_for_one_token() {
        let key = SigningKey::generate().unwrap().0;
        let other = SigningKey::generate().unwrap().0;
        let token = key.sign_jwt(&[], &[]).unwrap();
        let keys = |others: usize| {
            let mut keys: Vec<Value> = (0..others).map(|_| public(&other, json!({}))).collect();
            keys.push(public(&key, json!({})));
            json!(keys)
        };
        assert!(verify(keys(MAX_TRIED_KEYS - 1), &token));
        assert!(!verify(keys(MAX_TRIED_KEYS), &token));
    }
}
