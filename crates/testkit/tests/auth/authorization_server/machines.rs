//! Tokens without a person: client credentials, signed assertions, ID-JAGs and workloads; and tokens bound to a key.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tsugite::base64;
use tsugite::transport::http::{TokenRequest, TokenScheme, VerifyToken};
use tsugite_auth::authorization_server::{AuthorizationServer, ConfiguredClient, TrustedIssuer};

use super::{Answer, ISSUER, RESOURCE, Visitor, builder, decode_token, verify};
use crate::verifiers::issuer::TestKey;

const IDP: &str = "https://idp.example";
const SECRET: &str = "a secret of the test";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn key_set(key: &TestKey) -> String {
    json!({"keys": [key.jwk()]}).to_string()
}

fn basic(server: &AuthorizationServer, id: &str, secret: &str) -> Visitor {
    let pair = base64::encode(format!("{id}:{secret}").as_bytes());
    Visitor::new(server).header("authorization", format!("Basic {pair}"))
}

#[tokio::test]
async fn client_credentials_are_for_clients_of_the_operator() {
    // AAS-027
    let machine = ConfiguredClient::secret("nightly", SECRET).client_credentials(["notes:read"]);
    let server = builder().client(machine).build().unwrap();
    let grant = [("grant_type", "client_credentials")];
    let tokens = basic(&server, "nightly", SECRET).post("/token", &grant).await.json();
    assert!(tokens.get("refresh_token").is_none());
    let (_, claims) = decode_token(&tokens["access_token"]);
    // No user can have this name.
    assert_eq!((&claims["sub"], &claims["scope"]), (&json!("client:nightly"), &json!("notes:read")));
    assert!(verify(&server, &tokens["access_token"]).await.is_ok());
    let more = [grant[0], ("scope", "notes:write")];
    assert_eq!(basic(&server, "nightly", SECRET).post("/token", &more).await.error(), "invalid_scope");
    assert_eq!(basic(&server, "nightly", "guess").post("/token", &grant).await.status, 401);
    let mut program = Visitor::new(&server);
    let changes = json!({"token_endpoint_auth_method": "client_secret_post"});
    let registered = program.register(&changes).await;
    let (id, secret) =
        (registered["client_id"].as_str().unwrap(), registered["client_secret"].as_str().unwrap());
    let form = [grant[0], ("client_id", id), ("client_secret", secret)];
    assert_eq!(program.post("/token", &form).await.error(), "unauthorized_client");
    let unknown = [("grant_type", "password"), ("client_id", id), ("client_secret", secret)];
    assert_eq!(program.post("/token", &unknown).await.error(), "unsupported_grant_type");
}

#[tokio::test(start_paused = true)]
async fn wrong_secrets_of_clients_are_limited() {
    let client = |id: &str| ConfiguredClient::secret(id, SECRET).client_credentials(["notes:read"]);
    let server = builder().client(client("nightly")).client(client("hourly")).build().unwrap();
    let grant = [("grant_type", "client_credentials")];
    let statuses = async |id: &str, secret: &str, from: [u8; 4], times: usize| {
        let mut statuses = Vec::new();
        for _ in 0..times {
            statuses.push(basic(&server, id, secret).at(from).post("/token", &grant).await.status);
        }
        statuses
    };
    // A right secret counts for nothing.
    assert_eq!(statuses("nightly", SECRET, [192, 0, 2, 1], 40).await, [200; 40]);
    let guesses = statuses("nightly", "guess", [192, 0, 2, 1], 33).await;
    assert_eq!((&guesses[..31], &guesses[31..]), (&[401; 31][..], &[429; 2][..]));
    // The address may not try other clients; other addresses may.
    assert_eq!(statuses("hourly", SECRET, [192, 0, 2, 1], 1).await, [429]);
    assert_eq!(statuses("nightly", SECRET, [192, 0, 2, 2], 1).await, [200]);
    for number in 3..15 {
        statuses("nightly", "guess", [192, 0, 2, number], 30).await;
    }
    assert_eq!(statuses("nightly", SECRET, [192, 0, 2, 2], 1).await, [429]);
    assert_eq!(statuses("hourly", SECRET, [192, 0, 2, 2], 1).await, [200]);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(statuses("nightly", SECRET, [192, 0, 2, 1], 1).await, [200]);
}

