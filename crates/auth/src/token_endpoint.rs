//! Requests to a token endpoint: authentication of the client, proof of possession, and the response.

use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::json;
use tsugite::base64;
use tsugite::client::FetchResponse;

use crate::dpop::{Proof, now};
use crate::error::{AuthError, Result, shown};
use crate::jose::{SigningKey, random_text};
use crate::net::{GuardedHttp, Url, encode, encode_form};
use crate::secret::Secret;

/// A client as one authorization server knows it.
#[derive(Debug, Clone)]
pub(crate) struct OAuthClient {
    pub(crate) client_id: String,
    pub(crate) auth: TokenAuth,
}

/// The authentication of a client at the token endpoint.
#[derive(Debug, Clone)]
pub(crate) enum TokenAuth {
    None,
    Basic(Secret),
    Post(Secret),
    PrivateKeyJwt(SigningKey),
}

impl TokenAuth {
    /// The authentication with a secret, by the name of its method.
    pub(crate) fn with_secret(method: &str, secret: Option<Secret>) -> Self {
        match (method, secret) {
            ("client_secret_post", Some(secret)) => Self::Post(secret),
            (_, Some(secret)) if method != "none" => Self::Basic(secret),
            _ => Self::None,
        }
    }

    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic(_) => "client_secret_basic",
            Self::Post(_) => "client_secret_post",
            Self::PrivateKeyJwt(_) => "private_key_jwt",
        }
    }
}

/// The parameters and headers that authenticate a client in one request.
pub(crate) struct ClientAuthentication {
    pub(crate) params: Vec<(&'static str, String)>,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl OAuthClient {
    /// Authenticates one request to an endpoint of an authorization server. `issuer` is the audience of an assertion.
    pub(crate) fn authenticate(&self, issuer: &str) -> Result<ClientAuthentication> {
        // Also beside other authentication: the servers of the Python SDK look for it in the body.
        let mut params = vec![("client_id", self.client_id.clone())];
        let mut headers = Vec::new();
        match &self.auth {
            TokenAuth::None => {}
            TokenAuth::Post(secret) => params.push(("client_secret", secret.expose().to_owned())),
            TokenAuth::Basic(secret) => {
                // RFC 6749, 2.3.1: both parts are form-encoded first.
                let pair = format!("{}:{}", encode(&self.client_id), encode(secret.expose()));
                headers.push(("authorization", format!("Basic {}", base64::encode(pair.as_bytes()))));
            }
            TokenAuth::PrivateKeyJwt(key) => {
                let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                params.push(("client_assertion_type", kind.to_owned()));
                params.push(("client_assertion", self.assertion(key, issuer)?));
            }
        }
        Ok(ClientAuthentication { params, headers })
    }

    /// The assertion of the client about itself (RFC 7523), for one request.
    fn assertion(&self, key: &SigningKey, issuer: &str) -> Result<String> {
        let (id, issued) = (&self.client_id, now());
        let claims = [
            ("iss", json!(id)),
            ("sub", json!(id)),
            ("aud", json!(issuer)),
            ("jti", json!(random_text()?)),
            ("iat", json!(issued)),
            ("exp", json!(issued + 60)),
        ];
        key.sign_jwt(&[("typ", json!("JWT"))], &claims)
    }
}

/// The nonce that one server last asked for.
#[derive(Debug, Default)]
pub(crate) struct Nonce(Mutex<Option<String>>);

impl Nonce {
    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps a nonce that is valid in a proof (RFC 9449, 8.1), and not too long.
    pub(crate) fn set(&self, nonce: Option<&str>) {
        let is_valid = |nonce: &&str| nonce.len() <= 512 && nonce.bytes().all(|byte| byte.is_ascii_graphic());
        if let Some(nonce) = nonce.filter(is_valid) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(nonce.to_owned());
        }
    }
}

/// A token endpoint, or the revocation endpoint beside it.
pub(crate) struct TokenEndpoint<'a> {
    pub(crate) http: &'a GuardedHttp,
    pub(crate) url: Url,
    /// The audience of assertions.
    pub(crate) issuer: &'a str,
    pub(crate) client: &'a OAuthClient,
    /// The key that the token will be bound to.
    pub(crate) dpop: Option<&'a SigningKey>,
    pub(crate) nonce: &'a Nonce,
}

