//! Flows that work: metadata, registration, login, consent, tokens, revocation.

use std::time::Duration;

use serde_json::json;
use tsugite_auth::authorization_server::{AuthorizationServer, ConfiguredClient, TrustedIssuer, UserFile};

use super::{CALLBACK, ISSUER, RESOURCE, TwoUsers, Visitor, builder, decode_token, server, verify};

#[tokio::test]
async fn metadata_names_every_endpoint() {
    // AAS-004, AAS-006, AAS-007, AAS-025, P-10
    let mut program = Visitor::new(&server());
    let answer = program.get("/.well-known/oauth-authorization-server").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    let metadata = answer.json();
    assert_eq!(metadata["issuer"], ISSUER);
    for (name, path) in [
        ("authorization_endpoint", "/authorize"),
        ("token_endpoint", "/token"),
        ("registration_endpoint", "/register"),
        ("revocation_endpoint", "/revoke"),
        ("jwks_uri", "/jwks"),
    ] {
        assert_eq!(metadata[name], format!("{ISSUER}{path}"));
    }
    assert_eq!(metadata["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(metadata["authorization_response_iss_parameter_supported"], true);
    // No ID tokens are issued.
    assert_eq!(program.get("/.well-known/openid-configuration").await.status, 404);
}

#[tokio::test]
async fn metadata_lists_what_clients_may_use() {
    // AAS-008, AAS-023, AAS-028, AAS-033, AAS-035
    let issuer = tsugite_auth::authorization_server::TrustedIssuer::identity_provider("https://idp.example");
    let machine = ConfiguredClient::secret("m", "a secret of the test").client_credentials(["notes:read"]);
    let server = builder().client(machine).trusted_issuer(issuer.client("m")).build().unwrap();
    let metadata = Visitor::new(&server).get("/.well-known/oauth-authorization-server").await.json();
    assert_eq!(metadata["client_id_metadata_document_supported"], true);
    let has = |name: &str, wanted: &str| metadata[name].as_array().unwrap().iter().any(|each| each == wanted);
    for method in ["none", "private_key_jwt", "client_secret_basic"] {
        assert!(has("token_endpoint_auth_methods_supported", method), "{method}");
    }
    for name in ["token_endpoint_auth_signing_alg_values_supported", "dpop_signing_alg_values_supported"] {
        assert!(has(name, "ES256") && !has(name, "none") && !has(name, "HS256"), "{name}");
    }
    assert!(has("authorization_grant_profiles_supported", "urn:ietf:params:oauth:grant-profile:id-jag"));
    assert!(has("code_challenge_methods_supported", "S256"));
    for grant in ["authorization_code", "refresh_token", "client_credentials"] {
        assert!(has("grant_types_supported", grant), "{grant}");
    }
}

#[tokio::test]
async fn issuer_with_a_path_has_its_endpoints_there() {
    let server = AuthorizationServer::builder("https://h.example/auth").resource(RESOURCE).users(TwoUsers);
    let mut program = Visitor::new(&server.build().unwrap());
    let metadata = program.get("/.well-known/oauth-authorization-server/auth").await.json();
    assert_eq!(metadata["token_endpoint"], "https://h.example/auth/token");
    assert_eq!(program.get("/auth/jwks").await.status, 200);
    // A router may have taken away the path.
    assert_eq!(program.get("/jwks").await.status, 200);
    assert_eq!(program.get("/authorize").await.status, 400);
    assert_eq!(program.get("/other").await.status, 404);
}

#[tokio::test]
async fn client_registers_logs_in_and_gets_tokens() {
    // AAS-001, AAS-002, AAS-003, AAS-005, AAS-020
    let server = server();
    let mut browser = Visitor::new(&server);
    let client = browser.public_client().await;
    let page = browser.authorize(&client, &[("scope", "notes:read")]).await;
    assert!(page.status == 200 && page.body.contains("Test app"), "{}", page.body);
    let page = browser.log_in(&page, "ann").await;
    for shown in ["Test app", "app.example", "Read your notes", RESOURCE, "ann"] {
        assert!(page.body.contains(shown), "{shown}: {}", page.body);
    }
    assert!(!page.body.contains("Change your notes"));
    let answer = browser.decide(&page, "allow").await;
    assert!(answer.header("location").starts_with(&format!("{CALLBACK}?")));
    assert_eq!(answer.redirect_param("state").unwrap(), "the state");
    assert_eq!(answer.redirect_param("iss").unwrap(), ISSUER);
    let answer = browser.exchange(&client, &answer.code(), &[("resource", RESOURCE)]).await;
    assert_eq!((answer.status, answer.header("cache-control")), (200, "no-store"));
    let tokens = answer.json();
    assert_eq!((&tokens["token_type"], &tokens["scope"]), (&json!("Bearer"), &json!("notes:read")));
    assert_eq!(tokens["expires_in"], 600);
    let (header, claims) = decode_token(&tokens["access_token"]);
    assert_eq!((&header["typ"], &header["alg"]), (&json!("at+jwt"), &json!("ES256")));
    assert_eq!((&claims["sub"], &claims["aud"]), (&json!("ann"), &json!(RESOURCE)));
    let verified = verify(&server, &tokens["access_token"]).await.unwrap();
    let principal = verified.principal();
    assert_eq!((principal.subject(), principal.issuer(), principal.client_id()), ("ann", ISSUER, &*client));
    assert!(principal.has_scope("notes:read") && !principal.has_scope("notes:write"));
    assert_eq!(verified.cache_ttl(), Duration::from_secs(30));
}

#[tokio::test]
async fn key_set_has_public_keys_only() {
    let mut program = Visitor::new(&server());
    let keys = program.get("/jwks").await.json();
    let [key] = keys["keys"].as_array().unwrap().as_slice() else { panic!("{keys}") };
    assert!(key.get("d").is_none() && key["use"] == "sig" && key["alg"] == "ES256", "{key}");
}

#[tokio::test]
async fn denial_is_told_to_the_client() {
    // AAS-024
    let mut browser = Visitor::new(&server());
    let client = browser.public_client().await;
    let page = browser.authorize(&client, &[]).await;
    let page = browser.log_in(&page, "ann").await;
    let answer = browser.decide(&page, "deny").await;
    let param = |name: &str| answer.redirect_param(name).unwrap_or_default();
    assert_eq!((answer.status, param("error")), (303, "access_denied".to_owned()));
    assert_eq!((param("iss"), param("state"), param("code")), (ISSUER.into(), "the state".into(), "".into()));
}

#[tokio::test]
async fn consent_of_a_web_client_is_remembered_for_its_user() {
    let mut browser = Visitor::new(&server());
    let (client, other) = (browser.public_client().await, browser.public_client().await);
    browser.get_code(&client, &[("scope", "notes:read")]).await;
    // Logged in and known: no page.
    assert_eq!(browser.authorize(&client, &[("scope", "notes:read")]).await.status, 303);
    for (changes, why) in [
        (&[("scope", "notes:read notes:write")][..], "more scopes"),
        (&[("scope", "notes:read"), ("prompt", "consent")], "the client wants it"),
    ] {
        let page = browser.authorize(&client, changes).await;
        assert!(page.body.contains("value=\"allow\""), "{why}");
    }
    assert!(browser.authorize(&other, &[]).await.body.contains("value=\"allow\""));
    // As another user.
    let page = browser.authorize(&other, &[]).await;
    let page = browser.decide(&page, "switch").await;
    let page = browser.log_in(&page, "bob").await;
    assert!(page.body.contains("bob") && page.body.contains("value=\"allow\""), "{}", page.body);
    let page = browser.authorize(&client, &[("scope", "notes:read")]).await;
    assert!(page.body.contains("value=\"allow\""), "{}", page.body);
}

#[tokio::test]
async fn login_page_can_be_demanded_or_forbidden() {
    let server = builder().client(ConfiguredClient::public("app").redirect_uri(CALLBACK)).build().unwrap();
    let mut browser = Visitor::new(&server);
    let answer = browser.authorize("app", &[("prompt", "none")]).await;
    assert_eq!(answer.redirect_param("error").unwrap(), "login_required");
    let page = browser.authorize("app", &[]).await;
    browser.log_in(&page, "ann").await;
    let answer = browser.authorize("app", &[("prompt", "none")]).await;
    assert_eq!(answer.redirect_param("error").unwrap(), "consent_required");
    assert!(browser.authorize("app", &[("prompt", "login")]).await.body.contains("name=\"password\""));
    browser.get_code("app", &[]).await;
    browser.authorize("app", &[("prompt", "none")]).await.code();
}

#[tokio::test(start_paused = true)]
async fn revoked_tokens_are_refused() {
    let server = server();
    let mut program = Visitor::new(&server);
    let (client, other) = (program.public_client().await, program.public_client().await);
    let tokens = program.tokens(&client).await;
    let access = tokens["access_token"].as_str().unwrap();
    let refresh = tokens["refresh_token"].as_str().unwrap();
    // Of another client: the answer is the same, and nothing happens.
    assert_eq!(program.post("/revoke", &[("client_id", &other), ("token", refresh)]).await.status, 200);
    assert_eq!(program.post("/revoke", &[("client_id", &other), ("token", access)]).await.status, 200);
    assert!(verify(&server, &tokens["access_token"]).await.is_ok());
    assert_eq!(program.post("/revoke", &[("client_id", &client), ("token", access)]).await.status, 200);
    assert!(verify(&server, &tokens["access_token"]).await.is_err());
    let next = program.refresh(&client, refresh).await.json();
    assert!(verify(&server, &next["access_token"]).await.is_ok());
    let refresh = next["refresh_token"].as_str().unwrap();
    assert_eq!(program.post("/revoke", &[("client_id", &client), ("token", refresh)]).await.status, 200);
    assert_eq!(program.refresh(&client, refresh).await.error(), "invalid_grant");
    assert!(verify(&server, &next["access_token"]).await.is_err());
    assert_eq!(program.post("/revoke", &[("client_id", &client), ("token", "unknown")]).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn tokens_codes_and_pages_expire() {
    // AAS-021
    let server = server();
    let mut browser = Visitor::new(&server);
    let client = browser.public_client().await;
    let tokens = browser.tokens(&client).await;
    tokio::time::advance(Duration::from_secs(590)).await;
    assert!(verify(&server, &tokens["access_token"]).await.is_ok());
    tokio::time::advance(Duration::from_secs(20)).await;
    assert!(verify(&server, &tokens["access_token"]).await.is_err());
    let code = browser.get_code(&client, &[]).await;
    tokio::time::advance(Duration::from_secs(62)).await;
    assert_eq!(browser.exchange(&client, &code, &[]).await.error(), "invalid_grant");
    let page = browser.authorize(&client, &[("prompt", "consent")]).await;
    tokio::time::advance(Duration::from_secs(601)).await;
    assert_eq!(browser.decide(&page, "allow").await.status, 400);
    tokio::time::advance(Duration::from_secs(12 * 60 * 60)).await;
    assert!(browser.authorize(&client, &[]).await.body.contains("name=\"password\""));
}

#[tokio::test]
async fn signing_key_is_published_before_it_signs() {
    tokio::time::pause();
    let day = Duration::from_secs(24 * 60 * 60);
    let server = builder().key_rotation_interval(day).build().unwrap();
    let mut program = Visitor::new(&server);
    let client = program.public_client().await;
    let kid = |tokens: &serde_json::Value| decode_token(&tokens["access_token"]).0["kid"].clone();
    let first = program.tokens(&client).await;
    tokio::time::advance(day).await;
    let keys = program.get("/jwks").await.json();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 2);
    let second = program.tokens(&client).await;
    assert_eq!(kid(&first), kid(&second));
    tokio::time::advance(Duration::from_secs(17 * 60)).await;
    let third = program.tokens(&client).await;
    assert_ne!(kid(&first), kid(&third));
    assert_eq!(keys["keys"][1]["kid"], kid(&third));
    tokio::time::advance(Duration::from_secs(60 * 60)).await;
    let keys = program.get("/jwks").await.json();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn changed_password_ends_earlier_logins() {
    for is_removed in [false, true] {
        let folder =
            std::env::temp_dir().join(format!("tsugite-password-{}-{is_removed}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let users = UserFile::new(folder.join("auth.json"));
        users.set_password("ann", "the-first-one".into()).await.unwrap();
        let server = AuthorizationServer::builder(ISSUER).resource(RESOURCE).users(users.clone());
        let mut browser = Visitor::new(&server.build().unwrap());
        let client = browser.public_client().await;
        let log_in = async |browser: &mut Visitor, password: &str| {
            let sealed = browser.authorize(&client, &[]).await.sealed();
            browser.post("/login", &[("request", &sealed), ("name", "ann"), ("password", password)]).await
        };
        let page = log_in(&mut browser, "the-first-one").await;
        let code = browser.decide(&page, "allow").await.code();
        let tokens = browser.exchange(&client, &code, &[]).await.json();
        let code = browser.authorize(&client, &[]).await.code();
        if is_removed {
            users.remove("ann").await.unwrap();
        }
        users.set_password("ann", "the-second-one".into()).await.unwrap();
        assert_eq!(browser.exchange(&client, &code, &[]).await.error(), "invalid_grant");
        let refresh = tokens["refresh_token"].as_str().unwrap();
        assert_eq!(browser.refresh(&client, refresh).await.error(), "invalid_grant");
        assert!(verify(&browser.server, &tokens["access_token"]).await.is_err());
        // The session has ended, and the consent has to be given again.
        let page = log_in(&mut browser, "the-second-one").await;
        assert!(page.status == 200 && page.body.contains("value=\"allow\""), "{}", page.body);
        let code = browser.decide(&page, "allow").await.code();
        assert_eq!(browser.exchange(&client, &code, &[]).await.status, 200);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[tokio::test]
async fn users_of_a_file_log_in() {
    let folder = std::env::temp_dir().join(format!("tsugite-users-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let path = folder.join("auth.json");
    let users = UserFile::new(&path);
    assert!(users.set_password("ann", "annann-long".into()).await.unwrap());
    assert!(!users.set_password("ann", "annann-longer".into()).await.unwrap());
    assert!(users.set_password("bob", "short".into()).await.is_err());
    assert!(users.set_password("a|b", "long enough".into()).await.is_err());
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("$argon2id$") && !text.contains("annann"), "{text}");
    let server = AuthorizationServer::builder(ISSUER).resource(RESOURCE).users(users.clone());
    let mut browser = Visitor::new(&server.build().unwrap());
    let client = browser.public_client().await;
    let page = browser.authorize(&client, &[]).await;
    let try_password = async |browser: &mut Visitor, name: &str, password: &str| {
        let sealed = page.sealed();
        let form = [("request", &*sealed), ("name", name), ("password", password)];
        browser.post("/login", &form).await.status
    };
    assert_eq!(try_password(&mut browser, "ann", "annann-long").await, 401);
    assert_eq!(try_password(&mut browser, "eve", "annann-longer").await, 401);
    assert_eq!(try_password(&mut browser, "ann", "annann-longer").await, 200);
    assert_eq!(users.names().await.unwrap(), ["ann"]);
    let tokens = browser.tokens(&client).await;
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let tokens = browser.refresh(&client, refresh).await.json();
    // A user who is removed gets no further tokens, and no further pages.
    assert!(users.remove("ann").await.unwrap() && !users.remove("ann").await.unwrap());
    let refresh = tokens["refresh_token"].as_str().unwrap();
    assert_eq!(browser.refresh(&client, refresh).await.error(), "invalid_grant");
    assert!(browser.authorize(&client, &[]).await.body.contains("name=\"password\""));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused() {
    // AAS-016
    let fails = |builder: tsugite_auth::authorization_server::AuthorizationServerBuilder| {
        builder.build().unwrap_err().to_string()
    };
    let plain = AuthorizationServer::builder("http://auth.example").resource(RESOURCE).users(TwoUsers);
    assert!(fails(plain).contains("https"));
    let resource = AuthorizationServer::builder(ISSUER).resource("http://notes.example/mcp").users(TwoUsers);
    assert!(fails(resource).contains("https"));
    assert!(fails(AuthorizationServer::builder(ISSUER).users(TwoUsers)).contains("URL of a server"));
    assert!(fails(AuthorizationServer::builder(ISSUER).resource(RESOURCE)).contains("needs users"));
    assert!(
        fails(builder().client(ConfiguredClient::public("m").client_credentials(["x"]))).contains("secret")
    );
    let provider =
        TrustedIssuer::identity_provider("https://idp.example").client("app").scopes(["notes:read"]);
    let cannot_log_in = builder().client(ConfiguredClient::public("app")).trusted_issuer(provider);
    assert!(fails(cannot_log_in).contains("secret or keys"));
    let store = tsugite_store::MemoryStore::new().shared();
    assert!(fails(builder().store(store)).contains("seal_keys"));
    let local = AuthorizationServer::builder("http://127.0.0.1:1").resource("http://localhost:1/mcp");
    assert!(local.users(TwoUsers).build().is_ok());
}
