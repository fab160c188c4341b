//! Login at an OpenID provider, and the confused deputy: our server is one client there, for all its own clients.

use serde_json::json;
use tsugite_auth::authorization_server::{AuthorizationServer, OpenIdProvider};

use super::openid_provider::Provider;
use super::{ISSUER, RESOURCE, Visitor, decode_token};

#[tokio::test]
async fn provider_is_visited_after_consent_only() {
    // SEC-005, SEC-006, SEC-009, ARS-028, P-01
    let provider = Provider::start().await;
    let server = provider.server();
    let mut victim = Visitor::new(&server);
    let client = victim.public_client().await;
    // The victim is logged in at the provider, which would answer at once. Our page comes first.
    let page = victim.authorize(&client, &[]).await;
    assert_eq!((page.status, page.header("location")), (200, ""));
    for shown in
        ["Test app", "app.example", "127.0.0.1", "openid profile", "Example login", "Read your notes"]
    {
        assert!(page.body.contains(shown), "{shown}: {}", page.body);
    }
    let to_provider = victim.decide(&page, "allow").await;
    let params = provider.visit(to_provider.header("location"));
    assert_eq!(
        (&*params["client_id"], &*params["redirect_uri"]),
        ("our-id", "https://auth.example/callback")
    );
    assert_eq!((&*params["code_challenge_method"], params["state"].len()), ("S256", 43));
    let callback = format!("/callback?code=their-code&state={}", params["state"]);
    let answer = victim.get(&callback).await;
    let tokens = victim.exchange(&client, &answer.code(), &[]).await.json();
    // Namespaced by issuer: not the local Ann.
    assert_eq!(decode_token(&tokens["access_token"]).1["sub"], format!("{}|ann", provider.issuer));
    let form = provider.forms.lock().unwrap().concat();
    assert!(form.contains("code=their-code") && form.contains("code_verifier="), "{form}");
    // The consent is registered for this user and this client: neither page nor provider.
    victim.authorize(&client, &[]).await.code();
    // A client of an attacker needs consent of its own, though the victim is logged in here and there.
    let evil =
        victim.register(&json!({"redirect_uris": ["https://evil.example/cb"], "client_name": "Evil"})).await;
    let evil = evil["client_id"].as_str().unwrap();
    let page = victim.authorize(evil, &[("redirect_uri", "https://evil.example/cb")]).await;
    assert_eq!((page.status, page.header("location")), (200, ""));
    assert!(page.body.contains("evil.example") && page.body.contains("value=\"allow\""), "{}", page.body);
}

#[tokio::test]
async fn state_of_the_provider_exists_after_consent_and_once() {
    // SEC-009, P-05
    let provider = Provider::start().await;
    let server = provider.server();
    let mut browser = Visitor::new(&server);
    let client = browser.public_client().await;
    // A state that no consent made.
    let skipped = browser.get("/callback?code=x&state=made-up").await;
    assert_eq!((skipped.status, skipped.header("location")), (400, ""));
    let page = browser.authorize(&client, &[]).await;
    let answer = browser.decide(&page, "allow").await;
    let callback = format!("/callback?code=x&state={}", provider.visit(answer.header("location"))["state"]);
    // The attacker has begun a login and sends its end to the victim.
    let mut victim = Visitor::new(&server);
    victim.authorize(&client, &[]).await;
    assert_eq!(victim.get(&callback).await.status, 400);
    // It was used up by that.
    assert_eq!(browser.get(&callback).await.status, 400);
    let answer = browser.decide(&page, "allow").await;
    let callback = format!("/callback?code=x&state={}", provider.visit(answer.header("location"))["state"]);
    browser.get(&callback).await.code();
    assert_eq!(browser.get(&callback).await.status, 400);
}

#[tokio::test]
async fn consent_for_one_client_is_none_for_another() {
    // P-04, SEC-005
    let provider = Provider::start().await;
    let server = provider.server();
    let mut browser = Visitor::new(&server);
    let (client, other) = (browser.public_client().await, browser.public_client().await);
    let page = browser.authorize(&client, &[]).await;
    let answer = browser.decide(&page, "allow").await;
    let callback = format!("/callback?code=x&state={}", provider.visit(answer.header("location"))["state"]);
    browser.get(&callback).await.code();
    assert_eq!(browser.authorize(&client, &[]).await.status, 303);
    let page = browser.authorize(&other, &[]).await;
    assert!(page.status == 200 && page.body.contains("value=\"allow\""), "{}", page.body);
    // The form of the first client is of no use for the second: it names its client inside the seal.
    let cookies = browser.cookies.clone();
    let mut stolen = Visitor { cookies, ..Visitor::new(&server) };
    assert!(stolen.authorize(&other, &[]).await.body.contains("value=\"allow\""));
}

