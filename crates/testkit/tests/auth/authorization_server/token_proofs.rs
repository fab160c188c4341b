//! Proofs of possession at the token endpoint (DPoP): nonces, and keys that come with a refresh.

use std::time::Duration;

use serde_json::{Value, json};
use tsugite::server::{SealKey, SealKeys};
use tsugite_auth::authorization_server::AuthorizationServer;
use tsugite_store::MemoryStore;

use super::{Answer, ISSUER, Visitor, builder, decode_token, server};
use crate::verifiers::issuer::{TestKey, changed, now};

fn proof(key: &TestKey, id: &str, claims: &Value) -> String {
    let base = json!({"htm": "POST", "htu": format!("{ISSUER}/token"), "iat": now(), "jti": id});
    key.sign(&json!({"typ": "dpop+jwt", "jwk": key.jwk(), "kid": null}), &changed(base, claims))
}

#[tokio::test]
async fn unbound_tokens_are_bound_by_a_proof_at_their_refresh() {
    let server = server();
    let mut program = Visitor::new(&server);
    let client = program.public_client().await;
    let tokens = program.tokens(&client).await;
    let key = TestKey::new("dpop");
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let mut with = Visitor::new(&server).header("dpop", proof(&key, "1", &json!({})));
    let bound = with.refresh(&client, refresh).await.json();
    assert_eq!(bound["token_type"], "DPoP");
    assert_eq!(decode_token(&bound["access_token"]).1["cnf"]["jkt"], key.thumbprint());
}

#[tokio::test]
async fn nonce_is_asked_for_at_the_token_endpoint() {
    let store = std::sync::Arc::new(MemoryStore::new().shared());
    let replica = || {
        let keys = SealKeys::new(SealKey::new([7; 32]));
        builder().store(store.clone()).seal_keys(keys).require_dpop_nonce().build().unwrap()
    };
    let (one, two) = (replica(), replica());
    let mut program = Visitor::new(&one);
    let client = program.public_client().await;
    let code = program.get_code(&client, &[]).await;
    let key = TestKey::new("dpop");
    let exchange = async |server: &AuthorizationServer, id: &str, nonce: Value| -> Answer {
        let mut with = Visitor::new(server).header("dpop", proof(&key, id, &json!({"nonce": nonce})));
        with.exchange(&client, &code, &[]).await
    };
    let asked = exchange(&one, "1", Value::Null).await;
    assert_eq!((asked.status, asked.error()), (400, "use_dpop_nonce".to_owned()));
    assert!(asked.header("access-control-expose-headers").contains("dpop-nonce"));
    let nonce = asked.header("dpop-nonce").to_owned();
    assert!(!nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_graphic()));
    for (id, wrong) in [("2", json!("made-up")), ("3", json!(nonce[1..])), ("4", json!(1))] {
        assert_eq!(exchange(&one, id, wrong).await.error(), "use_dpop_nonce");
    }
    // After ten minutes, the nonce is too old.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(601)).await;
    tokio::time::resume();
    let late = proof(&key, "5", &json!({"nonce": nonce, "iat": now() + 601}));
    let late = Visitor::new(&one).header("dpop", late).exchange(&client, &code, &[]).await;
    assert_eq!(late.error(), "use_dpop_nonce");
    // Another replica accepts the nonce, and a code of a minute later.
    let code = program.get_code(&client, &[]).await;
    let fresh = late.header("dpop-nonce");
    let fresh = proof(&key, "6", &json!({"nonce": fresh, "iat": now() + 601}));
    let tokens = Visitor::new(&two).header("dpop", fresh).exchange(&client, &code, &[]).await.json();
    assert_eq!(tokens["token_type"], "DPoP", "{tokens}");
    // A client without a proof needs no nonce.
    assert_eq!(program.tokens(&client).await["token_type"], "Bearer");
}

#[tokio::test]
async fn refused_request_records_no_proof() {
    // Anyone can register and make proofs: only the holder of a grant may fill the store.
    let server = server();
    let mut program = Visitor::new(&server);
    let client = program.public_client().await;
    let code = program.get_code(&client, &[]).await;
    let proof = proof(&TestKey::new("dpop"), "1", &json!({}));
    let mut with = Visitor::new(&server).header("dpop", proof);
    assert_eq!(with.exchange(&client, "unknown", &[]).await.error(), "invalid_grant");
    assert_eq!(with.refresh(&client, "unknown").await.error(), "invalid_grant");
    assert_eq!(with.exchange(&client, &code, &[]).await.status, 200);
    let code = program.get_code(&client, &[]).await;
    assert_eq!(with.exchange(&client, &code, &[]).await.error(), "invalid_dpop_proof");
}