#[tokio::test]
async fn signed_assertion_authenticates_a_client_once() {
    // AAS-028
    let key = TestKey::new("k");
    let machine =
        ConfiguredClient::keys("nightly", &key_set(&key)).unwrap().client_credentials(["notes:read"]);
    let server = builder().client(machine).build().unwrap();
    let claims = |changes: &Value| {
        let mut claims = json!({
            "iss": "nightly", "sub": "nightly", "aud": ISSUER, "exp": now() + 60, "jti": changes["jti"],
        });
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        claims
    };
    let send = async |assertion: String| {
        let form = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", &assertion),
        ];
        Visitor::new(&server).post("/token", &form).await.status
    };
    let sign = |claims: &Value| key.sign(&json!({"typ": "JWT"}), claims);
    let valid = sign(&claims(&json!({"jti": "1"})));
    assert_eq!(send(valid.clone()).await, 200);
    assert_eq!(send(valid).await, 401);
    assert_eq!(send(sign(&claims(&json!({"jti": "2", "aud": format!("{ISSUER}/token")})))).await, 200);
    for (number, changes) in [
        json!({"aud": "https://other.example"}),
        json!({"aud": [ISSUER, "https://other.example"]}),
        json!({"sub": "other"}),
        json!({"exp": now() - 10}),
        json!({"exp": now() + 100_000}),
        json!({"exp": null}),
        json!({"jti": null}),
    ]
    .iter()
    .enumerate()
    {
        let mut claims = claims(&json!({"jti": format!("bad {number}")}));
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        assert_eq!(send(sign(&claims)).await, 401, "{changes}");
    }
    let stranger = TestKey::new("k");
    assert_eq!(send(stranger.sign(&json!({"typ": "JWT"}), &claims(&json!({"jti": "3"})))).await, 401);
}

/// A server that trusts an identity provider, and its key.
fn enterprise() -> (AuthorizationServer, TestKey) {
    let key = TestKey::new("idp");
    let idp = TrustedIssuer::identity_provider(IDP).keys(&key_set(&key)).unwrap();
    let server = builder()
        .client(ConfiguredClient::secret("app", SECRET))
        .client(ConfiguredClient::secret("other", SECRET))
        .trusted_issuer(idp.client("app").scopes(["notes:read", "notes:write"]))
        .build();
    (server.unwrap(), key)
}

/// The claims of a valid ID-JAG, with changes.
fn id_jag(id: &str, changes: &Value) -> Value {
    let mut claims = json!({
        "iss": IDP, "sub": "ann", "aud": ISSUER, "client_id": "app", "resource": RESOURCE, "jti": id,
        "scope": "notes:read admin", "iat": now(), "exp": now() + 300,
    });
    claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    claims
}

async fn exchange(program: &mut Visitor, assertion: &str, more: &[(&str, &str)]) -> Answer {
    let form = [("grant_type", JWT_BEARER), ("assertion", assertion)];
    program.post("/token", &[&form, more].concat()).await
}

#[tokio::test]
async fn id_jag_is_exchanged_for_a_narrow_token() {
    // AAS-029, AAS-030, AAS-032
    let (server, key) = enterprise();
    let mut app = basic(&server, "app", SECRET);
    let jag = key.sign(&json!({"typ": "oauth-id-jag+jwt"}), &id_jag("1", &json!({})));
    let tokens = exchange(&mut app, &jag, &[]).await.json();
    assert!(tokens.get("refresh_token").is_none());
    let (_, claims) = decode_token(&tokens["access_token"]);
    // Asserted and allowed; the user is not the local Ann.
    assert_eq!((&claims["scope"], &claims["aud"]), (&json!("notes:read"), &json!(RESOURCE)));
    assert_eq!(claims["sub"], format!("{IDP}|ann"));
    assert!(verify(&server, &tokens["access_token"]).await.is_ok());
    let jag = key.sign(&json!({"typ": "oauth-id-jag+jwt"}), &id_jag("2", &json!({})));
    let none = exchange(&mut app, &jag, &[("scope", "notes:write")]).await.json();
    assert_eq!(none["scope"], "");
}

