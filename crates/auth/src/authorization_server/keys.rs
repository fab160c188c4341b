//! The keys that sign access tokens: sealed in the store, shared by all replicas, and replaced one after the other.
//!
//! A new key is published before it signs, so that verifiers that keep the old key set for a while know it. An old key is
//! published until the last token that it signed has expired.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tsugite::store::{Precondition, StoreError};

use super::clock::Clock;
use super::records::Records;
use crate::jose::{Claims, Jwk, JwkSet, JwtError, SigningKey, UnverifiedJwt, random_text};
use crate::secret::{Secret, stored};

/// The signing keys of one issuer.
pub(super) struct SigningKeys {
    records: Arc<Records>,
    clock: Clock,
    /// The time after which a key is replaced.
    rotation_interval: Duration,
    /// The longest time for which a token is valid.
    token_ttl: Duration,
    loaded: Mutex<Option<Arc<KeySet>>>,
}

/// The keys at one time, oldest first.
pub(super) struct KeySet {
    keys: Vec<PublishedKey>,
    loaded_at: u64,
    /// The public keys.
    verifying: JwkSet,
}

/// A key and its public half.
pub(super) struct PublishedKey {
    field: String,
    created: u64,
    key: SigningKey,
    public: Value,
}

#[derive(Serialize, Deserialize)]
struct StoredKey {
    kid: String,
    created: u64,
    #[serde(with = "stored")]
    private_key: Secret,
}

impl SigningKeys {
    pub(super) fn new(
        records: Arc<Records>,
        clock: Clock,
        rotation_interval: Duration,
        token_ttl: Duration,
    ) -> Self {
        Self { records, clock, rotation_interval, token_ttl, loaded: Mutex::default() }
    }

    /// The current keys. They are read again once a minute, and a key is made where one is due.
    pub(super) async fn current(&self) -> Result<Arc<KeySet>, StoreError> {
        let now = self.clock.seconds();
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(keys) = loaded.filter(|keys| now < keys.loaded_at + RELOAD_SECONDS) {
            return Ok(keys);
        }
        let keys = Arc::new(self.load(now).await?);
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&keys));
        Ok(keys)
    }

    async fn load(&self, now: u64) -> Result<KeySet, StoreError> {
        let record = self.records.key("keys", "");
        // Another replica may make a key at the same time; the one that comes second reads it.
        for _ in 0..MAX_ATTEMPTS {
            let (mut keys, mut last_number) = (Vec::new(), 0);
            for (field, stored) in self.records.list::<StoredKey>(&record).await? {
                last_number = field.parse::<u64>().unwrap_or(last_number);
                // The seal key of one without a value was retired; its number is taken all the same.
                if let Some(stored) = stored {
                    keys.push(PublishedKey::open(field, &stored)?);
                }
            }
            let is_due =
                keys.last().is_none_or(|last| last.created + self.rotation_interval.as_secs() <= now);
            if !is_due {
                self.drop_retired(&record, &mut keys, now).await?;
                return Ok(KeySet::new(keys, now));
            }
            let (_, private_key) = SigningKey::generate()?;
            let kid = random_text()?.chars().take(KID_CHARS).collect();
            let stored = StoredKey { kid, created: now, private_key };
            let field = format!("{:012}", last_number + 1);
            self.records.write((&record, &field), &stored, Precondition::FieldAbsent, RECORD_TTL).await?;
        }
        Err("other replicas replace the signing keys again and again".into())
    }

    /// Removes keys whose last tokens have expired.
    async fn drop_retired(
        &self,
        record: &str,
        keys: &mut Vec<PublishedKey>,
        now: u64,
    ) -> Result<(), StoreError> {
        let kept_for = PUBLISHED_AHEAD_SECONDS + self.token_ttl.as_secs() + RELOAD_SECONDS + LEEWAY_SECONDS;
        while let [_, successor, ..] = keys.as_slice() {
            if successor.created + kept_for > now {
                break;
            }
            let retired = keys.remove(0);
            self.records.remove_field(record, &retired.field).await?;
        }
        Ok(())
    }
}

impl KeySet {
    fn new(keys: Vec<PublishedKey>, loaded_at: u64) -> Self {
        let public = keys.iter().filter_map(|key| serde_json::from_value::<Jwk>(key.public.clone()).ok());
        Self { verifying: JwkSet::new(public), keys, loaded_at }
    }

    /// The key that signs now: the newest one that verifiers had the time to fetch.
    pub(super) fn signer(&self) -> Result<&SigningKey, StoreError> {
        let is_known = |key: &&PublishedKey| key.created + PUBLISHED_AHEAD_SECONDS <= self.loaded_at;
        let signer = self.keys.iter().rev().find(is_known).or(self.keys.first());
        signer.map(|signer| &signer.key).ok_or_else(|| "there is no signing key".into())
    }

    /// The key set for verifiers (RFC 7517).
    pub(super) fn to_json(&self) -> Value {
        json!({"keys": self.keys.iter().map(|key| key.public.clone()).collect::<Vec<_>>()})
    }

    /// Verifies the signature of an access token, and returns its claims.
    pub(super) fn verify(&self, token: &UnverifiedJwt<'_>) -> Result<Claims, JwtError> {
        self.verifying.verify(token)
    }
}

impl PublishedKey {
    fn open(field: String, stored: &StoredKey) -> Result<Self, StoreError> {
        let key = SigningKey::from_stored(&stored.private_key)?.key_id(&stored.kid);
        let mut public = key.public_jwk()?;
        if let Some(members) = public.as_object_mut() {
            members.insert("kid".to_owned(), json!(stored.kid));
            members.insert("alg".to_owned(), json!(key.algorithm().name()));
            members.insert("use".to_owned(), json!("sig"));
        }
        Ok(Self { field, created: stored.created, key, public })
    }
}

const RELOAD_SECONDS: u64 = 60;
/// Longer than verifiers may keep a key set (`max-age` of the key set).
const PUBLISHED_AHEAD_SECONDS: u64 = 15 * 60;
const LEEWAY_SECONDS: u64 = 5 * 60;
const MAX_ATTEMPTS: usize = 5;
const KID_CHARS: usize = 16;
/// Longer than any key is kept. Each new key renews it.
const RECORD_TTL: Duration = Duration::from_secs(2 * 365 * 24 * 60 * 60);
