//! Attacks on codes, redirects, passwords, registration and PKCE.

use std::time::Duration;

use serde_json::json;
use tsugite::transport::http::{TokenRequest, VerifyToken};
use tsugite_auth::authorization_server::ConfiguredClient;

use super::{CALLBACK, CHALLENGE, RESOURCE, VERIFIER, Visitor, builder, server, verify};

#[tokio::test]
async fn code_replay_revokes_the_family() {
    let server = server();
    let mut program = Visitor::new(&server);
    let client = program.public_client().await;
    let code = program.get_code(&client, &[]).await;
    let tokens = program.exchange(&client, &code, &[]).await.json();
    assert!(verify(&server, &tokens["access_token"]).await.is_ok());
    // The thief has no verifier, and is noticed all the same.
    let thief = program.exchange(&client, &code, &[("code_verifier", &"x".repeat(43))]).await;
    assert_eq!((thief.status, thief.error()), (400, "invalid_grant".to_owned()));
    assert!(verify(&server, &tokens["access_token"]).await.is_err());
    let refresh = tokens["refresh_token"].as_str().unwrap();
    assert_eq!(program.refresh(&client, refresh).await.error(), "invalid_grant");
}

#[tokio::test]
async fn one_of_two_concurrent_exchanges_fails() {
    let server = server();
    let mut program = Visitor::new(&server);
    let client = program.public_client().await;
    let code = program.get_code(&client, &[]).await;
    let (mut one, mut two) = (program.clone(), program.clone());
    let (one, two) = tokio::join!(one.exchange(&client, &code, &[]), two.exchange(&client, &code, &[]));
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400]);
}

#[tokio::test]
async fn code_is_bound_to_its_client_and_request() {
    let mut program = Visitor::new(&server());
    let (client, other) = (program.public_client().await, program.public_client().await);
    let code = program.get_code(&client, &[]).await;
    assert_eq!(program.exchange(&other, &code, &[]).await.error(), "invalid_grant");
    for (name, value, error) in [
        ("redirect_uri", "https://app.example/other", "invalid_grant"),
        ("redirect_uri", "", "invalid_grant"),
        ("code_verifier", "", "invalid_grant"),
        ("code_verifier", CHALLENGE, "invalid_grant"),
        ("code_verifier", "another-verifier-of-forty-three-characters-xx", "invalid_grant"),
        ("resource", "https://other.example/mcp", "invalid_target"),
        ("code", "unknown", "invalid_grant"),
    ] {
        assert_eq!(program.exchange(&client, &code, &[(name, value)]).await.error(), error, "{name} {value}");
    }
    // None of these used the code up.
    assert_eq!(program.exchange(&client, &code, &[]).await.status, 200);
}

#[tokio::test]
async fn pkce_cannot_be_left_out_or_weakened() {
    let mut browser = Visitor::new(&server());
    let client = browser.public_client().await;
    for changes in [
        &[("code_challenge", ""), ("code_challenge_method", "")][..],
        &[("code_challenge", VERIFIER), ("code_challenge_method", "plain")],
        &[("code_challenge_method", "")],
        &[("code_challenge", "short")],
    ] {
        let answer = browser.authorize(&client, changes).await;
        assert!(answer.status == 400 && answer.body.contains("PKCE"), "{changes:?} {}", answer.body);
    }
}

#[tokio::test]
async fn browser_is_not_sent_to_unregistered_addresses() {
    // AAS-018, ARS-032, P-06
    let mut browser = Visitor::new(&server());
    let client = browser.public_client().await;
    for trick in [
        "https://app.example.evil/callback",
        "https://app.example/callback/..",
        "https://app.example/callback?x=1",
        "https://APP.example/callback",
        "https://app.example@evil.example/callback",
        "https://*.example/callback",
        "javascript:alert(1)",
        "http://app.example/callback",
        "HTTPS://app.example/callback",
        "https://app.example/callback#evil.example",
        "https://app.example/callbac%6b",
        "https://app.example/x/../callback",
        "https://app.example:443/callback",
        "https://app.example\\@evil.example/callback",
        "https://evil.example/https://app.example/callback",
        "https://app.example/callback ",
        "//evil.example/callback",
    ] {
        for changes in [&[("redirect_uri", trick)][..], &[("redirect_uri", trick), ("response_type", "x")]] {
            let answer = browser.authorize(&client, changes).await;
            assert_eq!((answer.status, answer.header("location")), (400, ""), "{trick}");
            assert!(!answer.body.contains("evil.example"), "{}", answer.body);
        }
    }
    let twice =
        format!("/authorize?client_id={client}&redirect_uri={CALLBACK}&redirect_uri=https://evil.example");
    assert_eq!(browser.get(&twice).await.status, 400);
    assert_eq!(browser.authorize("unknown", &[]).await.status, 400);
}

