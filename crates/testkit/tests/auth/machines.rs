//! Grants without a person: client credentials, the identity provider of a company, workload identity; and DPoP.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tsugite::base64;
use tsugite::client::Authorizer;
use tsugite_auth::{
    Algorithm, Assertion, ClientCredentials, EnterpriseIdp, Jwk, Login, MemoryStore, SigningKey, Store,
};

use super::world::{Changes, Clicks, Reply, World};
use super::{call, within};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";

#[tokio::test]
async fn client_credentials_need_no_person() {
    // ACL-054, ACL-062, ACL-063
    let world = World::start(Changes { challenge_scope: Some("read"), ..Changes::default() }).await;
    let login = Login::client_credentials(ClientCredentials::secret("service", "secret"));
    assert_eq!(world.try_login(&login).await.unwrap(), "in");
    let token = &world.grants("client_credentials")[0];
    assert_eq!(token.form("resource").unwrap(), world.mcp);
    assert_eq!(token.form("scope").unwrap(), "read");
    assert_eq!(token.header("authorization"), format!("Basic {}", base64::encode(b"service:secret")));
    assert!(world.at("/register").is_empty() && world.at("/authorize").is_empty());
    let message = &world.messages()[0].json();
    let extensions = &message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
    assert_eq!(extensions, &json!({"io.modelcontextprotocol/oauth-client-credentials": {}}));
}

#[tokio::test]
async fn renewed_token_of_an_application_keeps_its_identity() {
    let world = World::start(Changes { refresh: false, ..Changes::default() }).await;
    let login = Login::client_credentials(ClientCredentials::secret("service", "secret"));
    let identity = || login.identity(&world.mcp).unwrap();
    world.try_login(&login).await.unwrap();
    let before = identity();
    world.expire_tokens();
    world.try_login(&login).await.unwrap();
    assert_eq!((identity(), world.grants("client_credentials").len()), (before, 2));
    // Each login of a person is an identity of its own.
    let clicks = Clicks::default().login();
    world.try_login(&clicks).await.unwrap();
    let before = clicks.identity(&world.mcp).unwrap().subject;
    world.expire_tokens();
    world.try_login(&clicks).await.unwrap();
    assert_ne!(clicks.identity(&world.mcp).unwrap().subject, before);
}

#[tokio::test]
async fn client_may_sign_assertions_about_itself() {
    // ACL-025, ACL-062
    let pem = include_str!("../../../auth/tests/data/p256.pem");
    let key = SigningKey::from_pem(pem, Algorithm::Es256).unwrap().key_id("k1");
    let world = World::start(Changes::default()).await;
    let login = Login::client_credentials(ClientCredentials::key("service", key));
    assert_eq!(world.try_login(&login).await.unwrap(), "in");
    let token = &world.grants("client_credentials")[0];
    let assertion = token.form("client_assertion").unwrap();
    let claims: Value =
        serde_json::from_slice(&base64::decode_url(assertion.split('.').nth(1).unwrap()).unwrap()).unwrap();
    assert_eq!((&claims["iss"], &claims["sub"]), (&json!("service"), &json!("service")));
    assert_eq!(claims["aud"], json!(world.issuer));
    assert!(claims["exp"].as_u64() > claims["iat"].as_u64() && claims["jti"].is_string());
    let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    assert_eq!(token.form("client_assertion_type").as_deref(), Some(kind));
    assert_eq!((token.form("client_secret"), token.header("authorization")), (None, ""));
}

/// A world whose authorization server is also the identity provider of a company.
async fn company(exchange: Value) -> World {
    World::start(Changes {
        reply: Box::new(move |_, seen| {
            let is_exchange = seen.form("grant_type").as_deref() == Some(EXCHANGE);
            is_exchange.then(|| Reply::json(200, &exchange))
        }),
        ..Changes::default()
    })
    .await
}

fn enterprise(world: &World) -> Login {
    let at_idp = ClientCredentials::secret("at-idp", "idp-secret").secret_in_body();
    let idp = EnterpriseIdp::new(format!("{}/token", world.issuer), at_idp, Assertion::fixed("the-id-token"));
    Login::enterprise(ClientCredentials::secret("at-as", "as-secret"), idp)
}

