//! The calls of a client: credentials for each request, and what a challenge leads to.

use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};
use tsugite::client::{
    Authorizer, AuthorizerFuture, Challenge, ChallengeKind, Credentials, Fetcher, Identity, RequestInfo,
    ResponseInfo,
};

use crate::login::Login;
use crate::server_login::ServerLogin;

impl Login {
    /// The state of a server.
    pub(crate) fn server(&self, server: &str) -> Arc<ServerLogin> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let create = || Arc::new(ServerLogin::new(server.to_owned(), Arc::clone(&self.settings)));
        Arc::clone(servers.entry(server.to_owned()).or_insert_with(create))
    }
}

impl Authorizer for Login {
    fn attach(&self, server: &str, fetcher: &Fetcher) {
        self.server(server).set_fetcher(fetcher.clone());
    }

    fn authorize<'a>(&'a self, request: RequestInfo<'a>) -> AuthorizerFuture<'a, Credentials> {
        Box::pin(async move {
            let server = self.server(request.server);
            server.load().await?;
            server.wait_for_renewal().await;
            server.refresh_if_expired().await;
            Ok(server.credentials(request.verb, request.url)?)
        })
    }

    fn observe(&self, request: RequestInfo<'_>, response: ResponseInfo<'_>) {
        if let Some(nonce) = response.header("dpop-nonce") {
            self.server(request.server).set_nonce(nonce);
        }
    }

    fn handle_challenge<'a>(
        &'a self,
        request: RequestInfo<'a>,
        rejected: &'a Credentials,
        challenge: &'a Challenge,
    ) -> AuthorizerFuture<'a, bool> {
        Box::pin(async move {
            let server = self.server(request.server);
            // Streams and notifications are repeated by the client, and must not open one browser after the other.
            let may_ask_user = request.method.is_some() && self.settings.ask_user;
            let rejected = rejected.get("authorization").and_then(|value| value.split_once(' '));
            let rejected = rejected.map(|(_, token)| token);
            Ok(match challenge.kind {
                ChallengeKind::Unauthorized => server.renew(rejected, challenge, may_ask_user).await?,
                ChallengeKind::InsufficientScope => {
                    let operation = [request.method, request.name].map(Option::unwrap_or_default).join(" ");
                    server.step_up(rejected, challenge, &operation, may_ask_user).await?
                }
                ChallengeKind::DpopNonce => server.has_nonce(),
                _ => false,
            })
        })
    }

    fn identity(&self, server: &str) -> Option<Identity> {
        self.server(server).identity()
    }

    fn extensions(&self, _: &str) -> Vec<(String, Value)> {
        self.settings.grant.extension().map(|id| (id.to_owned(), json!({}))).into_iter().collect()
    }
}