#[tokio::test]
async fn unfit_id_jags_are_refused() {
    // AAS-029, AAS-030, AAS-031, P-11
    let (server, key) = enterprise();
    let mut app = basic(&server, "app", SECRET);
    let typ = json!({"typ": "oauth-id-jag+jwt"});
    for (number, changes) in [
        json!({"aud": "https://other.example"}),
        json!({"aud": [ISSUER, "https://other.example"]}),
        json!({"aud": format!("{ISSUER}/token")}),
        json!({"resource": "https://other.example/mcp"}),
        json!({"resource": null}),
        json!({"iss": "https://evil.example"}),
        json!({"exp": now() - 100}),
        json!({"exp": null}),
        json!({"iat": now() + 1_000, "exp": now() + 1_100}),
        json!({"iat": null}),
        json!({"sub": ""}),
        json!({"jti": null}),
        json!({"client_id": "other"}),
        json!({"exp": now() + 100_000}),
        json!({"exp": u64::MAX}),
        json!({"exp": 1e300}),
    ]
    .iter()
    .enumerate()
    {
        let jag = key.sign(&typ, &id_jag(&number.to_string(), changes));
        let answer = exchange(&mut app, &jag, &[]).await;
        assert_eq!((answer.status, answer.error()), (400, "invalid_grant".to_owned()), "{changes}");
    }
    let valid = key.sign(&typ, &id_jag("valid", &json!({})));
    let (head, _) = valid.rsplit_once('.').unwrap();
    let (_, claims) = head.split_once('.').unwrap();
    let none = base64::encode_url(br#"{"alg":"none","typ":"oauth-id-jag+jwt"}"#);
    let stranger = TestKey::new("idp").sign(&typ, &id_jag("stranger", &json!({})));
    let plain = key.sign(&json!({"typ": "JWT"}), &id_jag("plain", &json!({})));
    for forged in [format!("{none}.{claims}."), stranger, plain, "x".to_owned(), String::new()] {
        assert_eq!(exchange(&mut app, &forged, &[]).await.error(), "invalid_grant", "{forged}");
    }
    // The valid one works once.
    assert_eq!(exchange(&mut app, &valid, &[]).await.status, 200);
    assert_eq!(exchange(&mut app, &valid, &[]).await.error(), "invalid_grant");
}

#[tokio::test]
async fn id_jag_needs_client_authentication() {
    // P-12
    let (server, key) = enterprise();
    let typ = json!({"typ": "oauth-id-jag+jwt"});
    let jag = key.sign(&typ, &id_jag("2", &json!({})));
    let answer = exchange(&mut Visitor::new(&server), &jag, &[("client_id", "app")]).await;
    assert_eq!((answer.status, answer.error()), (401, "invalid_client".to_owned()));
    // Another client of the operator that the issuer was not configured with.
    let other = key.sign(&typ, &id_jag("3", &json!({"client_id": "other"})));
    let answer = exchange(&mut basic(&server, "other", SECRET), &other, &[]).await;
    assert_eq!(answer.error(), "invalid_grant");
    assert_eq!(exchange(&mut basic(&server, "app", SECRET), &jag, &[]).await.status, 200);
}

#[tokio::test]
async fn workload_gets_a_token_for_an_allowed_subject() {
    let key = TestKey::new("cluster");
    let cluster = TrustedIssuer::workloads(IDP).keys(&key_set(&key)).unwrap();
    let server = builder()
        .client(ConfiguredClient::public("nightly"))
        .trusted_issuer(cluster.client("nightly").subject("sa:prod:*").scopes(["notes:read"]))
        .build()
        .unwrap();
    let sign = |changes: &Value| {
        let mut claims = json!({"iss": IDP, "sub": "sa:prod:job", "aud": [ISSUER], "exp": now() + 300});
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        key.sign(&json!({"typ": null}), &claims)
    };
    let client = [("client_id", "nightly")];
    let mut program = Visitor::new(&server);
    // A platform gives a workload the same token until it expires.
    for _ in 0..2 {
        let tokens = exchange(&mut program, &sign(&json!({})), &client).await.json();
        let (_, claims) = decode_token(&tokens["access_token"]);
        assert_eq!(
            (&claims["sub"], &claims["scope"]),
            (&json!(format!("{IDP}|sa:prod:job")), &json!("notes:read"))
        );
    }
    for changes in
        [json!({"sub": "sa:test:job"}), json!({"aud": ["https://x.example"]}), json!({"exp": now() - 100})]
    {
        let answer = exchange(&mut program, &sign(&changes), &client).await;
        assert_eq!(answer.error(), "invalid_grant", "{changes}");
    }
    assert_eq!(exchange(&mut program, &sign(&json!({})), &[]).await.status, 401);
    // A token that is bound to a key, which this program does not have.
    for cnf in [json!({"jkt": TestKey::new("other").thumbprint()}), json!({"x5t#S256": "abc"})] {
        let answer = exchange(&mut program, &sign(&json!({"cnf": cnf})), &client).await;
        assert_eq!((answer.status, answer.error()), (400, "invalid_grant".to_owned()), "{cnf}");
    }
}

#[tokio::test]
async fn token_is_bound_to_the_key_of_the_client() {
    // AAS-035
    let server = builder().build().unwrap();
    let mut program = Visitor::new(&server);
    let client = program.public_client().await;
    let key = TestKey::new("dpop");
    let proof = |key: &TestKey, id: &str, url: &str, token: Option<&str>| {
        let header = json!({"typ": "dpop+jwt", "jwk": key.jwk(), "kid": null});
        let mut claims = json!({"htm": "POST", "htu": url, "iat": now(), "jti": id});
        if let Some(token) = token {
            use ring::digest::{SHA256, digest};
            claims["ath"] = json!(base64::encode_url(digest(&SHA256, token.as_bytes()).as_ref()));
        }
        key.sign(&header, &claims)
    };
    let endpoint = format!("{ISSUER}/token");
    let code = program.get_code(&client, &[("dpop_jkt", &key.thumbprint())]).await;
    let with = |proof: String| Visitor::new(&server).header("dpop", proof);
    // Without a proof, or with one of another key, the code is not exchanged.
    assert_eq!(program.exchange(&client, &code, &[]).await.error(), "invalid_grant");
    let stranger = TestKey::new("stranger");
    let answer = with(proof(&stranger, "1", &endpoint, None)).exchange(&client, &code, &[]).await;
    assert_eq!(answer.error(), "invalid_grant");
    let elsewhere =
        with(proof(&key, "2", "https://evil.example/token", None)).exchange(&client, &code, &[]).await;
    assert_eq!(elsewhere.error(), "invalid_dpop_proof");
    let first = proof(&key, "3", &endpoint, None);
    let tokens = with(first.clone()).exchange(&client, &code, &[]).await.json();
    assert_eq!(tokens["token_type"], "DPoP");
    assert_eq!(decode_token(&tokens["access_token"]).1["cnf"]["jkt"], key.thumbprint());
    // A proof is used once, and the refresh token needs one of the same key.
    let refresh = tokens["refresh_token"].as_str().unwrap();
    assert_eq!(with(first).refresh(&client, refresh).await.error(), "invalid_dpop_proof");
    assert_eq!(program.refresh(&client, refresh).await.error(), "invalid_grant");
    let next = with(proof(&key, "4", &endpoint, None)).refresh(&client, refresh).await.json();
    assert_eq!(next["token_type"], "DPoP");
    let token = tokens["access_token"].as_str().unwrap();
    let verifier = server.verifier();
    let mut request = TokenRequest::new(token, RESOURCE);
    let verified = verifier.verify(&request).await.unwrap();
    assert_eq!(verified.key_thumbprint(), Some(&*key.thumbprint()));
    request.scheme = TokenScheme::Dpop;
    request.proofs = vec![proof(&key, "5", RESOURCE, Some(token))];
    assert!(verifier.verify_proof(&request, &verified).await.is_ok());
    assert!(verifier.verify_proof(&request, &verified).await.is_err());
    request.proofs = vec![proof(&stranger, "6", RESOURCE, Some(token))];
    assert!(verifier.verify_proof(&request, &verified).await.is_err());
    assert!(verified.cache_ttl() <= Duration::from_secs(30));
}