/// A successful response.
#[derive(Deserialize)]
pub(crate) struct TokenResponse {
    pub(crate) access_token: String,
    pub(crate) token_type: String,
    pub(crate) expires_in: Option<f64>,
    pub(crate) refresh_token: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) issued_token_type: Option<String>,
    #[allow(dead_code, reason = "only the authorization server logs users in with it")]
    pub(crate) id_token: Option<String>,
}

/// Why no token was issued.
#[derive(Debug)]
pub(crate) enum TokenError {
    /// The authorization server refused, with this code.
    Refused {
        code: String,
        error: AuthError,
    },
    Failed(AuthError),
}

impl From<AuthError> for TokenError {
    fn from(error: AuthError) -> Self {
        Self::Failed(error)
    }
}

impl From<TokenError> for AuthError {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Refused { error, .. } | TokenError::Failed(error) => error,
        }
    }
}

impl TokenEndpoint<'_> {
    /// Requests a token with a grant, and again if the server asks for a nonce.
    pub(crate) async fn request(&self, grant: &[(&str, &str)]) -> Result<TokenResponse, TokenError> {
        let response = self.send(grant).await?;
        let response = match self.error_code(&response).as_deref() {
            Some("use_dpop_nonce") if self.dpop.is_some() && response.header("dpop-nonce").is_some() => {
                self.nonce.set(response.header("dpop-nonce"));
                self.send(grant).await?
            }
            _ => response,
        };
        self.nonce.set(response.header("dpop-nonce"));
        if let Some(code) = self.error_code(&response) {
            return Err(self.refused("issued no token", code, &response));
        }
        let token: TokenResponse = serde_json::from_slice(&response.body)
            .map_err(|_| AuthError::token(format!("the response of {} is malformed", self.shown_url())))?;
        if token.access_token.is_empty() || !token.access_token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(AuthError::token(format!("{} issued an invalid token", self.shown_url())).into());
        }
        Ok(token)
    }

    pub(crate) async fn send(&self, grant: &[(&str, &str)]) -> Result<FetchResponse> {
        let authentication = self.client.authenticate(self.issuer)?;
        let own = authentication.params.iter().map(|(name, value)| (*name, value.as_str()));
        let params: Vec<_> = grant.iter().copied().chain(own).collect();
        let mut headers = authentication.headers;
        if let Some(key) = self.dpop {
            let nonce = self.nonce.get();
            let proof = Proof { verb: "POST", url: self.url.as_str(), token: None, nonce: nonce.as_deref() };
            headers.push(("dpop", proof.sign(key)?));
        }
        let form = "application/x-www-form-urlencoded";
        self.http.post(&self.url, form, encode_form(&params), &headers).await
    }

    /// The code of an error response. A status other than 200 is an error, whatever the body says.
    pub(crate) fn error_code(&self, response: &FetchResponse) -> Option<String> {
        #[derive(Deserialize)]
        struct ErrorBody {
            error: Option<String>,
        }
        if response.status == 200 {
            return None;
        }
        let body: Option<ErrorBody> = serde_json::from_slice(&response.body).ok();
        Some(body.and_then(|body| body.error).unwrap_or_default())
    }

    pub(crate) fn refused(&self, refusal: &str, code: String, response: &FetchResponse) -> TokenError {
        #[derive(Default, Deserialize)]
        struct ErrorBody {
            error_description: Option<String>,
        }
        let body: ErrorBody = serde_json::from_slice(&response.body).unwrap_or_default();
        let mut reason = match code.is_empty() {
            true => format!("HTTP status {}", response.status),
            false => shown(&code),
        };
        if let Some(description) = body.error_description {
            reason.push_str(&format!(" ({})", shown(&description)));
        }
        let error = AuthError::token(format!("{} {refusal}: {reason}", self.shown_url()));
        TokenError::Refused { code, error }
    }

    fn shown_url(&self) -> &str {
        self.url.without_query()
    }
}

impl TokenResponse {
    /// When the token expires, in seconds since 1970.
    pub(crate) fn expires_at(&self) -> Option<u64> {
        self.expires_in.map(|seconds| now().saturating_add(seconds.max(0.0) as u64))
    }
}
