//! Clients that are the URL of their metadata document. It is fetched through the guard, and kept as long as its headers say.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use tsugite::store::StoreError;

use super::registration::ClientMetadata;
use super::{Client, ClientAuth, ClientOrigin};
use crate::authorization_server::AuthorizationState;
use crate::net::Url;
use crate::registration::check_metadata_url;

/// The documents of this process.
#[derive(Default)]
pub(in crate::authorization_server) struct DocumentCache(Mutex<HashMap<String, CachedDocument>>);

#[derive(Clone)]
struct CachedDocument {
    /// `None` if the document is invalid or absent.
    client: Option<Client>,
    expires_at: u64,
}

impl DocumentCache {
    fn get(&self, url: &str, now: u64) -> Option<Option<Client>> {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(url).filter(|cached| now < cached.expires_at).map(|cached| cached.client.clone())
    }

    fn insert(&self, url: &str, cached: CachedDocument, now: u64) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MAX_CACHED {
            cache.retain(|_, cached| now < cached.expires_at);
        }
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        cache.insert(url.to_owned(), cached);
    }
}

impl AuthorizationState {
    /// The client that a URL names; `None` if it is none.
    pub(super) async fn client_of_document(
        &self,
        client_id: &str,
        address: Option<IpAddr>,
    ) -> Result<Option<Client>, StoreError> {
        let now = self.clock.seconds();
        if let Some(known) = self.documents.get(client_id, now) {
            return Ok(known);
        }
        let Some(url) = self.check_document_url(client_id) else { return Ok(None) };
        if !self.spend_fetch(address).await? {
            return Ok(None);
        }
        let (client, ttl) = match self.http.get_cached_json(&url).await {
            Ok((document, ttl)) => {
                let client = document.and_then(|document| read_document(client_id, document));
                (client, ttl.unwrap_or(DEFAULT_TTL_SECONDS).clamp(MIN_TTL_SECONDS, MAX_TTL_SECONDS))
            }
            Err(error) => {
                tracing::info!(%error, "the metadata document of a client cannot be fetched");
                (None, MIN_TTL_SECONDS)
            }
        };
        let ttl = if client.is_some() { ttl } else { MIN_TTL_SECONDS };
        self.documents.insert(
            client_id,
            CachedDocument { client: client.clone(), expires_at: now + ttl },
            now,
        );
        Ok(client)
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
/// Also for a document that is missing, so that it is not fetched for each request.
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
