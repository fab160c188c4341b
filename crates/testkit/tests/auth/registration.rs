//! The identity of the client: which one is used, and what a registration says.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tsugite_auth::{
    ClientCredentials, ClientQuestion, Login, LoginPage, MemoryStore, Store, UserAgent, UserAgentFuture,
};

use super::world::{Changes, Clicks, Reply, World};
use super::{call, within};

fn metadata(edit: impl Fn(&World, &mut Value) + Send + Sync + 'static) -> Changes {
    Changes { metadata: Box::new(edit), ..Changes::default() }
}

#[tokio::test]
async fn registration_says_what_the_client_is() {
    // ACL-028, ACL-029, ACL-042, ACL-058, C-22
    let world = World::start(Changes::default()).await;
    world.try_login(&Clicks::default().login()).await.unwrap();
    let request = world.at("/register")[0].json();
    assert_eq!(request["application_type"], "native");
    assert_eq!(request["client_name"], "test app");
    assert_eq!(request["grant_types"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(request["redirect_uris"], json!([world.at("/authorize")[0].query["redirect_uri"]]));
    assert_eq!(world.at("/authorize")[0].query["client_id"], "registered");
}

#[tokio::test]
async fn registration_is_made_once() {
    // ACL-005, ACL-006, ACL-016
    let world = World::start(Changes { refresh: false, ..Changes::default() }).await;
    let store = MemoryStore::new();
    for _ in 0..2 {
        world.expire_tokens();
        let login = Clicks::default().login().store(store.clone());
        assert_eq!(world.try_login(&login).await.unwrap(), "in");
    }
    assert_eq!((world.at("/register").len(), world.at("/authorize").len()), (1, 2));
    let redirects: Vec<String> =
        world.at("/authorize").iter().map(|seen| seen.query["redirect_uri"].clone()).collect();
    assert_eq!(redirects[0], redirects[1], "the registered redirect URI is used again");
    let vault = store.read().await.unwrap();
    assert_eq!(vault.registrations.keys().collect::<Vec<_>>(), [&world.issuer]);
}

#[tokio::test]
async fn client_registers_again_for_more_scopes() {
    // Some servers take the scopes of a registration for a limit, others require them.
    let changes = Changes { challenge_scope: Some("read"), call_scope: Some("write"), ..Changes::default() };
    let world = World::start(changes).await;
    assert_eq!(world.try_login(&Clicks::default().login()).await.unwrap(), "in");
    let scopes: Vec<Value> = world.at("/register").iter().map(|seen| seen.json()["scope"].clone()).collect();
    assert_eq!(scopes, [json!("read"), json!("read write")]);
}

#[tokio::test]
async fn pre_registered_client_comes_first() {
    // ACL-020, ACL-021, ACL-027
    let world =
        World::start(metadata(|_, document| document["client_id_metadata_document_supported"] = json!(true)))
            .await;
    let login = Clicks::default().login().client_metadata_url("https://app.example.com/client").unwrap();
    let login = login.client(ClientCredentials::secret("mine", "se:cret"));
    assert_eq!(world.try_login(&login).await.unwrap(), "in");
    assert_eq!(world.at("/authorize")[0].query["client_id"], "mine");
    assert!(world.at("/register").is_empty());
    // Both parts are encoded: `mine:se%3Acret`.
    assert_eq!(world.at("/token")[0].header("authorization"), "Basic bWluZTpzZSUzQWNyZXQ=");
}

#[tokio::test]
async fn metadata_document_is_used_only_where_supported() {
    // ACL-019, ACL-022, ACL-026
    for supported in [true, false] {
        let world = World::start(metadata(move |_, document| {
            document["client_id_metadata_document_supported"] = json!(supported);
        }))
        .await;
        let url = "https://app.example.com/client.json";
        let login = Clicks::default().login().client_metadata_url(url).unwrap();
        assert_eq!(world.try_login(&login).await.unwrap(), "in");
        let expected = if supported { (url, 0) } else { ("registered", 1) };
        let authorize = &world.at("/authorize")[0];
        assert_eq!((authorize.query["client_id"].as_str(), world.at("/register").len()), expected);
    }
}

#[tokio::test]
async fn without_any_client_id_the_error_says_what_to_do() {
    let world = World::start(metadata(|_, document| {
        document.as_object_mut().unwrap().remove("registration_endpoint");
    }))
    .await;
    let error = world.try_login(&Clicks::default().login()).await.unwrap_err();
    assert!(error.contains("set its client id"), "{error}");
    assert!(world.at("/authorize").is_empty());
}

/// A person who knows a client id.
struct Asked {
    clicks: Clicks,
    id: &'static str,
    questions: Arc<Mutex<Vec<ClientQuestion>>>,
}

impl UserAgent for Asked {
    fn open(&self, page: LoginPage) -> UserAgentFuture<'_> {
        self.clicks.open(page)
    }

    fn client_id(&self, question: ClientQuestion) -> UserAgentFuture<'_> {
        self.questions.lock().unwrap().push(question);
        Box::pin(async { Ok(Some(self.id.to_owned())) })
    }
}

