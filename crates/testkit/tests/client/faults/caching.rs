//! The cache of a client whose authorizer acts for several users, one after the other.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tsugite::client::{Authorizer, AuthorizerFuture, Challenge, Client, Credentials, Identity, RequestInfo};

use super::raw::{AfterResponse, Raw, ReceivedRequest};
use super::within;

/// Acts for the user it names.
struct Login {
    user: Arc<Mutex<String>>,
    /// Whether the authorizer knows its user without a look at the credentials.
    identifies: bool,
}

impl Authorizer for Login {
    fn authorize<'a>(&'a self, _: RequestInfo<'a>) -> AuthorizerFuture<'a, Credentials> {
        let user = self.user.lock().unwrap().clone();
        Box::pin(async move { Ok(Credentials::bearer(user)) })
    }

    fn handle_challenge<'a>(
        &'a self,
        _: RequestInfo<'a>,
        _: &'a Credentials,
        _: &'a Challenge,
    ) -> AuthorizerFuture<'a, bool> {
        Box::pin(async { Ok(false) })
    }

    fn identity(&self, _: &str) -> Option<Identity> {
        // The token is renewed, the user stays.
        let user = self.user.lock().unwrap();
        let subject = user.split('.').next().unwrap_or_default().to_owned();
        self.identifies.then(|| Identity { subject, scopes: String::new() })
    }
}

/// A server whose only tool is named after the credentials.
fn server(scope: &'static str) -> Raw {
    Raw::start(move |request, writer| {
        let name = request.header("authorization").unwrap_or_default().replace("Bearer ", "");
        writer.json(&request.result(json!({
            "tools": [{"name": name, "inputSchema": {"type": "object"}}],
            "ttlMs": 60_000, "cacheScope": scope, "resultType": "complete",
        })));
        AfterResponse::Keep
    })
}

async fn client(raw: &Raw, identifies: bool) -> (Client, Arc<Mutex<String>>) {
    let user = Arc::new(Mutex::new("ann".to_owned()));
    let login = Login { user: Arc::clone(&user), identifies };
    (within(raw.stateless_client().authorizer(login)).await.unwrap(), user)
}

async fn listed(client: &Client) -> String {
    within(client.list_tools()).await.unwrap().remove(0).name
}

fn lists(raw: &Raw) -> usize {
    raw.count(|request: &ReceivedRequest| request.method() == "tools/list")
}

#[tokio::test]
async fn private_results_are_not_shared_between_identities() {
    // CACH-013, F-26
    for identifies in [false, true] {
        let raw = server("private");
        let (client, user) = client(&raw, identifies).await;
        assert_eq!((listed(&client).await, listed(&client).await), ("ann".into(), "ann".into()));
        assert_eq!(lists(&raw), 1);
        *user.lock().unwrap() = "bob".to_owned();
        assert_eq!((listed(&client).await, listed(&client).await), ("bob".into(), "bob".into()));
        assert_eq!(lists(&raw), 2);
        // The results of the first user were dropped when the second one came.
        *user.lock().unwrap() = "ann".to_owned();
        assert_eq!(listed(&client).await, "ann");
        assert_eq!(lists(&raw), 3);
    }
}

#[tokio::test]
async fn renewed_token_of_the_same_identity_keeps_the_cache() {
    let raw = server("private");
    let (client, user) = client(&raw, true).await;
    *user.lock().unwrap() = "ann.1".to_owned();
    assert_eq!(listed(&client).await, "ann.1");
    *user.lock().unwrap() = "ann.2".to_owned();
    assert_eq!(listed(&client).await, "ann.1");
    assert_eq!(lists(&raw), 1);
}

#[tokio::test]
async fn public_results_are_shared_between_identities() {
    // F-26
    let raw = server("public");
    let (client, user) = client(&raw, true).await;
    assert_eq!(listed(&client).await, "ann");
    *user.lock().unwrap() = "bob".to_owned();
    assert_eq!(listed(&client).await, "ann");
    assert_eq!(lists(&raw), 1);
}

#[tokio::test]
async fn result_of_a_change_of_identity_is_not_cached() {
    // The user changes while the request is on its way.
    let user = Arc::new(Mutex::new("ann".to_owned()));
    let login = Login { user: Arc::clone(&user), identifies: true };
    let raw = Raw::start(move |request, writer| {
        *user.lock().unwrap() = "bob".to_owned();
        writer.json(&request.result(json!({
            "tools": [], "ttlMs": 60_000, "cacheScope": "private", "resultType": "complete",
        })));
        AfterResponse::Keep
    });
    let client = within(raw.stateless_client().authorizer(login)).await.unwrap();
    for times in 1..=2 {
        assert!(within(client.list_tools()).await.unwrap().is_empty());
        assert_eq!(lists(&raw), times);
    }
}
