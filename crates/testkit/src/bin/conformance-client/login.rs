//! The logins of the scenarios under `auth/`. The suite's authorization server needs no person: it redirects at once.

use serde::Deserialize;
use tsugite::client::{FetchRequest, Fetcher};
use tsugite_auth::{
    Algorithm, Assertion, ClientCredentials, EnterpriseIdp, Login, LoginPage, SigningKey, UserAgent,
    UserAgentFuture,
};

/// The data of a scenario. Which members there are depends on the scenario.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    client_id: String,
    client_secret: String,
    issuer: Option<String>,
    private_key_pem: String,
    signing_algorithm: String,
    idp_client_id: String,
    idp_id_token: String,
    idp_token_endpoint: String,
    valid_jwt: String,
}

/// The login of a scenario.
pub(crate) fn login(scenario: &str) -> Result<Login, Box<dyn std::error::Error>> {
    let context: Context = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => Context::default(),
    };
    let Context { client_id, client_secret, .. } = context;
    Ok(match scenario {
        "auth/client-credentials-basic" => {
            Login::client_credentials(ClientCredentials::secret(client_id, client_secret))
        }
        "auth/client-credentials-jwt" => {
            let algorithm = Algorithm::from_name(&context.signing_algorithm).ok_or("unknown algorithm")?;
            let key = SigningKey::from_pem(&context.private_key_pem, algorithm)?;
            Login::client_credentials(ClientCredentials::key(client_id, key))
        }
        "auth/enterprise-managed-authorization" => {
            let at_idp = ClientCredentials::public(context.idp_client_id);
            let id_token = Assertion::fixed(context.idp_id_token);
            let idp = EnterpriseIdp::new(context.idp_token_endpoint, at_idp, id_token);
            Login::enterprise(ClientCredentials::secret(client_id, client_secret), idp)
        }
        "auth/wif-jwt-bearer" => {
            Login::workload(ClientCredentials::public(client_id), Assertion::fixed(context.valid_jwt))
        }
        "auth/pre-registration" => {
            let mut client = ClientCredentials::secret(client_id, client_secret);
            if let Some(issuer) = context.issuer {
                client = client.issuer(issuer);
            }
            Login::with_agent("conformance-client", Redirected).client(client)
        }
        _ => Login::with_agent("conformance-client", Redirected)
            .client_metadata_url("https://conformance-test.local/client-metadata.json")?,
    })
}

/// Requests the login page and takes the answer from its redirect.
struct Redirected;

impl UserAgent for Redirected {
    fn open(&self, page: LoginPage) -> UserAgentFuture<'_> {
        Box::pin(async move {
            match Fetcher::new().fetch(FetchRequest::get(page.url)).await {
                Ok(response) => Ok(response.header("location").map(str::to_owned)),
                Err(_) => Ok(Some("the login page cannot be reached".to_owned())),
            }
        })
    }
}
