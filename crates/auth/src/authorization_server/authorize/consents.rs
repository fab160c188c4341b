//! The registry of what each user has allowed each client.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tsugite::store::{Precondition, StoreError};

use super::browser::LoggedIn;
use super::request::AuthorizeRequest;
use crate::authorization_server::AuthorizationState;
use crate::authorization_server::clients::{RedirectKind, redirect_kind};
use crate::authorization_server::records::hex_digest;

/// The permission that a user has given to a client.
#[derive(Serialize, Deserialize)]
struct Consent {
    /// The generation of the user.
    #[serde(default)]
    generation: String,
    redirect_uri: String,
    resource: String,
    scopes: Vec<String>,
}

impl AuthorizationState {
    /// Whether a user has allowed all of this before, to the same client at the same address.
    ///
    /// An address on this machine, or of an application, proves nothing about the program that listens there: its user is
    /// always asked.
    pub(super) async fn has_consented(
        &self,
        user: &LoggedIn,
        request: &AuthorizeRequest,
    ) -> Result<bool, StoreError> {
        if redirect_kind(&request.redirect_uri) != Some(RedirectKind::Https) || request.prompt.consent {
            return Ok(false);
        }
        let (key, field) = (self.records.key("consent", &user.subject), hex_digest(&request.client_id));
        let known = self.records.read::<Consent>(&key, &field).await?;
        Ok(known.is_some_and(|known| {
            known.value.generation == user.generation
                && known.value.redirect_uri == request.redirect_uri
                && known.value.resource == request.resource
                && request.scopes.iter().all(|scope| known.value.scopes.contains(scope))
        }))
    }

    pub(super) async fn remember_consent(
        &self,
        user: &LoggedIn,
        request: &AuthorizeRequest,
    ) -> Result<(), StoreError> {
        let consent = Consent {
            generation: user.generation.clone(),
            redirect_uri: request.redirect_uri.clone(),
            resource: request.resource.clone(),
            scopes: request.scopes.clone(),
        };
        let (key, field) = (self.records.key("consent", &user.subject), hex_digest(&request.client_id));
        self.records.write((&key, &field), &consent, Precondition::None, CONSENT_TTL).await.map(drop)
    }
}

/// A user who has allowed nothing for this long is asked again.
const CONSENT_TTL: Duration = Duration::from_secs(90 * 24 * 60 * 60);
