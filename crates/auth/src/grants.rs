//! Grants without a person: client credentials, enterprise-managed authorization (ID-JAG) and workload identity.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use tsugite::base64;

use crate::error::{AuthError, Result};
use crate::flow::UserAgent;
use crate::jose::{random_text, sha256_text};
use crate::net::{GuardedHttp, Url};
use crate::registration::ClientCredentials;
use crate::secret::Secret;
use crate::token_endpoint::{Nonce, TokenEndpoint};

/// How tokens are obtained.
pub(crate) enum Grant {
    /// A person logs in.
    AuthorizationCode(Box<dyn UserAgent>),
    ClientCredentials,
    Enterprise(EnterpriseIdp),
    Workload(Assertion),
}

impl Grant {
    /// The extension that the client announces.
    pub(crate) fn extension(&self) -> Option<&'static str> {
        match self {
            Grant::ClientCredentials => Some("io.modelcontextprotocol/oauth-client-credentials"),
            Grant::Enterprise(_) => Some("io.modelcontextprotocol/enterprise-managed-authorization"),
            Grant::AuthorizationCode(_) | Grant::Workload(_) => None,
        }
    }
}

impl Grant {
    /// The id of the login: the same for each token of one application, or of one user of a company.
    pub(crate) async fn login_id(&self) -> Result<String> {
        match self {
            Grant::AuthorizationCode(_) => random_text(),
            Grant::ClientCredentials | Grant::Workload(_) => Ok("application".to_owned()),
            Grant::Enterprise(idp) => match subject_of(&idp.id_token.get().await?) {
                Some(subject) => Ok(sha256_text(&subject)),
                None => random_text(),
            },
        }
    }
}

/// The issuer and subject of an ID token. Its signature is not checked: the application has got it from its own identity
/// provider, and nothing is decided by it but which cache and session are used.
fn subject_of(token: &Secret) -> Option<String> {
    let claims = token.expose().split('.').nth(1).and_then(base64::decode_url)?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    Some(format!("{} {}", claims.get("iss")?.as_str()?, claims.get("sub")?.as_str()?))
}

/// A signed statement of an identity provider about the user or the workload. `Debug` does not show it.
#[derive(Clone)]
pub struct Assertion(AssertionSource);

#[derive(Clone)]
enum AssertionSource {
    Fixed(Secret),
    File(PathBuf),
    Function(Arc<dyn Fn() -> AssertionFuture + Send + Sync>),
}

type AssertionFuture = Pin<Box<dyn Future<Output = Result<String>> + Send>>;

impl Assertion {
    /// A token that does not change.
    pub fn fixed(token: impl Into<Secret>) -> Self {
        Self(AssertionSource::Fixed(token.into()))
    }

    /// A file that holds the current token, such as the projected token of a Kubernetes service account.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(AssertionSource::File(path.into()))
    }

    /// A function that returns the current token.
    pub fn from_fn<F, A>(function: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<String>> + Send + 'static,
    {
        Self(AssertionSource::Function(Arc::new(move || Box::pin(function()))))
    }

    pub(crate) async fn get(&self) -> Result<Secret> {
        match &self.0 {
            AssertionSource::Fixed(token) => Ok(token.clone()),
            AssertionSource::Function(function) => function().await.map(Secret::new),
            AssertionSource::File(path) => {
                let read = {
                    let path = path.clone();
                    tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await
                };
                match read {
                    Ok(Ok(text)) => Ok(Secret::new(text.trim())),
                    Ok(Err(error)) => Err(AuthError::config(format!("{}: {error}", path.display()))),
                    Err(_) => Err(AuthError::config(format!("{}: not read", path.display()))),
                }
            }
        }
    }
}

impl fmt::Debug for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Assertion(…)")
    }
}

/// The identity provider of a company, which decides who may use which server.
#[derive(Debug, Clone)]
pub struct EnterpriseIdp {
    token_endpoint: String,
    issuer: String,
    client: ClientCredentials,
    id_token: Assertion,
}

impl EnterpriseIdp {
    /// Describes the identity provider: its token endpoint, this application as it knows it, and the ID token of the user.
    pub fn new(token_endpoint: impl Into<String>, client: ClientCredentials, id_token: Assertion) -> Self {
        let token_endpoint = token_endpoint.into();
        Self { issuer: token_endpoint.clone(), token_endpoint, client, id_token }
    }

    /// Sets the issuer of the identity provider, the audience of signed assertions of the client; the token endpoint by
    /// default.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = issuer.into();
        self
    }

    /// Exchanges the ID token for an ID-JAG, which is never stored.
    pub(crate) async fn id_jag(
        &self,
        http: &GuardedHttp,
        audience: &str,
        resource: &str,
        scopes: &[String],
    ) -> Result<Secret> {
        let (id_token, scope) = (self.id_token.get().await?, scopes.join(" "));
        let mut params = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("requested_token_type", ID_JAG),
            ("audience", audience),
            ("resource", resource),
            ("subject_token", id_token.expose()),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ];
        if !scope.is_empty() {
            params.push(("scope", &scope));
        }
        // The user has named this endpoint.
        let (http, client) = (http.trusting_user(), self.client.client(None));
        let endpoint = TokenEndpoint {
            http: &http,
            url: Url::parse(&self.token_endpoint)?,
            issuer: &self.issuer,
            client: &client,
            dpop: None,
            nonce: &Nonce::default(),
        };
        let response = endpoint.request(&params).await?;
        match response.issued_token_type.as_deref() {
            Some(ID_JAG) => Ok(response.access_token.into()),
            _ => Err(AuthError::token("the identity provider issued another kind of token than an ID-JAG")),
        }
    }
}

const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
