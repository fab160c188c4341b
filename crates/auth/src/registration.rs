//! The identity of the client at an authorization server: pre-registered, a metadata document, or registered dynamically.

use serde::Deserialize;
use serde_json::json;

use crate::discovery::ServerMetadata;
use crate::dpop::now;
use crate::error::{AuthError, AuthErrorKind, Result, shown};
use crate::jose::SigningKey;
use crate::net::{GuardedHttp, Url};
use crate::secret::Secret;
use crate::store::{Registration, Vault};
use crate::token_endpoint::{OAuthClient, TokenAuth};

/// The credentials of a client that was registered beforehand. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct ClientCredentials {
    pub(crate) client_id: String,
    pub(crate) secret: Option<Secret>,
    pub(crate) key: Option<SigningKey>,
    pub(crate) issuer: Option<String>,
    pub(crate) method: Option<String>,
}

impl ClientCredentials {
    /// A public client, without a secret.
    pub fn public(client_id: impl Into<String>) -> Self {
        Self { client_id: client_id.into(), secret: None, key: None, issuer: None, method: None }
    }

    /// A client with a secret.
    pub fn secret(client_id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self { secret: Some(secret.into()), ..Self::public(client_id) }
    }

    /// A client that signs assertions about itself (`private_key_jwt`).
    pub fn key(client_id: impl Into<String>, key: SigningKey) -> Self {
        Self { key: Some(key), ..Self::public(client_id) }
    }

    /// Sets the issuer that has registered the client. Without it, the issuer that the client is first used at counts.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Sends the secret in the body (`client_secret_post`), also where the authorization server supports
    /// `client_secret_basic`.
    pub fn secret_in_body(mut self) -> Self {
        self.method = Some("client_secret_post".to_owned());
        self
    }

    /// The client with the authentication that the authorization server supports.
    pub(crate) fn client(&self, methods: Option<&[String]>) -> OAuthClient {
        let auth = match (&self.key, &self.secret) {
            (Some(key), _) => TokenAuth::PrivateKeyJwt(key.clone()),
            (None, Some(secret)) => {
                let supports =
                    |name: &str| methods.is_some_and(|all| all.iter().any(|method| method == name));
                let by_server = match supports("client_secret_post") && !supports("client_secret_basic") {
                    true => "client_secret_post",
                    false => "client_secret_basic",
                };
                TokenAuth::with_secret(self.method.as_deref().unwrap_or(by_server), Some(secret.clone()))
            }
            (None, None) => TokenAuth::None,
        };
        OAuthClient { client_id: self.client_id.clone(), auth }
    }

    /// Binds the client to an issuer, and fails if it belongs to another one.
    pub(crate) fn bind(&self, issuer: &str, vault: &mut Vault) -> Result<()> {
        let known = self.issuer.as_ref().or_else(|| vault.client_issuers.get(&self.client_id));
        match known {
            Some(known) if known != issuer => Err(AuthError::new(
                AuthErrorKind::Registration,
                format!(
                    "the client id {:?} belongs to the authorization server {known:?}, but the server now names {:?}; \
                     register the client there and set its issuer",
                    self.client_id,
                    shown(issuer)
                ),
            )),
            Some(_) => Ok(()),
            None => {
                vault.client_issuers.insert(self.client_id.clone(), issuer.to_owned());
                Ok(())
            }
        }
    }
}

/// Checks the URL of a client ID metadata document: https, with a path, without a fragment.
pub(crate) fn check_metadata_url(text: &str) -> Result<()> {
    let url = Url::parse(text)?;
    let has_dots = url.path().split('/').any(|segment| matches!(segment, "." | ".."));
    match url.secure && url.path().len() > 1 && !has_dots && !url.has_fragment() {
        true => Ok(()),
        false => Err(AuthError::config(format!(
            "{:?} cannot be a client id: the URL of a metadata document is https and has a path",
            url.without_query()
        ))),
    }
}