#[tokio::test]
async fn errors_redirect_only_to_clients_of_the_operator() {
    // AAS-019, AAS-024
    let server = builder().client(ConfiguredClient::public("app").redirect_uri(CALLBACK)).build().unwrap();
    let mut browser = Visitor::new(&server);
    let registered = browser.public_client().await;
    for (changes, error) in [
        (("scope", "admin"), "invalid_scope"),
        (("resource", "https://other.example/mcp"), "invalid_target"),
        (("response_type", "token"), "unsupported_response_type"),
        (("request", "eyJ"), "request_not_supported"),
    ] {
        let answer = browser.authorize("app", &[changes]).await;
        assert_eq!((answer.status, answer.redirect_param("error").unwrap()), (303, error.to_owned()));
        assert_eq!(answer.redirect_param("iss").unwrap(), super::ISSUER);
        let page = browser.authorize(&registered, &[changes]).await;
        assert_eq!((page.status, page.header("location")), (400, ""));
        assert!(page.body.contains(error) && page.body.contains("app.example"), "{}", page.body);
    }
}

#[tokio::test(start_paused = true)]
async fn passwords_cannot_be_guessed() {
    let server = builder().max_logins(5).build().unwrap();
    let mut eve = Visitor::new(&server);
    let client = eve.public_client().await;
    let page = eve.authorize(&client, &[]).await;
    let mut statuses = Vec::new();
    for number in 0..8_usize {
        // A directory may take all of these names for one.
        let name = ["ann", "ANN", " ann"][number % 3];
        let form = [("request", page.sealed()), ("name", name.into()), ("password", number.to_string())];
        let form: Vec<_> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        statuses.push(eve.post("/login", &form).await.status);
    }
    assert_eq!(statuses, [401, 401, 401, 401, 401, 429, 429, 429]);
    // From another address, too, and with the right password.
    let mut elsewhere = Visitor::new(&server).at([198, 51, 100, 7]);
    let page = elsewhere.authorize(&client, &[]).await;
    assert_eq!(elsewhere.log_in(&page, "ann").await.status, 429);
    // Other users of other addresses are not affected.
    assert_eq!(elsewhere.log_in(&page, "bob").await.status, 200);
    tokio::time::advance(Duration::from_secs(61)).await;
    let page = elsewhere.authorize(&client, &[("prompt", "login")]).await;
    assert_eq!(elsewhere.log_in(&page, "ann").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn many_names_from_one_address_are_limited() {
    let server = builder().max_logins(5).build().unwrap();
    let mut eve = Visitor::new(&server);
    let client = eve.public_client().await;
    let page = eve.authorize(&client, &[]).await;
    let mut refused = 0;
    for number in 0..15 {
        let (sealed, name) = (page.sealed(), format!("user{number}"));
        let form = [("request", &*sealed), ("name", &name), ("password", "password")];
        refused += usize::from(eve.post("/login", &form).await.status == 429);
    }
    assert_eq!(refused, 5);
}

#[tokio::test(start_paused = true)]
async fn right_passwords_do_not_lock_their_address() {
    let server = builder().max_logins(5).build().unwrap();
    let mut office = Visitor::new(&server);
    let client = office.public_client().await;
    for name in ["ann", "bob"] {
        for _ in 0..5 {
            let mut browser = Visitor::new(&server);
            let page = browser.authorize(&client, &[]).await;
            assert_eq!(browser.log_in(&page, name).await.status, 200);
        }
    }
    let page = office.authorize(&client, &[]).await;
    let form = [("request", &*page.sealed()), ("name", "carl"), ("password", "x")];
    let mut statuses = Vec::new();
    for number in 0..11 {
        let name = format!("user{number}");
        let form = [form[0], ("name", &name), form[2]];
        statuses.push(office.post("/login", &form).await.status);
    }
    assert_eq!((&statuses[..10], statuses[10]), (&[401; 10][..], 429));
}

#[tokio::test(start_paused = true)]
async fn logins_of_all_addresses_are_limited_together() {
    let server = builder().max_logins(1).build().unwrap();
    let mut eve = Visitor::new(&server);
    let client = eve.public_client().await;
    let sealed = eve.authorize(&client, &[]).await.sealed();
    let mut statuses = Vec::new();
    for number in 0..61_u8 {
        eve = eve.at([198, 51, 100, number]);
        let name = format!("user{number}");
        let form = [("request", &*sealed), ("name", &name), ("password", "x")];
        statuses.push(eve.post("/login", &form).await.status);
    }
    assert_eq!((&statuses[..60], statuses[60]), (&[401; 60][..], 429));
}

#[tokio::test]
async fn unknown_user_and_wrong_password_look_the_same() {
    let mut eve = Visitor::new(&server());
    let client = eve.public_client().await;
    let page = eve.authorize(&client, &[]).await;
    let sealed = page.sealed();
    let mut answers = Vec::new();
    for name in ["ann", "nosuchuser"] {
        let answer = eve.post("/login", &[("request", &sealed), ("name", name), ("password", "wrong")]).await;
        let (before, rest) = answer.body.split_once("value=\"").unwrap();
        let (_, after) = rest.split_once('"').unwrap();
        answers.push((answer.status, before.to_owned(), after.to_owned()));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].0, 401);
}

#[tokio::test(start_paused = true)]
async fn registrations_are_limited_and_unused_clients_expire() {
    let server = builder().max_registrations(3).build().unwrap();
    let mut eve = Visitor::new(&server);
    let clients = [eve.public_client().await, eve.public_client().await, eve.public_client().await];
    let flood = eve.post_json("/register", &json!({"redirect_uris": [CALLBACK]})).await;
    assert_eq!(flood.status, 429);
    assert!(flood.header("retry-after").parse::<u64>().unwrap() > 0);
    // From another address it goes on.
    Visitor::new(&server).at([198, 51, 100, 7]).public_client().await;
    eve.tokens(&clients[0]).await;
    tokio::time::advance(Duration::from_secs(24 * 60 * 60 + 1)).await;
    assert_eq!(eve.authorize(&clients[0], &[]).await.status, 200);
    assert_eq!(eve.authorize(&clients[1], &[]).await.status, 400);
}

#[tokio::test]
async fn malformed_registrations_are_refused() {
    let mut program = Visitor::new(&server());
    for (changes, error) in [
        (json!({"redirect_uris": []}), "invalid_redirect_uri"),
        (json!({"redirect_uris": ["http://app.example/cb"]}), "invalid_redirect_uri"),
        (json!({"redirect_uris": ["javascript:alert(1)"]}), "invalid_redirect_uri"),
        (json!({"redirect_uris": ["https://app.example/cb#x"]}), "invalid_redirect_uri"),
        (json!({"redirect_uris": ["https://*.example/cb"]}), "invalid_redirect_uri"),
        (
            json!({"redirect_uris": [CALLBACK], "grant_types": ["client_credentials"]}),
            "invalid_client_metadata",
        ),
        (json!({"redirect_uris": [CALLBACK], "response_types": ["token"]}), "invalid_client_metadata"),
        (json!({"redirect_uris": [CALLBACK], "client_name": "x".repeat(1_000)}), "invalid_client_metadata"),
        (
            json!({"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "magic"}),
            "invalid_client_metadata",
        ),
        (json!(["x"]), "invalid_client_metadata"),
    ] {
        let answer = program.post_json("/register", &changes).await;
        assert_eq!((answer.status, answer.error()), (400, error.to_owned()), "{changes}");
    }
    let huge = program.send("POST", "/register", "application/json", "x".repeat(70_000)).await;
    assert_eq!(huge.status, 413);
}

#[tokio::test]
async fn token_for_another_resource_is_refused() {
    // AAS-026, SEC-010
    let other = "https://other.example/mcp";
    let server = builder().resource(other).build().unwrap();
    let mut program = Visitor::new(&server);
    let client = program.public_client().await;
    // A client that names none gets a token for the first.
    let code = program.get_code(&client, &[("resource", "")]).await;
    let unnamed = program.exchange(&client, &code, &[]).await.json();
    assert_eq!(super::decode_token(&unnamed["access_token"]).1["aud"], RESOURCE);
    let code = program.get_code(&client, &[("resource", other)]).await;
    let mismatch = program.exchange(&client, &code, &[("resource", RESOURCE)]).await;
    assert_eq!(mismatch.error(), "invalid_target");
    let tokens = program.exchange(&client, &code, &[]).await.json();
    let verify = async |resource: &str| {
        let request = TokenRequest::new(tokens["access_token"].as_str().unwrap(), resource);
        server.verifier().verify(&request).await.is_ok()
    };
    assert!(verify(other).await && !verify(RESOURCE).await && !verify("https://other.example/mcp/x").await);
    assert!(!verify("https://other.example").await);
}

#[tokio::test]
async fn tokens_of_other_kinds_are_refused() {
    let server = server();
    let mut program = Visitor::new(&server);
    let client = program.public_client().await;
    let tokens = program.tokens(&client).await;
    let token = tokens["access_token"].as_str().unwrap();
    let (head, signature) = token.rsplit_once('.').unwrap();
    let (_, claims) = head.split_once('.').unwrap();
    let none = tsugite::base64::encode_url(br#"{"alg":"none","typ":"at+jwt"}"#);
    let strange = [
        format!("{none}.{claims}."),
        format!("{head}.{}", signature.chars().rev().collect::<String>()),
        tokens["refresh_token"].as_str().unwrap().to_owned(),
        String::new(),
        "a.b.c".to_owned(),
    ];
    for token in strange {
        assert!(verify(&server, &json!(token)).await.is_err(), "{token}");
    }
    // Of another issuer with the same claims.
    assert!(verify(&super::server(), &json!(token)).await.is_err());
}

#[tokio::test]
async fn confidential_clients_authenticate_as_registered() {
    // AAS-001
    let mut program = Visitor::new(&server());
    let changes = json!({"token_endpoint_auth_method": "client_secret_basic"});
    let registered = program.register(&changes).await;
    let (id, secret) =
        (registered["client_id"].as_str().unwrap(), registered["client_secret"].as_str().unwrap());
    let server = program.server.clone();
    let basic = |secret: &str| {
        let pair = format!("{id}:{secret}");
        Visitor::new(&server)
            .header("authorization", format!("Basic {}", tsugite::base64::encode(pair.as_bytes())))
    };
    let code = program.clone().get_code(id, &[]).await;
    let without = program.exchange(id, &code, &[]).await;
    assert_eq!((without.status, without.error()), (401, "invalid_client".to_owned()));
    let in_body = program.exchange(id, &code, &[("client_secret", secret)]).await;
    assert_eq!(in_body.status, 401);
    let wrong = basic("wrong").exchange(id, &code, &[]).await;
    assert!(wrong.status == 401 && wrong.header("www-authenticate").starts_with("Basic"));
    assert_eq!(basic(secret).exchange("another", &code, &[]).await.status, 401);
    assert_eq!(basic(secret).exchange(id, &code, &[]).await.status, 200);
}

#[tokio::test]
async fn only_endpoints_for_programs_allow_other_origins() {
    let mut page = Visitor::new(&server()).header("origin", "https://web.example");
    let client = page.public_client().await;
    for path in ["/.well-known/oauth-authorization-server", "/jwks", "/token", "/register", "/revoke"] {
        let preflight = page.send("OPTIONS", path, "", String::new()).await;
        assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (204, "*"), "{path}");
        let answer = page.send("POST", path, "text/plain", String::new()).await;
        assert_eq!(answer.header("access-control-allow-origin"), "*", "{path}");
    }
    let login = page.authorize(&client, &[]).await;
    assert_eq!((login.status, login.header("access-control-allow-origin")), (200, ""));
    for path in ["/authorize", "/login", "/consent", "/callback"] {
        for method in ["OPTIONS", "GET", "POST"] {
            let answer = page.send(method, path, "", String::new()).await;
            assert_eq!(answer.header("access-control-allow-origin"), "", "{method} {path}");
        }
    }
}
