//! `/register`: clients that register themselves (RFC 7591).

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tsugite::store::Precondition;

use super::redirect_uri::redirect_kind;
use super::{Client, ClientAuth, ClientOrigin};
use crate::authorization_server::AuthorizationState;
use crate::authorization_server::http_message::{
    EndpointError, HttpRequest, HttpResponse, OAuthError, json_response,
};
use crate::authorization_server::records::{FIELD, hex_digest};
use crate::jose::random_text;
use crate::scopes;

/// The metadata of a client, in a registration or in a document. Other members are ignored.
#[derive(Deserialize)]
pub(super) struct ClientMetadata {
    #[serde(default)]
    pub(super) redirect_uris: Vec<String>,
    pub(super) client_name: Option<String>,
    pub(super) grant_types: Option<Vec<String>>,
    pub(super) response_types: Option<Vec<String>>,
    pub(super) token_endpoint_auth_method: Option<String>,
    pub(super) scope: Option<String>,
    pub(super) jwks: Option<Map<String, Value>>,
    pub(super) jwks_uri: Option<String>,
}

impl ClientMetadata {
    /// Checks what both kinds of clients have in common. Returns the grant types that it may use here.
    pub(super) fn check(&self) -> Result<Vec<String>, OAuthError> {
        let invalid = |reason: &str| OAuthError::new("invalid_client_metadata", reason);
        if self.redirect_uris.is_empty() || self.redirect_uris.len() > MAX_REDIRECT_URIS {
            let reason = format!("a client needs 1 to {MAX_REDIRECT_URIS} redirect URIs");
            return Err(OAuthError::new("invalid_redirect_uri", reason));
        }
        if self.redirect_uris.iter().map(String::len).sum::<usize>() > MAX_URIS_BYTES {
            let reason =
                format!("the redirect URIs of a client have at most {MAX_URIS_BYTES} bytes together");
            return Err(OAuthError::new("invalid_redirect_uri", reason));
        }
        if self.redirect_uris.iter().any(|uri| redirect_kind(uri).is_none()) {
            let reason =
                "a redirect URI is https, http on the loopback interface, or of the scheme of an application";
            return Err(OAuthError::new("invalid_redirect_uri", reason));
        }
        if self.client_name.as_ref().is_some_and(|name| name.chars().count() > MAX_NAME_CHARS) {
            return Err(invalid("the name of the client is too long"));
        }
        if self.scope.as_ref().is_some_and(|scope| scope.len() > MAX_SCOPE_BYTES) {
            return Err(invalid("the scope of the client is too long"));
        }
        let is_listed = |list: &Option<Vec<String>>, wanted: &str| {
            list.as_ref().is_none_or(|list| list.iter().any(|each| each == wanted))
        };
        if !is_listed(&self.response_types, "code") || !is_listed(&self.grant_types, "authorization_code") {
            return Err(invalid(
                "a client uses the response type `code` and the grant type `authorization_code`",
            ));
        }
        // Without a list RFC 7591 allows the code only. A refresh token harms no client that did not ask for it, but one
        // that lists its grants without it does not expect one.
        let mut grants = vec!["authorization_code".to_owned()];
        if is_listed(&self.grant_types, "refresh_token") {
            grants.push("refresh_token".to_owned());
        }
        Ok(grants)
    }
}

impl AuthorizationState {
    pub(in crate::authorization_server) async fn register(
        &self,
        request: &HttpRequest,
    ) -> Result<HttpResponse, EndpointError> {
        if !self.settings.has_registration {
            let reason =
                "clients cannot register here; use a client id of the operator, or a metadata document";
            let error = OAuthError::new("access_denied", reason);
            return Err(OAuthError { status: StatusCode::FORBIDDEN, ..error }.into());
        }
        self.spend_registration(request.client).await?;
        let metadata: ClientMetadata = serde_json::from_slice(&request.body).map_err(|_| {
            OAuthError::new("invalid_client_metadata", "the body is not the metadata of a client")
        })?;
        let grant_types = metadata.check()?;
        let secret = random_text()?;
        let method = metadata.token_endpoint_auth_method.as_deref().unwrap_or("client_secret_basic");
        let auth = match method {
            "none" => ClientAuth::None,
            "client_secret_basic" => ClientAuth::SecretBasic(hex_digest(&secret)),
            "client_secret_post" => ClientAuth::SecretPost(hex_digest(&secret)),
            _ => {
                let reason = "the authentication is none, client_secret_basic or client_secret_post";
                return Err(OAuthError::new("invalid_client_metadata", reason).into());
            }
        };
        let client_id = random_text()?;
        let offered = |scope: &String| self.settings.scope_names().any(|known| known == scope);
        let wanted = metadata.scope.as_deref().map(scopes::parse);
        let granted = wanted.map(|wanted| wanted.into_iter().filter(offered).collect::<Vec<_>>());
        let mut response = json!({
            "client_id": client_id,
            "client_id_issued_at": self.clock.seconds(),
            "redirect_uris": metadata.redirect_uris,
            "grant_types": grant_types,
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        });
        if let Some(members) = response.as_object_mut() {
            members.extend(metadata.client_name.as_ref().map(|name| ("client_name".to_owned(), json!(name))));
            let scope = granted.as_ref().filter(|granted| !granted.is_empty());
            members.extend(scope.map(|scope| ("scope".to_owned(), json!(scope.join(" ")))));
            if method != "none" {
                members.insert("client_secret".to_owned(), json!(secret));
                members.insert("client_secret_expires_at".to_owned(), json!(0));
            }
        }
        let client = Client {
            name: metadata.client_name,
            redirect_uris: metadata.redirect_uris,
            grant_types,
            auth,
            // Not a limit: clients register with the scopes of their first challenge and step up later.
            scopes: None,
            origin: ClientOrigin::Registration,
            client_id,
        };
        let key = self.records.key("client", &client.client_id);
        let ttl = self.settings.unused_client_ttl;
        self.records.write((&key, FIELD), &client, Precondition::FieldAbsent, ttl).await?;
        Ok(json_response(StatusCode::CREATED, &response))
    }
}

const MAX_REDIRECT_URIS: usize = 20;
/// Anyone can register, so a stored client is small.
const MAX_URIS_BYTES: usize = 4_096;
const MAX_NAME_CHARS: usize = 200;
const MAX_SCOPE_BYTES: usize = 2_048;
