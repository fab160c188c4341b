//! Clients that are the URL of their metadata document, and requests that such a URL must not cause.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{CALLBACK, Visitor, builder};
use crate::verifiers::issuer::{TestKey, now};

/// Status, headers and body.
type HostAnswer = (u16, Vec<(&'static str, String)>, String);

/// A web server with one document, whose answer a test sets.
#[derive(Clone)]
struct Host {
    url: String,
    answer: Arc<Mutex<HostAnswer>>,
    count: Arc<Mutex<usize>>,
}

impl Host {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/client.json", listener.local_addr().unwrap());
        let host = Self { url, answer: Arc::default(), count: Arc::default() };
        host.publish(&json!({}));
        let serving = host.clone();
        let router = Router::new().fallback(move |_: Request| {
            *serving.count.lock().unwrap() += 1;
            let (status, headers, body) = serving.answer.lock().unwrap().clone();
            async move {
                let response = Response::builder().status(status);
                let response =
                    headers.iter().fold(response, |response, (name, value)| response.header(*name, value));
                response.body(Body::from(body)).unwrap()
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        host
    }

    fn set(&self, status: u16, headers: Vec<(&'static str, String)>, body: String) {
        *self.answer.lock().unwrap() = (status, headers, body);
    }

    /// Publishes a valid document with changes.
    fn publish(&self, changes: &Value) {
        let mut document =
            json!({"client_id": self.url, "client_name": "Document app", "redirect_uris": [CALLBACK]});
        for (name, value) in changes.as_object().unwrap() {
            document[name] = value.clone();
        }
        self.set(200, vec![("cache-control", "max-age=120".to_owned())], document.to_string());
    }

    fn count(&self) -> usize {
        *self.count.lock().unwrap()
    }
}

#[tokio::test]
async fn client_can_be_the_url_of_its_document() {
    // AAS-008, AAS-009, AAS-011
    let host = Host::start().await;
    let server = builder().allow_private_addresses().build().unwrap();
    let mut browser = Visitor::new(&server);
    let page = browser.authorize(&host.url, &[]).await;
    let page = browser.log_in(&page, "ann").await;
    assert!(
        page.body.contains("Document app") && page.body.contains("published by <strong>127.0.0.1</strong>")
    );
    let code = browser.decide(&page, "allow").await.code();
    assert_eq!(browser.exchange(&host.url, &code, &[]).await.status, 200);
    let elsewhere = browser.authorize(&host.url, &[("redirect_uri", "https://evil.example/callback")]).await;
    assert_eq!((elsewhere.status, elsewhere.header("location")), (400, ""));
    // All of this needed one request, and none before two minutes are over.
    assert_eq!(host.count(), 1);
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(121)).await;
    tokio::time::resume();
    host.publish(&json!({"redirect_uris": ["https://app.example/other"]}));
    assert_eq!(browser.authorize(&host.url, &[]).await.status, 400);
    assert_eq!(host.count(), 2);
}

#[tokio::test]
async fn unfit_documents_are_refused() {
    // AAS-010, P-07
    type Change = fn(&Host);
    let changes: [(&str, Change); 7] = [
        ("another id", |host| host.publish(&json!({"client_id": "https://app.example/client.json"}))),
        ("no JSON", |host| host.set(200, Vec::new(), "<html>".to_owned())),
        ("huge", |host| host.publish(&json!({"x": "y".repeat(100_000)}))),
        ("a member twice", |host| {
            let (status, headers, body) = host.answer.lock().unwrap().clone();
            host.set(status, headers, body.replacen('{', "{\"client_name\": \"Other\",", 1));
        }),
        ("a secret", |host| host.publish(&json!({"client_secret": "s"}))),
        ("missing", |host| host.set(404, Vec::new(), String::new())),
        ("redirect", |host| host.set(302, vec![("location", host.url.clone())], String::new())),
    ];
    for (why, change) in changes {
        let host = Host::start().await;
        change(&host);
        let server = builder().allow_private_addresses().build().unwrap();
        let page = Visitor::new(&server).authorize(&host.url, &[]).await;
        assert!(page.status == 400 && page.body.contains("not known here"), "{why}: {}", page.body);
        // It is not kept: a document that is repaired counts at once.
        host.publish(&json!({}));
        let page = Visitor::new(&server).authorize(&host.url, &[]).await;
        assert_eq!((page.status, host.count()), (200, 2), "{why}");
    }
}

/// Lets time pass. It stands still only now: paused time runs ahead of answers from sockets.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn client_stays_known_while_its_document_cannot_be_fetched() {
    let host = Host::start().await;
    let server = builder().allow_private_addresses().build().unwrap();
    let mut browser = Visitor::new(&server);
    let tokens = browser.tokens(&host.url).await;
    pass(121).await;
    host.set(502, Vec::new(), String::new());
    let refreshed = browser.refresh(&host.url, tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!(refreshed.status, 200, "{}", refreshed.body);
    assert_eq!(host.count(), 2);
    // A host that has no time says nothing about the document.
    let mut token = refreshed.json()["refresh_token"].as_str().unwrap().to_owned();
    for status in [408, 429] {
        pass(31).await;
        host.set(status, Vec::new(), String::new());
        let refreshed = browser.refresh(&host.url, &token).await;
        assert_eq!(refreshed.status, 200, "{status}: {}", refreshed.body);
        token = refreshed.json()["refresh_token"].as_str().unwrap().to_owned();
    }
    assert_eq!(host.count(), 4);
    // A server that has never seen the document says that it cannot tell.
    let mut elsewhere = Visitor::new(&builder().allow_private_addresses().build().unwrap());
    let answer = elsewhere.refresh(&host.url, &token).await;
    assert_eq!((answer.status, answer.error()), (503, "temporarily_unavailable".to_owned()));
    // After a day the last document counts no more.
    pass(24 * 60 * 60).await;
    assert_eq!(browser.refresh(&host.url, &token).await.status, 503);
    host.set(404, Vec::new(), String::new());
    assert_eq!(browser.refresh(&host.url, &token).await.status, 401);
}

#[tokio::test]
async fn documents_do_not_lead_to_internal_addresses() {
    // AAS-012, P-07
    let host = Host::start().await;
    let port = host.url.rsplit(':').next().unwrap();
    let server = builder().build().unwrap();
    let mut browser = Visitor::new(&server);
    for url in [
        host.url.clone(),
        format!("https://127.0.0.1:{port}"),
        format!("https://localhost:{port}"),
        format!("https://[::1]:{port}"),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "https://10.0.0.1/client.json".to_owned(),
        "https://[fd00:ec2::254]/client.json".to_owned(),
        "file:///etc/passwd".to_owned(),
        "https://user:pass@app.example/client.json".to_owned(),
    ] {
        let page = browser.authorize(&url, &[]).await;
        assert!(page.status == 400 && page.body.contains("not known here"), "{url}: {}", page.body);
    }
    // Only the resolver can tell that this is a loopback address; names may have other addresses later.
    let page = browser.authorize(&format!("https://2130706433:{port}/client.json"), &[]).await;
    assert_eq!(page.status, 503, "{}", page.body);
    assert_eq!(host.count(), 0);
}

#[tokio::test]
async fn fetches_for_one_address_are_limited() {
    let host = Host::start().await;
    let server = builder().allow_private_addresses().build().unwrap();
    let mut eve = Visitor::new(&server);
    for number in 0..40 {
        eve.authorize(&format!("{}?{number}", host.url), &[]).await;
    }
    assert!((30..=31).contains(&host.count()), "{}", host.count());
}

#[tokio::test]
async fn keys_of_a_document_are_fetched_seldom() {
    let (host, keys, key) = (Host::start().await, Host::start().await, TestKey::new("k"));
    host.publish(&json!({"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": keys.url}));
    keys.set(200, Vec::new(), json!({"keys": [key.jwk()]}).to_string());
    let server = builder().allow_private_addresses().build().unwrap();
    let mut client = Visitor::new(&server);
    let stranger = TestKey::new("k");
    for number in 0..80 {
        // Every second assertion has the signature of somebody else.
        let (signer, status) = if number % 2 == 0 { (&key, 400) } else { (&stranger, 401) };
        let claims = json!({
            "iss": host.url, "sub": host.url, "aud": super::ISSUER, "exp": now() + 60, "jti": number.to_string(),
        });
        let form = [
            ("grant_type", "authorization_code"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", &signer.sign(&json!({"typ": "JWT"}), &claims)),
        ];
        let answer = client.post("/token", &form).await;
        assert_eq!(answer.status, status, "{number}: {}", answer.body);
    }
    assert_eq!(keys.count(), 1);
}

#[tokio::test]
async fn assertions_of_documents_are_limited() {
    // Anyone can publish a document with a key, and the id of each assertion is recorded.
    let (host, key) = (Host::start().await, TestKey::new("k"));
    host.publish(&json!({"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [key.jwk()]}}));
    let server = builder().allow_private_addresses().build().unwrap();
    let mut eve = Visitor::new(&server);
    let mut refused = 0;
    for number in 0..305 {
        let claims = json!({
            "iss": host.url, "sub": host.url, "aud": super::ISSUER, "exp": now() + 60, "jti": number.to_string(),
        });
        let form = [
            ("grant_type", "authorization_code"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", &key.sign(&json!({"typ": "JWT"}), &claims)),
        ];
        match eve.post("/token", &form).await.status {
            429 => refused += 1,
            status => assert_eq!(status, 400),
        }
    }
    assert!((1..=5).contains(&refused), "{refused}");
}