#[tokio::test]
async fn company_decides_without_an_authorization_page() {
    // ACL-065, ACL-066, ACL-068
    let issued = json!({
        "access_token": "the-id-jag", "token_type": "N_A",
        "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
    });
    let world = company(issued).await;
    let store = MemoryStore::new();
    assert_eq!(world.try_login(&enterprise(&world).store(store.clone())).await.unwrap(), "in");
    let exchange = &world.grants(EXCHANGE)[0];
    for (name, expected) in [
        ("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag"),
        ("subject_token", "the-id-token"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("audience", world.issuer.as_str()),
        ("resource", world.mcp.as_str()),
        ("client_id", "at-idp"),
        ("client_secret", "idp-secret"),
    ] {
        assert_eq!(exchange.form(name).as_deref(), Some(expected), "{name}");
    }
    let bearer = &world.grants(JWT_BEARER)[0];
    assert_eq!(bearer.form("assertion").unwrap(), "the-id-jag");
    assert_eq!(bearer.header("authorization"), format!("Basic {}", base64::encode(b"at-as:as-secret")));
    assert!(world.at("/authorize").is_empty());
    // ACL-067: the ID-JAG is in no URL and never stored.
    assert!(world.seen().iter().all(|seen| !seen.query.values().any(|value| value.contains("the-id"))));
    let stored = serde_json::to_string(&store.read().await.unwrap()).unwrap();
    assert!(stored.contains("access-") && !stored.contains("the-id"), "{stored}");
}

#[tokio::test]
async fn other_token_than_an_id_jag_is_not_presented() {
    let world =
        company(json!({"access_token": "x", "token_type": "Bearer", "issued_token_type": "urn:other"})).await;
    let error = world.try_login(&enterprise(&world)).await.unwrap_err();
    assert!(error.contains("ID-JAG"), "{error}");
    assert!(world.grants(JWT_BEARER).is_empty());
}

#[tokio::test]
async fn rejected_workload_token_is_reported_and_not_repeated() {
    // ACL-071
    let world = World::start(Changes {
        reply: Box::new(|_, seen| {
            let bad = seen.form("assertion").as_deref() == Some("expired");
            bad.then(|| Reply::json(400, &json!({"error": "invalid_grant", "error_description": "expired"})))
        }),
        ..Changes::default()
    })
    .await;
    let login = |token: &str| Login::workload(ClientCredentials::public("job"), Assertion::fixed(token));
    let error = world.try_login(&login("expired")).await.unwrap_err();
    assert!(error.contains("invalid_grant (expired)"), "{error}");
    assert_eq!(world.at("/token").len(), 1);
    assert_eq!(world.try_login(&login("good")).await.unwrap(), "in");
    let token = &world.grants(JWT_BEARER)[1];
    assert_eq!(
        (token.form("assertion").unwrap(), token.form("resource").unwrap()),
        ("good".into(), world.mcp.clone())
    );
}

/// Verifies a proof with the key it carries, and returns its claims and the key.
fn proof(header: &str) -> (Value, Value) {
    let head: Value =
        serde_json::from_slice(&base64::decode_url(header.split('.').next().unwrap()).unwrap()).unwrap();
    let jwk: Jwk = serde_json::from_value(head["jwk"].clone()).unwrap();
    (jwk.verify_jwt(header, &["ES256"]).unwrap().1, head["jwk"].clone())
}

#[tokio::test]
async fn proofs_carry_the_nonces_of_both_servers() {
    // ACL-069, ACL-070
    let seen_ids = Arc::new(Mutex::new(Vec::new()));
    let ids = Arc::clone(&seen_ids);
    let world = World::start(Changes {
        reply: Box::new(move |world, seen| {
            let (nonce, at_token) =
                if seen.at_issuer { ("as-nonce", seen.path == "/token") } else { ("rs-nonce", false) };
            let has_token = seen.header("authorization").starts_with("DPoP ");
            if !at_token && !has_token {
                return None;
            }
            let (claims, _) = proof(seen.header("dpop"));
            ids.lock().unwrap().push(claims["jti"].as_str().unwrap().to_owned());
            assert_eq!(claims["htm"], "POST");
            assert_eq!(claims["ath"].is_string(), has_token);
            if claims["nonce"] == nonce {
                if at_token {
                    let mut reply = world.answer_as_issuer(seen);
                    reply.body =
                        String::from_utf8(reply.body).unwrap().replace("Bearer", "DPoP").into_bytes();
                    return Some(reply);
                }
                return None;
            }
            let mut reply = Reply::json(400, &json!({"error": "use_dpop_nonce"}));
            if !at_token {
                reply = Reply::challenge(401, "DPoP error=\"use_dpop_nonce\"");
            }
            reply.headers.push(("dpop-nonce", nonce.to_owned()));
            Some(reply)
        }),
        ..Changes::default()
    })
    .await;
    let client = within(world.client(&Clicks::default().login().dpop())).await.unwrap();
    assert_eq!(call(&client).await.unwrap(), "in");
    assert_eq!(call(&client).await.unwrap(), "in");
    let ids = seen_ids.lock().unwrap().clone();
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    // Two token requests, a call without nonce, and two with it.
    assert_eq!((ids.len(), distinct.len()), (5, 5));
}

#[tokio::test]
async fn unbound_token_is_refused_where_a_bound_one_is_required() {
    let world = World::start(Changes {
        resource: Box::new(|_, document| document["dpop_bound_access_tokens_required"] = json!(true)),
        ..Changes::default()
    })
    .await;
    let error = world.try_login(&Clicks::default().login()).await.unwrap_err();
    assert!(error.contains("not DPoP"), "{error}");
    assert!(world.messages().iter().all(|message| message.header("authorization").is_empty()));
}