/// Registers the client dynamically (RFC 7591).
pub(crate) async fn register(
    http: &GuardedHttp,
    metadata: &ServerMetadata,
    name: &str,
    redirect_uri: &str,
    scopes: &[String],
) -> Result<Registration> {
    let failed = |reason: String| AuthError::new(AuthErrorKind::Registration, reason);
    let endpoint = metadata.registration_endpoint.as_deref().ok_or_else(|| no_registration(metadata))?;
    let supported = metadata.token_endpoint_auth_methods_supported.as_deref();
    let method = ["none", "client_secret_basic", "client_secret_post"]
        .into_iter()
        .find(|method| supported.is_none_or(|all| all.iter().any(|each| each == method)))
        .unwrap_or("none");
    let mut request = json!({
        "client_name": name,
        "application_type": "native",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    });
    if let Some(members) = request.as_object_mut().filter(|_| !scopes.is_empty()) {
        members.insert("scope".to_owned(), json!(scopes.join(" ")));
    }
    let url = Url::parse(endpoint)?;
    let response = http.post(&url, "application/json", request.to_string(), &[]).await?;
    if !matches!(response.status, 200 | 201) {
        return Err(failed(refusal(&url, response.status, &response.body)));
    }
    #[derive(Deserialize)]
    struct Registered {
        client_id: String,
        client_secret: Option<String>,
        client_secret_expires_at: Option<u64>,
        token_endpoint_auth_method: Option<String>,
    }
    let registered: Registered = serde_json::from_slice(&response.body)
        .map_err(|_| failed(format!("the response of {} is malformed", url.without_query())))?;
    let auth_method = match (registered.token_endpoint_auth_method, &registered.client_secret) {
        (Some(method), _) => method,
        (None, Some(_)) => "client_secret_basic".to_owned(),
        (None, None) => "none".to_owned(),
    };
    Ok(Registration {
        client_id: registered.client_id,
        client_secret: registered.client_secret.map(Secret::new),
        auth_method,
        redirect_uri: redirect_uri.to_owned(),
        scopes: scopes.to_vec(),
        expires_at: registered.client_secret_expires_at.filter(|at| *at > 0),
    })
}

/// The error of a login at a server that registers no clients.
pub(crate) fn no_registration(metadata: &ServerMetadata) -> AuthError {
    let issuer = shown(&metadata.issuer);
    AuthError::new(
        AuthErrorKind::Registration,
        format!(
            "the authorization server {issuer:?} registers no clients; register one there and set its client id"
        ),
    )
}

fn refusal(url: &Url, status: u16, body: &[u8]) -> String {
    #[derive(Default, Deserialize)]
    struct ErrorBody {
        error: Option<String>,
        error_description: Option<String>,
    }
    let body: ErrorBody = serde_json::from_slice(body).unwrap_or_default();
    let code = body.error.unwrap_or_else(|| format!("HTTP status {status}"));
    let mut text = format!("{} refused to register the client: {}", url.without_query(), shown(&code));
    if let Some(description) = body.error_description {
        text.push_str(&format!(" ({})", shown(&description)));
    }
    if code == "invalid_redirect_uri" {
        text.push_str(
            "; set a redirect URI that it accepts, or register a client there and set its client id",
        );
    }
    text
}

impl Registration {
    /// The client that was registered.
    pub(crate) fn client(&self) -> OAuthClient {
        let auth = TokenAuth::with_secret(&self.auth_method, self.client_secret.clone());
        OAuthClient { client_id: self.client_id.clone(), auth }
    }

    /// Whether the client may ask for these scopes: some servers take the scopes of a registration for a limit.
    pub(crate) fn allows(&self, scopes: &[String]) -> bool {
        scopes.iter().all(|scope| self.scopes.contains(scope))
    }

    pub(crate) fn has_expired(&self) -> bool {
        self.expires_at.is_some_and(|at| at <= now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_document_is_at_an_https_url_with_a_path() {
        // ACL-023
        assert!(check_metadata_url("https://app.example.com/client.json").is_ok());
        for url in [
            "http://app.example.com/c",
            "https://app.example.com",
            "https://app.example.com/",
            "https://app.example.com/a/../c",
            "https://app.example.com/c#f",
        ] {
            assert!(check_metadata_url(url).is_err(), "{url}");
        }
    }

    #[test]
    fn client_id_is_bound_to_its_issuer() {
        // ACL-018
        let mut vault = Vault::default();
        let client = ClientCredentials::public("id");
        client.bind("https://a", &mut vault).unwrap();
        client.bind("https://a", &mut vault).unwrap();
        let error = client.bind("https://b", &mut vault).unwrap_err();
        assert!(
            error.to_string().contains("https://a") && error.to_string().contains("https://b"),
            "{error}"
        );
        assert!(ClientCredentials::public("x").issuer("https://c").bind("https://b", &mut vault).is_err());
    }

    #[test]
    fn secret_is_sent_as_the_server_supports() {
        let client = ClientCredentials::secret("id", "s");
        let method = |client: &ClientCredentials, methods: &[&str]| {
            let methods: Vec<String> = methods.iter().map(|each| (*each).to_owned()).collect();
            client.client(Some(&methods)).auth.method()
        };
        assert_eq!(method(&client, &["client_secret_post"]), "client_secret_post");
        assert_eq!(method(&client, &["client_secret_post", "client_secret_basic"]), "client_secret_basic");
        assert_eq!(method(&client.clone().secret_in_body(), &["client_secret_basic"]), "client_secret_post");
        assert_eq!(ClientCredentials::public("id").client(None).auth.method(), "none");
    }
}
