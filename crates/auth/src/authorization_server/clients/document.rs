//! Clients that are the URL of their metadata document. It is fetched through the guard, and kept as long as its headers
//! say; longer while its host cannot be asked. Responses without a valid document are not kept.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use tsugite::store::StoreError;

use super::registration::ClientMetadata;
use super::{Client, ClientAuth, ClientOrigin};
use crate::authorization_server::AuthorizationState;
use crate::error::AuthErrorKind;
use crate::net::Url;
use crate::registration::check_metadata_url;

/// The documents of this process.
#[derive(Default)]
pub(in crate::authorization_server) struct DocumentCache(Mutex<HashMap<String, CachedDocument>>);

#[derive(Clone)]
struct CachedDocument {
    client: Client,
    fetched_at: u64,
    /// When it is fetched again.
    expires_at: u64,
}

impl DocumentCache {
    fn get(&self, url: &str) -> Option<CachedDocument> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(url).cloned()
    }

    /// Keeps a document, and removes the one that was fetched first if there are too many.
    fn insert(&self, url: &str, cached: CachedDocument) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MAX_CACHED {
            let oldest = cache.iter().min_by_key(|(_, cached)| cached.fetched_at);
            if let Some(oldest) = oldest.map(|(url, _)| url.clone()) {
                cache.remove(&oldest);
            }
        }
        cache.insert(url.to_owned(), cached);
    }

    fn remove(&self, url: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(url);
    }
}

impl AuthorizationState {
    /// The client that a URL names; `None` if it is none. Fails if that cannot be found out now.
    pub(super) async fn client_of_document(
        &self,
        client_id: &str,
        address: Option<IpAddr>,
    ) -> Result<Option<Client>, StoreError> {
        let now = self.clock.seconds();
        let known = self.documents.get(client_id);
        if let Some(known) = known.as_ref().filter(|known| now < known.expires_at) {
            return Ok(Some(known.client.clone()));
        }
        let Some(url) = self.check_document_url(client_id) else { return Ok(None) };
        let failure = match self.spend_fetch(address).await? {
            false => "too many metadata documents are asked for".into(),
            true => match self.http.get_cached_json(&url).await {
                Ok((document, ttl)) => {
                    let client = document.and_then(|document| read_document(client_id, document));
                    self.keep_document(client_id, client.as_ref(), ttl, now);
                    return Ok(client);
                }
                Err(error) if error.kind() == AuthErrorKind::Fetch => StoreError::from(error),
                Err(error) => {
                    tracing::info!(%error, "the metadata document of a client is not accepted");
                    return Ok(None);
                }
            },
        };
        let Some(known) = known.filter(|known| now < known.fetched_at + MAX_TTL_SECONDS) else {
            return Err(failure);
        };
        tracing::info!(error = %failure, "the last metadata document of a client stays in use");
        let client = known.client.clone();
        self.documents.insert(client_id, CachedDocument { expires_at: now + MIN_TTL_SECONDS, ..known });
        Ok(Some(client))
    }

    fn keep_document(&self, client_id: &str, client: Option<&Client>, ttl: Option<u64>, now: u64) {
        let Some(client) = client.cloned() else { return self.documents.remove(client_id) };
        let ttl = ttl.unwrap_or(DEFAULT_TTL_SECONDS).clamp(MIN_TTL_SECONDS, MAX_TTL_SECONDS);
        let cached = CachedDocument { client, fetched_at: now, expires_at: now + ttl };
        self.documents.insert(client_id, cached);
    }

    fn check_document_url(&self, client_id: &str) -> Option<Url> {
        let url = Url::parse(client_id).ok().filter(|_| client_id.len() <= MAX_URL_BYTES)?;
        // For tests and development, the guard allows plain http on the loopback interface.
        let is_local = !url.secure && self.settings.allow_private && url.path().len() > 1;
        (is_local || check_metadata_url(client_id).is_ok()).then_some(url)
    }
}

/// The client that a document describes; `None` if the document is that of another client or incomplete.
fn read_document(client_id: &str, document: Map<String, Value>) -> Option<Client> {
    if document.get("client_id").and_then(Value::as_str) != Some(client_id) {
        return None;
    }
    // A secret in a public document would be none.
    if document.contains_key("client_secret") {
        return None;
    }
    let metadata: ClientMetadata = serde_json::from_value(Value::Object(document)).ok()?;
    let grant_types = metadata.check().ok()?;
    metadata.client_name.as_ref()?;
    let auth = match (metadata.token_endpoint_auth_method.as_deref(), metadata.jwks, metadata.jwks_uri) {
        (None | Some("none"), ..) => ClientAuth::None,
        (Some("private_key_jwt"), Some(keys), _) => ClientAuth::Keys(keys),
        (Some("private_key_jwt"), None, Some(url)) => ClientAuth::KeysAt(url),
        _ => return None,
    };
    Some(Client {
        client_id: client_id.to_owned(),
        name: metadata.client_name,
        redirect_uris: metadata.redirect_uris,
        grant_types,
        auth,
        scopes: None,
        origin: ClientOrigin::Document,
    })
}

const MAX_CACHED: usize = 1_000;
const MAX_URL_BYTES: usize = 1_024;
const DEFAULT_TTL_SECONDS: u64 = 300;
/// Also while a document cannot be fetched again.
const MIN_TTL_SECONDS: u64 = 30;
const MAX_TTL_SECONDS: u64 = 24 * 60 * 60;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(document: Value) -> Option<Client> {
        read_document("https://app.example/client.json", document.as_object().unwrap().clone())
    }

    #[test]
    fn document_must_describe_its_own_url() {
        // AAS-010, P-07
        let valid = json!({
            "client_id": "https://app.example/client.json", "client_name": "App",
            "redirect_uris": ["https://app.example/cb"],
        });
        let client = read(valid.clone()).unwrap();
        assert!(client.is_public() && !client.is_trusted());
        assert_eq!(client.find_redirect_uri(Some("https://app.example/cb")), Some("https://app.example/cb"));
        for (member, value) in [
            ("client_id", json!("https://app.example/other.json")),
            ("client_id", json!("https://app.example/client.json/")),
            ("client_id", json!(1)),
            ("client_name", Value::Null),
            ("redirect_uris", json!([])),
            ("redirect_uris", json!(["javascript:alert(1)"])),
            ("redirect_uris", json!("https://app.example/cb")),
            ("token_endpoint_auth_method", json!("client_secret_post")),
            ("token_endpoint_auth_method", json!("private_key_jwt")),
            ("client_secret", json!("s3cret")),
            ("grant_types", json!(["client_credentials"])),
        ] {
            let mut changed = valid.clone();
            changed[member] = value;
            assert!(read(changed.clone()).is_none(), "{changed}");
        }
    }
}
