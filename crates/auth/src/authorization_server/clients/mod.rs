//! The clients: those of the settings, those that registered themselves, and those that are the URL of a document.

mod authentication;
mod client_keys;
mod configured;
mod document;
mod redirect_uri;
mod registration;

pub use configured::ConfiguredClient;

pub(super) use authentication::SIGNING_ALGORITHMS;
pub(super) use client_keys::ClientKeyCache;
pub(super) use document::DocumentCache;
pub(super) use redirect_uri::{RedirectKind, is_registered, redirect_kind, shown_host};

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tsugite::store::StoreError;

use super::AuthorizationState;
use super::records::FIELD;
use crate::net::Url;

/// A client as the endpoints know it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) client_id: String,
    pub(super) name: Option<String>,
    pub(super) redirect_uris: Vec<String>,
    pub(super) grant_types: Vec<String>,
    pub(super) auth: ClientAuth,
    /// The scopes that it may ask for; all if absent.
    pub(super) scopes: Option<Vec<String>>,
    pub(super) origin: ClientOrigin,
}

/// The party that vouches for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ClientOrigin {
    /// The operator of this server.
    Settings,
    /// Itself.
    Registration,
    /// The host of its document.
    Document,
}

/// How a client proves that it is the client. `Debug` shows neither digests nor keys.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum ClientAuth {
    /// Not at all: a public client.
    None,
    /// With a secret, of which the digest is known, in a header or in the body.
    SecretBasic(String),
    SecretPost(String),
    /// With a secret, sent either way.
    Secret(String),
    /// With a signature, by a key of a set or of the set at a URL.
    Keys(Map<String, Value>),
    KeysAt(String),
}

impl fmt::Debug for ClientAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::SecretBasic(_) => "SecretBasic",
            Self::SecretPost(_) => "SecretPost",
            Self::Secret(_) => "Secret",
            Self::Keys(_) => "Keys",
            Self::KeysAt(_) => "KeysAt",
        })
    }
}

impl Client {
    pub(super) fn is_public(&self) -> bool {
        matches!(self.auth, ClientAuth::None)
    }

    /// Whether the operator of this server chose the client.
    pub(super) fn is_trusted(&self) -> bool {
        self.origin == ClientOrigin::Settings
    }

    pub(super) fn may_use(&self, grant_type: &str) -> bool {
        self.grant_types.iter().any(|known| known == grant_type)
    }

    /// The redirect URI that a request means: the one that it names, or the only one.
    pub(super) fn find_redirect_uri<'a>(&'a self, named: Option<&'a str>) -> Option<&'a str> {
        match (named, self.redirect_uris.as_slice()) {
            (Some(named), all) => all.iter().any(|known| is_registered(known, named)).then_some(named),
            (None, [only]) => Some(only),
            (None, _) => None,
        }
    }

    /// The name for pages. A client may have chosen it freely.
    pub(super) fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.client_id)
    }
}

impl AuthorizationState {
    /// Finds a client. A document is fetched if need be, on behalf of the address. Fails if that is not possible now.
    pub(super) async fn find_client(
        &self,
        client_id: &str,
        address: Option<IpAddr>,
    ) -> Result<Option<Client>, StoreError> {
        if let Some(known) = self.settings.clients.iter().find(|known| known.client_id() == client_id) {
            return Ok(Some(known.to_client()));
        }
        if Url::parse(client_id).is_ok() {
            return match self.settings.has_documents {
                true => self.client_of_document(client_id, address).await,
                false => Ok(None),
            };
        }
        let found = self.records.read(&self.records.key("client", client_id), FIELD).await?;
        Ok(found.map(|found| found.value))
    }

    /// Keeps a registered client for longer, because it was used.
    pub(super) async fn keep_client(&self, client: &Client) -> Result<(), StoreError> {
        if client.origin != ClientOrigin::Registration {
            return Ok(());
        }
        let ttl = USED_CLIENT_TTL.max(self.settings.refresh_token_ttl);
        self.records.touch(&self.records.key("client", &client.client_id), ttl).await
    }
}

/// A registered client that got a token is kept for this long after the last one.
const USED_CLIENT_TTL: Duration = Duration::from_secs(90 * 24 * 60 * 60);
