//! [`ConfiguredClient`]: a client of the settings.

use std::fmt;

use serde_json::{Map, Value};

use super::redirect_uri::redirect_kind;
use super::{Client, ClientAuth, ClientOrigin};
use crate::authorization_server::records::hex_digest;
use crate::error::{AuthError, Result};
use crate::jose::{JwkSet, has_private_members};
use crate::secret::Secret;

/// A client that the operator of the authorization server has chosen. `Debug` shows no secret.
///
/// ```
/// use tsugite_auth::authorization_server::ConfiguredClient;
///
/// let app = ConfiguredClient::public("my-app").name("My app").redirect_uri("http://127.0.0.1/callback");
/// let service = ConfiguredClient::secret("nightly", "FQxv4qFvHn1ZuaG7").client_credentials(["notes:read"]);
/// ```
#[derive(Clone)]
pub struct ConfiguredClient {
    client: Client,
    /// The length of its secret, if it has one.
    secret_bytes: Option<usize>,
}

impl ConfiguredClient {
    /// A client without a secret, for people.
    pub fn public(client_id: impl Into<String>) -> Self {
        Self::new(client_id.into(), ClientAuth::None)
    }

    /// A client with a secret of at least 16 bytes, which it sends in a header or in the body. Use a random one: the server
    /// limits wrong secrets, but not to so few that a word could not be guessed.
    pub fn secret(client_id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        let secret = secret.into();
        let client = Self::new(client_id.into(), ClientAuth::Secret(hex_digest(secret.expose())));
        Self { secret_bytes: Some(secret.expose().len()), ..client }
    }

    /// A client that signs assertions about itself (`private_key_jwt`), with a key of this JWK set.
    ///
    /// Fails if the text is not a JWK set with a usable public key, or contains a private key.
    pub fn keys(client_id: impl Into<String>, key_set: &str) -> Result<Self> {
        let client_id = client_id.into();
        let keys: Map<String, Value> = serde_json::from_str(key_set).map_err(|_| {
            AuthError::config(format!("the keys of the client {client_id:?} are not a JWK set"))
        })?;
        let listed = keys.get("keys").and_then(Value::as_array);
        if listed.into_iter().flatten().filter_map(Value::as_object).any(has_private_members) {
            return Err(AuthError::config(format!(
                "the keys of the client {client_id:?} contain a private key; list the public ones"
            )));
        }
        if JwkSet::from_document(&keys).is_none_or(|keys| keys.is_empty()) {
            return Err(AuthError::config(format!(
                "the keys of the client {client_id:?} have no usable public key"
            )));
        }
        Ok(Self::new(client_id, ClientAuth::Keys(keys)))
    }

    fn new(client_id: String, auth: ClientAuth) -> Self {
        let client = Client {
            client_id,
            name: None,
            redirect_uris: Vec::new(),
            grant_types: vec!["authorization_code".to_owned(), "refresh_token".to_owned()],
            auth,
            scopes: None,
            origin: ClientOrigin::Settings,
        };
        Self { client, secret_bytes: None }
    }

    /// Sets the name that users see.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.client.name = Some(name.into());
        self
    }

    /// Adds a URI that a browser is sent to after a login. The port of a loopback address does not count.
    #[must_use]
    pub fn redirect_uri(mut self, uri: impl Into<String>) -> Self {
        self.client.redirect_uris.push(uri.into());
        self
    }

    /// Limits the scopes that the client may ask for.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.client.scopes = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Lets the client get tokens for itself, with these scopes at most. It needs a secret or keys.
    #[must_use]
    pub fn client_credentials<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.client.grant_types.push(CLIENT_CREDENTIALS.to_owned());
        self.scopes(scopes)
    }

    /// Whether the client gets tokens without a person.
    pub(in crate::authorization_server) fn is_machine(&self) -> bool {
        self.client.may_use(CLIENT_CREDENTIALS)
    }

    /// Whether the client cannot authenticate itself.
    pub(in crate::authorization_server) fn is_public(&self) -> bool {
        self.client.is_public()
    }

    pub(in crate::authorization_server) fn client_id(&self) -> &str {
        &self.client.client_id
    }

    pub(in crate::authorization_server) fn to_client(&self) -> Client {
        self.client.clone()
    }

    pub(in crate::authorization_server) fn check(&self) -> Result<()> {
        let (client, id) = (&self.client, &self.client.client_id);
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
        if let Some(length) = self.secret_bytes.filter(|length| *length < MIN_SECRET_BYTES) {
            return Err(AuthError::config(format!(
                "the secret of the client {id:?} has {length} bytes; it needs at least {MIN_SECRET_BYTES} random ones"
            )));
        }
        Ok(())
    }
}

impl fmt::Debug for ConfiguredClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConfiguredClient").field(&self.client).finish()
    }
}

const CLIENT_CREDENTIALS: &str = "client_credentials";
const MIN_SECRET_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jose::SigningKey;
    use serde_json::json;

    #[test]
    fn short_secrets_are_refused_without_being_shown() {
        for (secret, is_accepted) in [("", false), ("hunter2-hunter2", false), ("hunter2-hunter2-", true)] {
            let client = ConfiguredClient::secret("nightly", secret);
            let checked = client.check();
            assert_eq!(checked.is_ok(), is_accepted, "{checked:?}");
            let shown = format!("{client:?} {checked:?}");
            assert!(!shown.contains("hunter2") && !shown.contains(&hex_digest(secret)), "{shown}");
            assert!(is_accepted || shown.contains("at least 16"), "{shown}");
        }
    }

    #[test]
    fn keys_must_be_usable_and_public() {
        let public = SigningKey::generate().unwrap().0.public_jwk().unwrap();
        let mut private = public.clone();
        private["d"] = json!("x");
        let accepts = |keys: Value| ConfiguredClient::keys("nightly", &keys.to_string()).is_ok();
        assert!(accepts(json!({"keys": [public.clone()]})));
        for refused in [
            json!({}),
            json!({"keys": []}),
            json!({"keys": [{"kty": "oct", "k": "eA"}]}),
            json!({"keys": [private]}),
            json!({"keys": [public, {"kty": "oct", "k": "eA"}]}),
        ] {
            assert!(!accepts(refused.clone()), "{refused}");
        }
    }
}
