//! The documents of the issuer: its metadata (RFC 8414) and its key set.

use bytes::Bytes;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::AuthorizationState;
use super::clients::SIGNING_ALGORITHMS;
use super::http_message::{EndpointError, HttpResponse, bytes_response};

impl AuthorizationState {
    pub(super) fn metadata(&self) -> HttpResponse {
        cached(&self.metadata_document())
    }

    pub(super) async fn key_set(&self) -> HttpResponse {
        match self.keys.current().await {
            Ok(keys) => cached(&keys.to_json()),
            Err(error) => EndpointError::from(error).into(),
        }
    }

    fn metadata_document(&self) -> Value {
        let settings = &self.settings;
        let algorithms: Vec<&str> = SIGNING_ALGORITHMS.iter().map(|algorithm| algorithm.name()).collect();
        let mut grants = Vec::new();
        if settings.users.is_some() || settings.provider.is_some() {
            grants.extend(["authorization_code", "refresh_token"]);
        }
        if settings.clients.iter().any(|client| client.is_machine()) {
            grants.push("client_credentials");
        }
        if !settings.issuers.is_empty() {
            grants.push("urn:ietf:params:oauth:grant-type:jwt-bearer");
        }
        let mut document = json!({
            "issuer": settings.issuer,
            "authorization_endpoint": self.url("/authorize"),
            "token_endpoint": self.url("/token"),
            "jwks_uri": self.url("/jwks"),
            "revocation_endpoint": self.url("/revoke"),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": grants,
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": AUTH_METHODS,
            "token_endpoint_auth_signing_alg_values_supported": algorithms,
            "revocation_endpoint_auth_methods_supported": AUTH_METHODS,
            "revocation_endpoint_auth_signing_alg_values_supported": algorithms,
            "dpop_signing_alg_values_supported": algorithms,
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": settings.has_documents,
            "protected_resources": settings.resources,
        });
        if let Some(members) = document.as_object_mut() {
            if settings.has_registration {
                members.insert("registration_endpoint".to_owned(), json!(self.url("/register")));
            }
            if !settings.scopes.is_empty() {
                let scopes: Vec<&str> = settings.scope_names().collect();
                members.insert("scopes_supported".to_owned(), json!(scopes));
            }
            if settings.issuers.iter().any(|issuer| issuer.is_identity_provider()) {
                let profiles = json!(["urn:ietf:params:oauth:grant-profile:id-jag"]);
                members.insert("authorization_grant_profiles_supported".to_owned(), profiles);
            }
        }
        document
    }
}

fn cached(document: &Value) -> HttpResponse {
    let mut response = bytes_response(StatusCode::OK, "application/json", Bytes::from(document.to_string()));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    response
}

const AUTH_METHODS: [&str; 4] = ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"];
