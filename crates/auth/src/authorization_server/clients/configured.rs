//! [`ConfiguredClient`]: a client of the settings.

use serde_json::{Map, Value};

use super::redirect_uri::redirect_kind;
use super::{Client, ClientAuth, ClientOrigin};
use crate::authorization_server::records::hex_digest;
use crate::error::{AuthError, Result};
use crate::secret::Secret;

/// A client that the operator of the authorization server has chosen. `Debug` shows no secret.
///
/// ```
/// use tsugite_auth::authorization_server::ConfiguredClient;
///
/// let app = ConfiguredClient::public("my-app").name("My app").redirect_uri("http://127.0.0.1/callback");
/// let service = ConfiguredClient::secret("nightly", "s3cret").client_credentials(["notes:read"]);
/// ```
#[derive(Debug, Clone)]
pub struct ConfiguredClient(Client);

impl ConfiguredClient {
    /// A client without a secret, for people.
    pub fn public(client_id: impl Into<String>) -> Self {
        Self::new(client_id.into(), ClientAuth::None)
    }

    /// A client with a secret, which it sends in a header or in the body.
    pub fn secret(client_id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self::new(client_id.into(), ClientAuth::Secret(hex_digest(secret.into().expose())))
    }

    /// A client that signs assertions about itself (`private_key_jwt`), with a key of this JWK set.
    ///
    /// Fails if the text is not a JWK set.
    pub fn keys(client_id: impl Into<String>, key_set: &str) -> Result<Self> {
        let client_id = client_id.into();
        let keys: Map<String, Value> = serde_json::from_str(key_set).map_err(|_| {
            AuthError::config(format!("the keys of the client {client_id:?} are not a JWK set"))
        })?;
        Ok(Self::new(client_id, ClientAuth::Keys(keys)))
    }

    fn new(client_id: String, auth: ClientAuth) -> Self {
        Self(Client {
            client_id,
            name: None,
            redirect_uris: Vec::new(),
            grant_types: vec!["authorization_code".to_owned(), "refresh_token".to_owned()],
            auth,
            scopes: None,
            origin: ClientOrigin::Settings,
        })
    }

    /// Sets the name that users see.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.0.name = Some(name.into());
        self
    }

    /// Adds a URI that a browser is sent to after a login. The port of a loopback address does not count.
    #[must_use]
    pub fn redirect_uri(mut self, uri: impl Into<String>) -> Self {
        self.0.redirect_uris.push(uri.into());
        self
    }

    /// Limits the scopes that the client may ask for.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.0.scopes = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Lets the client get tokens for itself, with these scopes at most. It needs a secret or keys.
    #[must_use]
    pub fn client_credentials<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.0.grant_types.push(CLIENT_CREDENTIALS.to_owned());
        self.scopes(scopes)
    }

    /// Whether the client gets tokens without a person.
    pub(in crate::authorization_server) fn is_machine(&self) -> bool {
        self.0.may_use(CLIENT_CREDENTIALS)
    }

    /// Whether the client cannot authenticate itself.
    pub(in crate::authorization_server) fn is_public(&self) -> bool {
        self.0.is_public()
    }

    pub(in crate::authorization_server) fn client_id(&self) -> &str {
        &self.0.client_id
    }

    pub(in crate::authorization_server) fn to_client(&self) -> Client {
        self.0.clone()
    }

    pub(in crate::authorization_server) fn check(&self) -> Result<()> {
        let (client, id) = (&self.0, &self.0.client_id);
        if id.is_empty() || !id.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return Err(AuthError::config(format!("{id:?} cannot be a client id")));
        }
        if let Some(uri) = client.redirect_uris.iter().find(|uri| redirect_kind(uri).is_none()) {
            return Err(AuthError::config(format!(
                "the client {id:?} cannot have the redirect URI {uri:?}: use https, http on the loopback interface, or the \
                 scheme of an application"
            )));
        }
        if self.is_machine() && client.is_public() {
            return Err(AuthError::config(format!(
                "the client {id:?} gets tokens for itself, so it needs a secret or keys"
            )));
        }
        Ok(())
    }
}

const CLIENT_CREDENTIALS: &str = "client_credentials";
