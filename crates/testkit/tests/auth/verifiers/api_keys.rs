//! API keys in a header of their own.

use serde_json::json;
use tsugite::prelude::*;
use tsugite::transport::http::Http;
use tsugite_auth::resource::{AnyOf, ApiKeys, Jwt};
use tsugite_testkit::http::{Request, Response};

use super::issuer::{Protected, TestIssuer, text};

const KEY: &str = "8b1f4c5e0d3a4b7c9e2f1a6d";

fn keys() -> ApiKeys {
    ApiKeys::new().add(KEY, Principal::new("build")).header("X-Api-Key").unwrap()
}

async fn send(protected: &Protected, headers: &[(&str, &str)]) -> Response {
    let params = json!({"name": "whoami", "arguments": {}});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let request = headers
        .iter()
        .fold(Request::stateless(message), |request, (name, value)| request.header(name, value));
    crate::within(protected.serving.send(request)).await
}

#[tokio::test]
async fn key_is_accepted_in_its_own_header() {
    let protected = Protected::start(keys()).await;
    let bearer = format!("Bearer {KEY}");
    // Twice, since the second one is found in the cache.
    for _ in 0..2 {
        assert_eq!(text(&send(&protected, &[("x-api-key", KEY)]).await), " build  ");
        assert_eq!(text(&send(&protected, &[("authorization", &bearer)]).await), " build  ");
    }
    let wrong = KEY.replace('8', "9");
    for (headers, status) in [
        (&[("x-api-key", &*wrong)][..], 401),
        (&[("x-api-key", &bearer)], 400),
        (&[("x-other-key", KEY)], 401),
        (&[("x-api-key", KEY), ("x-api-key", KEY)], 400),
        (&[("x-api-key", KEY), ("authorization", &bearer)], 400),
        (&[("x-api-key", "")], 400),
    ] {
        let refused = send(&protected, headers).await;
        assert_eq!(refused.status, status, "{headers:?}: {refused:?}");
        assert!(refused.header("www-authenticate").unwrap().starts_with("Bearer"), "{refused:?}");
        assert!(!format!("{refused:?}").contains(KEY) && !format!("{refused:?}").contains(&wrong));
    }
}

#[tokio::test]
async fn verifiers_may_share_a_header() {
    let others = ApiKeys::new().add("another-key-of-sixteen", Principal::new("deploy"));
    let others = others.header("x-api-key").unwrap().header("X-API-KEY").unwrap();
    let protected = Protected::start(AnyOf::new().or(keys()).or(others)).await;
    assert_eq!(text(&send(&protected, &[("x-api-key", KEY)]).await), " build  ");
    assert_eq!(text(&send(&protected, &[("X-Api-Key", "another-key-of-sixteen")]).await), " deploy  ");
    assert_eq!(send(&protected, &[("x-api-key", KEY), ("x-api-key", KEY)]).await.status, 400);
}

#[tokio::test]
async fn header_is_read_only_where_it_is_set() {
    let protected = Protected::start(ApiKeys::new().add(KEY, Principal::new("build"))).await;
    assert_eq!(send(&protected, &[("x-api-key", KEY)]).await.status, 401);
    // Nor is the token of an issuer accepted there, whether or not it was verified before.
    let issuer = TestIssuer::start().await;
    let key = issuer.add_key("k1");
    let protected = Protected::start(AnyOf::new().jwt(Jwt::issuer(&issuer.url)).or(keys())).await;
    let token = key.sign(&json!({}), &protected.claims(&issuer, &json!({})));
    assert_eq!(send(&protected, &[("x-api-key", &token)]).await.status, 401);
    assert_eq!(protected.call(&token).await.status, 200);
    assert_eq!(send(&protected, &[("x-api-key", &token)]).await.status, 401);
    assert_eq!(send(&protected, &[("x-api-key", KEY)]).await.status, 200);
}

#[tokio::test]
async fn pages_may_send_the_header_of_a_key() {
    let server = Server::new("s", "1").authorize(keys()).http(Http::new().cors(true));
    let protected = Protected::serve(&server).await;
    let request = Request::new("OPTIONS").path("/mcp").header("origin", "http://localhost:5173");
    let preflight = protected.serving.send(request).await;
    assert_eq!(preflight.status, 204, "{preflight:?}");
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("x-api-key"), "{preflight:?}");
}
