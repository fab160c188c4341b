//! The keys of clients that sign assertions: inside their metadata, or at a URL that it names.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::authorization_server::AuthorizationState;
use crate::authorization_server::http_message::{EndpointError, OAuthError};
use crate::jose::JwkSet;
use crate::net::Url;
use crate::resource::{Issuer, IssuerKeys, KeySource};

/// The keys that were fetched for clients, by their URL. Each set is fetched seldom, whatever requests arrive, and stays in
/// use while its host is down.
#[derive(Default)]
pub(in crate::authorization_server) struct ClientKeyCache(Mutex<HashMap<String, Arc<IssuerKeys>>>);

impl ClientKeyCache {
    fn get(&self, url: &str) -> Option<Arc<IssuerKeys>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(url).cloned()
    }

    /// Adds the keys at a URL, unless another request has done so.
    fn insert(&self, url: &str, keys: Arc<IssuerKeys>) -> Arc<IssuerKeys> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MAX_CACHED
            && let Some(any) = cache.keys().next().cloned()
        {
            cache.remove(&any);
        }
        Arc::clone(cache.entry(url.to_owned()).or_insert(keys))
    }
}

impl AuthorizationState {
    /// The keys at a URL that the metadata of a client names. The first fetch counts against the limit of the address.
    pub(super) async fn keys_at(
        &self,
        url: &str,
        address: Option<IpAddr>,
    ) -> Result<Arc<IssuerKeys>, EndpointError> {
        if let Some(known) = self.client_keys.get(url) {
            return Ok(known);
        }
        if Url::parse(url).is_err() {
            return Ok(given_keys(&Map::new()));
        }
        if !self.spend_fetch(address).await? {
            return Err(OAuthError::too_many(Duration::from_secs(2)).into());
        }
        let source = KeySource::Url(url.to_owned(), Some(self.http.clone()));
        Ok(self.client_keys.insert(url, IssuerKeys::new(source, Issuer::new(url.to_owned()), FETCH_INTERVAL)))
    }
}

/// The keys inside the metadata of a client.
pub(super) fn given_keys(document: &Map<String, Value>) -> Arc<IssuerKeys> {
    let keys = Arc::new(JwkSet::from_document(document).unwrap_or_default());
    IssuerKeys::new(KeySource::Given(keys), Issuer::new(String::new()), FETCH_INTERVAL)
}

const MAX_CACHED: usize = 1_000;
/// The time between two fetches of the keys at one URL at least.
const FETCH_INTERVAL: Duration = Duration::from_secs(30);
