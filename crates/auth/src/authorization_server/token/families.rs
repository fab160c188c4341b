//! Families of refresh tokens: all that follow from one code.
//!
//! Each refresh token is replaced when it is used. A client that lost the answer may repeat its request for a short time and
//! gets the same successor; any other use of an old token means that it was stolen, and revokes the family.

use serde::{Deserialize, Serialize};
use tsugite::store::{Precondition, StoreError};

use super::{CodeRecord, TokenCall};
use crate::authorization_server::AuthorizationState;
use crate::authorization_server::records::{FIELD, hex_digest};
use crate::authorization_server::users::EarlierLogin;
use crate::error::Result;
use crate::jose::random_text;
use crate::secret::{Secret, stored};

/// A family. Its record is named by its own random name, which is the first half of its refresh tokens.
#[derive(Clone, Serialize, Deserialize)]
pub(in crate::authorization_server) struct Family {
    pub(in crate::authorization_server) client_id: String,
    pub(super) subject: String,
    /// The generation of the user at the login.
    #[serde(default)]
    pub(super) generation: String,
    pub(super) scopes: Vec<String>,
    pub(super) resource: String,
    /// The thumbprint of the key that the tokens are bound to.
    pub(super) key: Option<String>,
    pub(super) authenticated_at: u64,
    /// The name of the login at the provider, for a user of the provider.
    #[serde(default)]
    pub(super) provider_grant: Option<String>,
    /// The digest of the valid refresh token.
    current: String,
    previous: Option<ReplacedToken>,
}

/// The refresh token before the valid one.
#[derive(Clone, Serialize, Deserialize)]
struct ReplacedToken {
    digest: String,
    /// Until when a repeated request gets the same successor.
    repeatable_until: u64,
    #[serde(with = "stored")]
    successor: Secret,
}

impl Family {
    pub(super) fn login(&self) -> EarlierLogin<'_> {
        let Self { subject, generation, provider_grant, .. } = self;
        EarlierLogin { subject, generation, provider_grant: provider_grant.as_deref() }
    }

    /// Whether a token is an old one, and not a request that is repeated.
    pub(super) fn is_reused(&self, token: &str, now: u64) -> bool {
        let digest = hex_digest(token);
        !self.is_current(&digest) && self.repeatable(&digest, now).is_none()
    }

    fn is_current(&self, digest: &str) -> bool {
        Secret::from(self.current.as_str()) == Secret::from(digest)
    }

    /// The replaced token with this digest, while its request may be repeated.
    fn repeatable(&self, digest: &str, now: u64) -> Option<&ReplacedToken> {
        let is_previous =
            |previous: &&ReplacedToken| Secret::from(previous.digest.as_str()) == Secret::from(digest);
        self.previous.as_ref().filter(is_previous).filter(|previous| now < previous.repeatable_until)
    }
}

/// The outcome of using a refresh token.
pub(super) enum Rotation {
    /// The successor, and the family.
    Rotated(Secret, Box<Family>),
    /// An old token was used: the family is revoked.
    Reused,
    Unknown,
}

impl AuthorizationState {
    /// Begins the family of a code, and returns its first refresh token.
    pub(super) async fn start_family(
        &self,
        call: &TokenCall<'_>,
        code: &CodeRecord,
    ) -> Result<String, StoreError> {
        let token = new_token(&code.family)?;
        let family = Family {
            client_id: code.client_id.clone(),
            subject: code.subject.clone(),
            generation: code.generation.clone(),
            scopes: code.scopes.clone(),
            resource: code.resource.clone(),
            key: call.key.clone(),
            authenticated_at: code.authenticated_at,
            provider_grant: code.provider_grant.clone(),
            current: hex_digest(token.expose()),
            previous: None,
        };
        let (key, ttl) = (self.records.key("family", &code.family), self.settings.refresh_token_ttl);
        self.records.write((&key, FIELD), &family, Precondition::FieldAbsent, ttl).await?;
        Ok(token.expose().to_owned())
    }

    /// The family that a refresh token belongs to and its name, whether or not the token is still valid.
    pub(in crate::authorization_server) async fn find_family(
        &self,
        token: &str,
    ) -> Result<Option<(String, Family)>, StoreError> {
        let Some(name) = family_name(token) else { return Ok(None) };
        let family = self.records.read::<Family>(&self.records.key("family", name), FIELD).await?;
        Ok(family.map(|family| (name.to_owned(), family.value)))
    }

    /// Replaces a refresh token, if `check` accepts the family.
    pub(super) async fn rotate<E: From<StoreError>>(
        &self,
        token: &str,
        check: impl Fn(&Family) -> Result<(), E>,
    ) -> Result<Rotation, E> {
        let Some(name) = family_name(token) else { return Ok(Rotation::Unknown) };
        let (key, digest) = (self.records.key("family", name), hex_digest(token));
        for _ in 0..MAX_ATTEMPTS {
            let Some(found) = self.records.read::<Family>(&key, FIELD).await? else {
                return Ok(Rotation::Unknown);
            };
            let family = found.value;
            check(&family)?;
            let now = self.clock.seconds();
            if !family.is_current(&digest) {
                return match family.repeatable(&digest, now) {
                    Some(previous) => Ok(Rotation::Rotated(previous.successor.clone(), Box::new(family))),
                    None => {
                        self.revoke_family(name).await?;
                        Ok(Rotation::Reused)
                    }
                };
            }
            let successor = new_token(name).map_err(StoreError::from)?;
            let rotated = Family {
                current: hex_digest(successor.expose()),
                previous: Some(ReplacedToken {
                    digest: digest.clone(),
                    repeatable_until: now + REPEATABLE_SECONDS,
                    successor: successor.clone(),
                }),
                ..family
            };
            let (version, ttl) = (Precondition::FieldVersion(found.version), self.settings.refresh_token_ttl);
            if self.records.write((&key, FIELD), &rotated, version, ttl).await? {
                return Ok(Rotation::Rotated(successor, Box::new(rotated)));
            }
            // Another request with the same token was faster: this one is its repetition.
        }
        Err(StoreError::from("a refresh token is replaced by others again and again").into())
    }

    /// Revokes a family: its refresh tokens at once, its access tokens where they are verified next.
    pub(in crate::authorization_server) async fn revoke_family(&self, name: &str) -> Result<(), StoreError> {
        // The access tokens first: if this fails, the revocation is tried again with the next use.
        self.revoke_access(&hex_digest(name)).await?;
        self.records.delete(&self.records.key("family", name)).await
    }
}

/// A refresh token: the name of the family, and a secret of its own.
fn new_token(family: &str) -> Result<Secret> {
    Ok(Secret::new(format!("{family}.{}", random_text()?)))
}

fn family_name(token: &str) -> Option<&str> {
    let (family, secret) = token.split_once('.')?;
    (family.len() == 43 && secret.len() == 43).then_some(family)
}

/// For this long, and until the successor is used, a replaced token returns the same successor.
const REPEATABLE_SECONDS: u64 = 10;
const MAX_ATTEMPTS: usize = 8;