#[tokio::test]
async fn unfit_id_tokens_are_refused() {
    let provider = Provider::start().await;
    let server = provider.server();
    for changes in [
        json!({"iss": "https://evil.example"}),
        json!({"aud": "another-client"}),
        json!({"aud": ["our-id", "another-client"]}),
        json!({"nonce": "another-login"}),
        json!({"nonce": null}),
        json!({"exp": 1}),
        json!({"sub": ""}),
        json!({"sub": "eve"}),
    ] {
        *provider.changes.lock().unwrap() = changes.clone();
        let mut browser = Visitor::new(&server);
        let client = browser.public_client().await;
        let page = browser.authorize(&client, &[]).await;
        let answer = browser.decide(&page, "allow").await;
        let callback =
            format!("/callback?code=x&state={}", provider.visit(answer.header("location"))["state"]);
        let answer = browser.get(&callback).await;
        assert!([403, 502].contains(&answer.status), "{changes}: {}", answer.status);
        assert_eq!(answer.header("location"), "", "{changes}");
    }
}

#[tokio::test]
async fn failure_at_the_provider_is_told_to_the_client() {
    let provider = Provider::start().await;
    let server = provider.server();
    let mut browser = Visitor::new(&server);
    let client = browser.public_client().await;
    let page = browser.authorize(&client, &[]).await;
    let answer = browser.decide(&page, "allow").await;
    let state = provider.visit(answer.header("location"))["state"].clone();
    let answer = browser.get(&format!("/callback?error=access_denied&state={state}")).await;
    assert_eq!(answer.redirect_param("error").unwrap(), "access_denied");
    // A provider that cannot be reached.
    let gone = OpenIdProvider::new("http://127.0.0.1:9", "our-id", "our-secret").allow_everyone();
    let server = AuthorizationServer::builder(ISSUER).resource(RESOURCE).provider(gone).build().unwrap();
    let mut browser = Visitor::new(&server);
    let client = browser.public_client().await;
    let page = browser.authorize(&client, &[]).await;
    assert_eq!(browser.decide(&page, "allow").await.status, 502);
}

#[tokio::test]
async fn new_login_is_asked_for_at_the_provider_too() {
    let provider = Provider::start().await;
    let server = provider.server();
    let mut browser = Visitor::new(&server);
    let client = browser.public_client().await;
    for (prompt, forwarded) in [("login", Some("login")), ("", None)] {
        let page = browser.authorize(&client, &[("prompt", prompt)]).await;
        let answer = browser.decide(&page, "allow").await;
        assert_eq!(answer.redirect_param("prompt").as_deref(), forwarded);
    }
}

#[tokio::test]
async fn provider_that_names_itself_does_so_in_every_answer() {
    // RFC 9207, 2.4: the answer of another provider is not taken for that of this one.
    let provider = Provider::start().await;
    *provider.metadata.lock().unwrap() = json!({"authorization_response_iss_parameter_supported": true});
    let server = provider.server();
    let mut browser = Visitor::new(&server);
    let client = browser.public_client().await;
    for (issuer, is_accepted) in
        [("", false), ("&iss=https://evil.example", false), (&*format!("&iss={}", provider.issuer), true)]
    {
        let page = browser.authorize(&client, &[]).await;
        let answer = browser.decide(&page, "allow").await;
        let state = provider.visit(answer.header("location"))["state"].clone();
        let answer = browser.get(&format!("/callback?code=x&state={state}{issuer}")).await;
        assert_eq!(answer.status == 303, is_accepted, "{issuer}: {}", answer.body);
    }
}

#[tokio::test(start_paused = true)]
async fn logins_that_nobody_ends_are_limited() {
    let gone = OpenIdProvider::new("http://127.0.0.1:9", "our-id", "our-secret").allow_everyone();
    let server = AuthorizationServer::builder(ISSUER).resource(RESOURCE).provider(gone).build().unwrap();
    let mut eve = Visitor::new(&server);
    let client = eve.public_client().await;
    let page = eve.authorize(&client, &[]).await;
    for _ in 0..120 {
        assert_eq!(eve.decide(&page, "allow").await.status, 502);
    }
    assert_eq!(eve.decide(&page, "allow").await.status, 429);
    assert_eq!(Visitor { address: [198, 51, 100, 7].into(), ..eve }.decide(&page, "allow").await.status, 502);
}