#[tokio::test]
async fn person_is_asked_for_a_client_id_once() {
    let world = World::start(metadata(|_, document| {
        document.as_object_mut().unwrap().remove("registration_endpoint");
    }))
    .await;
    let (store, questions) = (MemoryStore::new(), Arc::<Mutex<Vec<_>>>::default());
    let login = |id| {
        let asked = Asked { clicks: Clicks::default(), id, questions: Arc::clone(&questions) };
        Login::with_agent("app", asked).store(store.clone())
    };
    assert!(world.try_login(&login(" \n")).await.unwrap_err().contains("set its client id"));
    assert_eq!(world.try_login(&login(" mine\n")).await.unwrap(), "in");
    login("other").logout(&world.mcp).await.unwrap();
    assert_eq!(world.try_login(&login("other")).await.unwrap(), "in");
    let questions = questions.lock().unwrap().clone();
    assert_eq!(questions.len(), 2, "the first answer was empty, and the second is remembered");
    assert_eq!(
        (questions[0].issuer.as_str(), questions[0].redirect_uri.as_str()),
        (world.issuer.as_str(), "http://127.0.0.1/callback")
    );
    assert!(world.at("/authorize").iter().all(|seen| seen.query["client_id"] == "mine"));
}

#[tokio::test]
async fn refused_registration_is_explained() {
    // ACL-030
    let world = World::start(Changes {
        reply: Box::new(|_, seen| {
            let body = json!({"error": "invalid_redirect_uri", "error_description": "no loopback\u{1b}[2J"});
            (seen.path == "/register").then(|| Reply::json(400, &body))
        }),
        ..Changes::default()
    })
    .await;
    let error = world.try_login(&Clicks::default().login()).await.unwrap_err();
    assert!(error.contains("invalid_redirect_uri (no loopback [2J)"), "{error:?}");
    assert!(error.contains("redirect URI that it accepts"), "{error}");
}

#[tokio::test]
async fn new_authorization_server_gets_nothing_of_the_old_one() {
    // ACL-017, C-06
    let (old, new) = (World::start(Changes::default()).await, World::start(Changes::default()).await);
    let moved = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (switch, issuer) = (std::sync::Arc::clone(&moved), new.issuer.clone());
    let world = World::start(Changes {
        resource: Box::new(move |_, document| {
            if switch.load(std::sync::atomic::Ordering::SeqCst) {
                document["authorization_servers"] = json!([issuer]);
            }
        }),
        ..Changes::default()
    })
    .await;
    let client = within(world.client(&Clicks::default().login())).await.unwrap();
    assert_eq!(call(&client).await.unwrap(), "in");
    moved.store(true, std::sync::atomic::Ordering::SeqCst);
    world.expire_tokens();
    // The new server issues tokens that this one does not know; what it saw counts.
    assert!(call(&client).await.is_err());
    assert_eq!((new.at("/register").len(), new.at("/authorize").len()), (1, 1));
    let grants: Vec<_> = new.at("/token").iter().map(|seen| seen.form("grant_type").unwrap()).collect();
    assert_eq!(grants[0], "authorization_code");
    for seen in new.seen() {
        assert!(!format!("{seen:?}").contains("refresh-2"), "{seen:?}");
    }
    assert!(world.grants("refresh_token").is_empty());
    drop(old);
}

#[tokio::test]
async fn pre_registered_client_is_not_used_at_another_issuer() {
    // ACL-018
    let world = World::start(Changes::default()).await;
    let client = ClientCredentials::secret("mine", "secret").issuer("https://as.example.com");
    let error = world.try_login(&Clicks::default().login().client(client)).await.unwrap_err();
    assert!(error.contains("belongs to the authorization server \"https://as.example.com\""), "{error}");
    assert!(world.at("/authorize").is_empty() && world.at("/token").is_empty());
}
