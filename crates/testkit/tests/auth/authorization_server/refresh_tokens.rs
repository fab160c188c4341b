//! Refresh tokens: rotation, repetition, and theft.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Visitor, decode_token, server, verify};

async fn tokens(program: &mut Visitor) -> (String, Value) {
    let client = program.public_client().await;
    let tokens = program.tokens(&client).await;
    (client, tokens)
}

fn refresh_token(tokens: &Value) -> &str {
    tokens["refresh_token"].as_str().unwrap_or_else(|| panic!("{tokens}"))
}

#[tokio::test]
async fn each_refresh_replaces_the_token() {
    // AAS-021, AAS-022
    let server = server();
    let mut program = Visitor::new(&server);
    let (client, first) = tokens(&mut program).await;
    let second = program.refresh(&client, refresh_token(&first)).await.json();
    let third = program.refresh(&client, refresh_token(&second)).await.json();
    assert_ne!(refresh_token(&first), refresh_token(&second));
    assert_ne!(refresh_token(&second), refresh_token(&third));
    assert!(verify(&server, &third["access_token"]).await.is_ok());
    assert_eq!(decode_token(&third["access_token"]).1["sub"], "ann");
}

#[tokio::test(start_paused = true)]
async fn repeated_refresh_returns_the_same_successor() {
    let mut program = Visitor::new(&server());
    let (client, first) = tokens(&mut program).await;
    let second = program.refresh(&client, refresh_token(&first)).await.json();
    tokio::time::advance(Duration::from_secs(8)).await;
    let again = program.refresh(&client, refresh_token(&first)).await.json();
    assert_eq!(refresh_token(&second), refresh_token(&again));
    assert_eq!(program.refresh(&client, refresh_token(&again)).await.status, 200);
}

#[tokio::test]
async fn concurrent_refreshes_get_one_successor() {
    let mut program = Visitor::new(&server());
    let (client, first) = tokens(&mut program).await;
    let (mut one, mut two) = (program.clone(), program.clone());
    let token = refresh_token(&first);
    let (one, two) = tokio::join!(one.refresh(&client, token), two.refresh(&client, token));
    assert_eq!(refresh_token(&one.json()), refresh_token(&two.json()));
}

#[tokio::test(start_paused = true)]
async fn stolen_refresh_token_revokes_the_family() {
    // P-09
    // After 10 seconds.
    let server = server();
    let mut program = Visitor::new(&server);
    let (client, first) = tokens(&mut program).await;
    let second = program.refresh(&client, refresh_token(&first)).await.json();
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(program.refresh(&client, refresh_token(&first)).await.error(), "invalid_grant");
    assert_eq!(program.refresh(&client, refresh_token(&second)).await.error(), "invalid_grant");
    assert!(verify(&server, &second["access_token"]).await.is_err());
    // Within 10 seconds, when the successor was used.
    let (client, first) = tokens(&mut program).await;
    let second = program.refresh(&client, refresh_token(&first)).await.json();
    let third = program.refresh(&client, refresh_token(&second)).await.json();
    assert_eq!(program.refresh(&client, refresh_token(&first)).await.error(), "invalid_grant");
    assert_eq!(program.refresh(&client, refresh_token(&third)).await.error(), "invalid_grant");
    assert!(verify(&server, &third["access_token"]).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn old_refresh_token_revokes_the_family_whatever_is_asked_for() {
    // P-09
    for more in [("scope", "admin"), ("resource", "https://x.example")] {
        let mut program = Visitor::new(&server());
        let (client, first) = tokens(&mut program).await;
        let second = program.refresh(&client, refresh_token(&first)).await.json();
        tokio::time::advance(Duration::from_secs(11)).await;
        // Not by another client.
        let other = program.public_client().await;
        assert_eq!(program.refresh(&other, refresh_token(&first)).await.error(), "invalid_grant");
        let form = [("grant_type", "refresh_token"), ("refresh_token", refresh_token(&first))];
        let form = [&form[..], &[("client_id", &*client), more]].concat();
        let third = program.refresh(&client, refresh_token(&second)).await.json();
        assert_eq!(program.post("/token", &form).await.error(), "invalid_grant");
        assert_eq!(
            program.refresh(&client, refresh_token(&third)).await.error(),
            "invalid_grant",
            "{more:?}"
        );
    }
}

#[tokio::test]
async fn refresh_token_is_bound_to_its_client_and_scopes() {
    let mut program = Visitor::new(&server());
    let (client, first) = tokens(&mut program).await;
    let other = program.public_client().await;
    let token = refresh_token(&first);
    assert_eq!(program.refresh(&other, token).await.error(), "invalid_grant");
    let form = [("grant_type", "refresh_token"), ("client_id", &client), ("refresh_token", token)];
    let more = program.post("/token", &[&form[..], &[("scope", "notes:read admin")]].concat()).await;
    assert_eq!(more.error(), "invalid_scope");
    let elsewhere = program.post("/token", &[&form[..], &[("resource", "https://x.example")]].concat()).await;
    assert_eq!(elsewhere.error(), "invalid_target");
    let less = program.post("/token", &[&form[..], &[("scope", "notes:read")]].concat()).await.json();
    assert_eq!(less["scope"], "notes:read");
    // The family keeps its scopes.
    let all = program.refresh(&client, refresh_token(&less)).await.json();
    assert_eq!(all["scope"], "notes:read notes:write");
}

#[tokio::test(start_paused = true)]
async fn unused_refresh_token_expires() {
    let server = super::builder().refresh_token_ttl(Duration::from_secs(3_600)).build().unwrap();
    let mut program = Visitor::new(&server);
    let (client, first) = tokens(&mut program).await;
    tokio::time::advance(Duration::from_secs(3_000)).await;
    let second = program.refresh(&client, refresh_token(&first)).await.json();
    tokio::time::advance(Duration::from_secs(3_000)).await;
    let third = program.refresh(&client, refresh_token(&second)).await.json();
    tokio::time::advance(Duration::from_secs(3_601)).await;
    assert_eq!(program.refresh(&client, refresh_token(&third)).await.error(), "invalid_grant");
}

#[tokio::test]
async fn client_without_the_grant_gets_no_refresh_token() {
    let mut program = Visitor::new(&server());
    let registered = program.register(&json!({"grant_types": ["authorization_code"]})).await;
    let client = registered["client_id"].as_str().unwrap();
    let tokens = program.tokens(client).await;
    assert!(tokens.get("refresh_token").is_none());
}
