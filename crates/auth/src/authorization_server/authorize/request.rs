//! The request of a client for a code, and the checks of it.

use serde::{Deserialize, Serialize};
use tsugite::store::StoreError;

use crate::authorization_server::AuthorizationState;
use crate::authorization_server::clients::Client;
use crate::authorization_server::http_message::{HttpRequest, Params};
use crate::net::encode_form;
use crate::scopes;

/// A valid request for a code.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AuthorizeRequest {
    pub(super) client_id: String,
    pub(super) redirect_uri: String,
    /// Whether the client named the redirect URI, and has to name it again.
    pub(super) has_named_uri: bool,
    pub(super) state: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) resource: String,
    pub(super) code_challenge: String,
    /// The key that tokens have to be bound to.
    pub(super) dpop_jkt: Option<String>,
    pub(super) prompt: PagePrompt,
}

/// The pages that a client wants its user to see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PagePrompt {
    pub(super) none: bool,
    pub(super) login: bool,
    pub(super) consent: bool,
}

/// Why there is no code.
pub(super) enum RequestError {
    /// The client or its redirect URI cannot be trusted: only the user is told.
    Page(&'static str),
    /// The client is told.
    Client(ClientAnswer, Box<Client>),
}

/// An error for the client, and the place to send it to.
#[derive(Debug, Clone)]
pub(super) struct ClientAnswer {
    pub(super) redirect_uri: String,
    pub(super) state: Option<String>,
    pub(super) code: &'static str,
    pub(super) description: &'static str,
}

impl AuthorizeRequest {
    /// The answer that the request is refused.
    pub(super) fn refusal(&self, code: &'static str, description: &'static str) -> ClientAnswer {
        let (redirect_uri, state) = (self.redirect_uri.clone(), self.state.clone());
        ClientAnswer { redirect_uri, state, code, description }
    }
}

impl AuthorizationState {
    /// Reads and checks a request. The client and its redirect URI come first: without them no client is told anything.
    pub(super) async fn read_authorize_request(
        &self,
        request: &HttpRequest,
    ) -> Result<Result<(AuthorizeRequest, Client), RequestError>, StoreError> {
        let refused = |reason| Ok(Err(RequestError::Page(reason)));
        if request.query.len() > MAX_QUERY_BYTES {
            return refused("The request is too long.");
        }
        let Some(params) = request.query_params() else {
            return refused("The request is malformed.");
        };
        let Some(client_id) = params.get("client_id") else {
            return refused("The request does not name an application.");
        };
        let Some(client) = self.find_client(client_id, request.client).await? else {
            return refused(
                "This application is not known here. It may have to register again, or its metadata cannot be read.",
            );
        };
        let Some(redirect_uri) = client.find_redirect_uri(params.get("redirect_uri")) else {
            return refused("The application wants you to be sent to an address that it has not registered.");
        };
        Ok(match self.check_params(&params, &client, redirect_uri) {
            Ok(request) => Ok((request, client)),
            Err((code, description)) => {
                let (redirect_uri, state) = (redirect_uri.to_owned(), params.get("state").map(str::to_owned));
                let answer = ClientAnswer { redirect_uri, state, code, description };
                Err(RequestError::Client(answer, Box::new(client)))
            }
        })
    }

    fn check_params(
        &self,
        params: &Params,
        client: &Client,
        redirect_uri: &str,
    ) -> Result<AuthorizeRequest, (&'static str, &'static str)> {
        if params.get("request").is_some() {
            return Err(("request_not_supported", "request objects are not supported"));
        }
        if params.get("request_uri").is_some() {
            return Err(("request_uri_not_supported", "request objects are not supported"));
        }
        if params.get("response_type") != Some("code") {
            return Err(("unsupported_response_type", "the response type is `code`"));
        }
        if !matches!(params.get("response_mode"), None | Some("query")) {
            return Err(("invalid_request", "the response mode is `query`"));
        }
        if !client.may_use("authorization_code") {
            return Err(("unauthorized_client", "the client may not log users in"));
        }
        let has_method = params.get("code_challenge_method") == Some("S256");
        let challenge = params.get("code_challenge").filter(|challenge| has_method && is_digest(challenge));
        let Some(challenge) = challenge else {
            return Err(("invalid_request", "PKCE with a `code_challenge` of the method S256 is required"));
        };
        let Some(resource) = self.settings.requested_resource(params) else {
            return Err(("invalid_target", "tokens for this `resource` are not issued here"));
        };
        let dpop_jkt = params.get("dpop_jkt");
        if dpop_jkt.is_some_and(|thumbprint| !is_digest(thumbprint)) {
            return Err(("invalid_request", "`dpop_jkt` is not a thumbprint"));
        }
        let Some(scopes) = self.grantable_scopes(params.get("scope"), client) else {
            return Err(("invalid_scope", "none of these scopes can be granted"));
        };
        let prompt = params.get("prompt").unwrap_or_default();
        let has = |wanted: &str| prompt.split(' ').any(|each| each == wanted);
        Ok(AuthorizeRequest {
            client_id: client.client_id.clone(),
            redirect_uri: redirect_uri.to_owned(),
            has_named_uri: params.get("redirect_uri").is_some(),
            state: params.get("state").map(str::to_owned),
            scopes,
            resource: resource.to_owned(),
            code_challenge: challenge.to_owned(),
            dpop_jkt: dpop_jkt.map(str::to_owned),
            prompt: PagePrompt { none: has("none"), login: has("login"), consent: has("consent") },
        })
    }

    /// The scopes that a client gets if it asks for these: those that exist and that it may have. Without a wish it gets all
    /// of them. `None` if nothing is left of a wish.
    pub(in crate::authorization_server) fn grantable_scopes(
        &self,
        wanted: Option<&str>,
        client: &Client,
    ) -> Option<Vec<String>> {
        let may_have = |scope: &str| {
            let is_known = self.settings.scope_names().any(|known| known == scope);
            is_known && client.scopes.as_ref().is_none_or(|allowed| allowed.iter().any(|each| each == scope))
        };
        let Some(wanted) = wanted else {
            let all = self.settings.scope_names().filter(|scope| may_have(scope));
            return Some(all.map(str::to_owned).collect());
        };
        let mut scopes = scopes::parse(wanted);
        // A refresh token is issued without it.
        let asks_for_more = scopes.iter().any(|scope| scope != scopes::OFFLINE_ACCESS);
        scopes.retain(|scope| may_have(scope));
        (!scopes.is_empty() || !asks_for_more).then_some(scopes)
    }

    /// The URL that answers a client: its redirect URI with these parameters, `state` and `iss` (RFC 9207).
    pub(super) fn answer_url(
        &self,
        redirect_uri: &str,
        state: Option<&str>,
        params: &[(&str, &str)],
    ) -> String {
        let mut all = params.to_vec();
        all.extend(state.map(|state| ("state", state)));
        all.push(("iss", &self.settings.issuer));
        let separator = match redirect_uri.split_once('?') {
            None => "?",
            Some((_, "")) => "",
            Some(_) => "&",
        };
        format!("{redirect_uri}{separator}{}", encode_form(&all))
    }
}

/// Whether a text is a SHA-256 digest in base64url.
fn is_digest(text: &str) -> bool {
    text.len() == 43 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

const MAX_QUERY_BYTES: usize = 8 << 10;
