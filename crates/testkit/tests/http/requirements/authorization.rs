//! A protected server: challenges, metadata, and the tokens that it accepts.

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::transport::http::{Http, ProtectedResource, StaticToken, VerifyError};
use tsugite_testkit::http::{Request, Response, TestServer, initialize_request};
use tsugite_testkit::log::Warnings;

use crate::protected::{Issuer, call, open_session, with_token};

fn who() -> Tool {
    Tool::new("who").handler(|who: Principal| async move { format!("{who:?} {:?}", who.scopes()) })
}

fn protected(resource: ProtectedResource) -> (Server, Issuer) {
    let mut issuer = Issuer::unnamed();
    issuer.resource = resource;
    let http = Http::new().http_sse().public_url("https://notes.example/v1/mcp");
    (Server::new("s", "1").tool(who()).http(http).authorize(issuer.clone()), issuer)
}

fn full_resource() -> ProtectedResource {
    Issuer::named()
        .resource
        .scopes_supported(["notes:read", "offline_access"])
        .dpop_algorithms(["ES256"])
        .name("Notes")
        .documentation("https://notes.example/docs")
}

fn document(path: &str) -> Request {
    Request::new("GET").path(&format!("/.well-known/oauth-protected-resource{path}"))
}

fn challenges(response: &Response) -> Vec<&str> {
    let named = response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("www-authenticate"));
    named.map(|(_, value)| value.as_str()).collect()
}

#[tokio::test]
async fn every_401_says_where_the_metadata_is() {
    // ARS-006, ARS-009, ARS-011, ARS-016, ARS-026
    let (server, _) = protected(full_resource());
    let serving = TestServer::start(&server).await;
    let params = "scope=\"notes:read\", \
                  resource_metadata=\"https://notes.example/.well-known/oauth-protected-resource/v1/mcp\"";
    let initialize = |revision| Request::post(&initialize_request(revision, json!({})));
    let requests = [
        Request::stateless(call("who")),
        initialize("2025-03-26"),
        initialize("2025-06-18"),
        initialize("2025-11-25"),
        Request::get_stream("x"),
        Request::new("DELETE"),
        Request::new("GET").path("/sse").header("Accept", "text/event-stream"),
    ];
    for request in requests {
        let without = serving.send(request.clone()).await;
        assert_eq!(without.status, 401, "{request:?}");
        let offered = [format!("Bearer {params}"), format!("DPoP {params}, algs=\"ES256\"")];
        assert_eq!(challenges(&without), offered);
        assert!(without.json().get("id").is_none_or(Value::is_null), "{without:?}");
        let invalid = serving.send(with_token(request, "sub=ann;bad=yes")).await;
        let error = "error=\"invalid_token\", error_description=\"not for this server\"";
        assert_eq!(
            (invalid.status, challenges(&invalid)),
            (401, vec![&*format!("Bearer {error}, {params}")])
        );
    }
}

#[tokio::test]
async fn metadata_is_at_the_path_form_and_the_root() {
    // ARS-007, ARS-008, ARS-010, A-09
    let (server, _) = protected(full_resource());
    let serving = TestServer::start(&server).await;
    let expected = json!({
        "resource": "https://notes.example/v1/mcp",
        "authorization_servers": ["https://login.example"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["notes:read"],
        "dpop_signing_alg_values_supported": ["ES256"],
        "resource_name": "Notes",
        "resource_documentation": "https://notes.example/docs",
    });
    // `/mcp` is the path behind a proxy that changes paths.
    for path in ["", "/v1/mcp", "/mcp"] {
        let page = document(path).header("Origin", "https://page.example");
        let served = serving.send(page.clone()).await;
        assert_eq!((served.status, served.json()), (200, expected.clone()), "{path}");
        assert_eq!(served.header("access-control-allow-origin"), Some("*"));
        let preflight = Request { method: "OPTIONS".to_owned(), ..page };
        assert_eq!(serving.send(preflight).await.status, 204);
    }
    assert_eq!(serving.send(document("/other")).await.status, 404);
    assert_eq!(serving.send(document("").replace_header("Host", "evil.example")).await.status, 403);
    assert_eq!(serving.send(Request { method: "POST".to_owned(), ..document("") }).await.status, 405);
}

#[tokio::test]
async fn no_metadata_without_an_authorization_server() {
    //
    let (server, _) = protected(ProtectedResource::new().scopes_supported(["notes:read"]));
    let serving = TestServer::start(&server).await;
    assert_eq!(serving.send(document("")).await.status, 404);
    let refused = serving.send(Request::stateless(call("who"))).await;
    assert_eq!((refused.status, challenges(&refused)), (401, vec!["Bearer scope=\"notes:read\""]));
    assert!(server.http_service().unwrap().resource_metadata().is_none());
}

#[tokio::test]
async fn loopback_server_is_named_as_the_client_names_it() {
    // SEC-010
    let server = Server::new("s", "1").tool(who()).authorize(Issuer::named());
    let serving = TestServer::start(&server).await;
    let port = serving.address.port();
    let resource = |host: &str| serving.send(document("/mcp").replace_header("Host", host));
    for (named, known) in [
        (format!("localhost:{port}"), format!("http://localhost:{port}/mcp")),
        (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{port}/mcp")),
        ("127.0.0.1:1".to_owned(), format!("http://127.0.0.1:{port}/mcp")),
    ] {
        assert_eq!(resource(&named).await.json()["resource"], *known);
    }
    // A token for another server of this machine is refused, whatever host the request names.
    let other = with_token(Request::stateless(call("who")), "sub=ann;aud=http://127.0.0.1:1/mcp");
    assert_eq!(serving.send(other.replace_header("Host", "127.0.0.1:1")).await.status, 401);
    let ours =
        with_token(Request::stateless(call("who")), &format!("sub=ann;aud=http://localhost:{port}/mcp"));
    assert_eq!(serving.send(ours).await.status, 200);
}

#[tokio::test]
async fn address_must_be_known_before_clients_are_sent_away() {
    let server = Server::new("s", "1").authorize(Issuer::named());
    for error in [
        server.http_service().unwrap_err().to_string(),
        server.bind_http("0.0.0.0:0").await.unwrap_err().to_string(),
    ] {
        assert!(error.contains("Http::public_url"), "{error}");
    }
    assert!(server.bind_http("127.0.0.1:0").await.is_ok());
    let wrong = Server::new("s", "1").http(Http::new().public_url("notes.example/mcp"));
    assert!(wrong.http_service().unwrap_err().to_string().contains("notes.example/mcp"));
    assert!(Server::new("s", "1").authorize(Issuer::unnamed()).http_service().is_ok());
}

#[tokio::test]
async fn router_serves_the_metadata_beside_the_endpoint() {
    // ARS-002
    let (server, _) = protected(full_resource());
    let service = server.http_service().unwrap();
    let metadata = service.resource_metadata().unwrap();
    assert_eq!(
        metadata.paths(),
        ["", "/mcp", "/v1/mcp"].map(|path| format!("/.well-known/oauth-protected-resource{path}"))
    );
    let routes = metadata
        .paths()
        .into_iter()
        .fold(axum::Router::new(), |routes, path| routes.route_service(&path, metadata.clone()));
    let routes: axum::Router = routes.route_service("/v1/mcp", service);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let send = async |request: Request| {
        tsugite_testkit::http::Connection::connect(address).await.send_and_read(request).await
    };
    assert_eq!(send(document("/v1/mcp")).await.json()["resource"], "https://notes.example/v1/mcp");
    let post = Request::stateless(call("who")).path("/v1/mcp");
    assert_eq!(send(post.clone()).await.status, 401);
    assert_eq!(send(with_token(post, "sub=ann")).await.status, 200);
}

#[tokio::test]
async fn statuses_tell_apart_what_is_wrong_with_a_token() {
    // ARS-019
    let (server, _) = protected(full_resource().scopes_required(["notes:read"]));
    let serving = TestServer::start(&server).await;
    let call = || Request::stateless(call("who"));
    for (request, status) in [
        (call(), 401),
        (with_token(call(), "sub=ann;bad=yes"), 401),
        (with_token(call(), "sub=ann;scope=other"), 403),
        (call().header("Authorization", "Bearer"), 400),
        (with_token(with_token(call(), "sub=ann"), "sub=ann"), 400),
        (with_token(call(), "sub=ann;scope=notes:read"), 200),
    ] {
        assert_eq!(serving.send(request.clone()).await.status, status, "{request:?}");
    }
}

#[tokio::test]
async fn each_request_is_verified_before_anything_else() {
    // ARS-014, ARS-029
    let (server, issuer) = protected(full_resource());
    let serving = TestServer::start(&server).await;
    let session = open_session(&serving, "2025-11-25", "sub=ann").await;
    let mut connection = serving.connect().await;
    for (token, status) in [("sub=ann", 200), ("sub=ann;bad=yes", 401), ("sub=ann", 200), ("sub=bob", 404)] {
        let request = with_token(Request::post(&call("who")).session(&session), token);
        assert_eq!(connection.send_and_read(request).await.status, status, "{token}");
    }
    assert_eq!(issuer.verified(), 6, "no answer may be kept");
    // A body that cannot be parsed, an unknown session and an unknown tool look the same without a token.
    let bodies = [
        Request::stateless(call("nosuch")),
        Request::stateless(call("who")).body("{"),
        Request::post(&call("who")).session("nosuch"),
    ];
    let mut answers = Vec::new();
    for body in bodies {
        answers.push(serving.send(body).await);
    }
    assert!(
        answers.iter().all(|answer| answer.status == 401 && answer.body == answers[0].body),
        "{answers:?}"
    );
}

#[tokio::test]
async fn token_that_names_no_caller_is_refused() {
    let (server, _) = protected(full_resource());
    let serving = TestServer::start(&server).await;
    let ask = async |token: &str| serving.send(with_token(Request::stateless(call("who")), token)).await;
    assert_eq!(ask("iss=https://login.example;scope=notes:read").await.status, 401);
    let machine = ask("client=job;scope=notes:read").await;
    assert!(machine.status == 200 && machine.body.contains("client"), "{machine:?}");
}

#[tokio::test]
async fn session_belongs_to_issuer_and_subject_or_client() {
    let (server, _) = protected(full_resource());
    let serving = TestServer::start(&server).await;
    for (owner, same, others) in [
        (
            "iss=a;sub=ann",
            "iss=a;sub=ann;client=app;scope=more",
            &["iss=b;sub=ann", "iss=a;sub=bob", "iss=a;client=ann"][..],
        ),
        ("iss=a;client=job", "iss=a;client=job;scope=more", &["iss=a;sub=job", "iss=a;client=x"]),
    ] {
        let session = open_session(&serving, "2025-11-25", owner).await;
        let ask =
            |token: &str| serving.send(with_token(Request::post(&call("who")).session(&session), token));
        for other in others {
            assert_eq!(ask(other).await.status, 404, "{owner} {other}");
        }
        assert_eq!(ask(same).await.status, 200, "{owner} {same}");
    }
}

#[tokio::test]
async fn unreachable_issuer_is_a_503_that_says_when_to_retry() {
    let server = Server::new("s", "1").tool(who()).authorize(async |_: String| {
        let error = VerifyError::unavailable("connection to 10.0.0.7 refused");
        Err::<Principal, _>(error.with_retry_after(std::time::Duration::from_secs(30)))
    });
    let serving = TestServer::start(&server).await;
    let away = serving.send(with_token(Request::stateless(call("who")), "x")).await;
    assert_eq!((away.status, away.header("retry-after")), (503, Some("30")));
    assert!(challenges(&away).is_empty() && !away.body.contains("10.0.0.7"), "{away:?}");
}

#[tokio::test]
async fn kept_answer_spares_the_verifier() {
    let (server, issuer) = protected(full_resource());
    let serving = TestServer::start(&server).await;
    let ask =
        async |token: &str| serving.send(with_token(Request::stateless(call("who")), token)).await.status;
    for _ in 0..3 {
        assert_eq!(ask("sub=ann;cache=60").await, 200);
    }
    assert_eq!(issuer.verified(), 1);
    assert_eq!(ask("sub=ann;cache=60;bad=yes").await, 401);
    assert_eq!(ask("sub=ann;cache=60;bad=yes").await, 401);
    assert_eq!(issuer.verified(), 3, "a refusal is not kept");
}

#[tokio::test]
async fn token_bound_to_a_key_needs_a_proof_each_time() {
    let (server, issuer) = protected(full_resource());
    let serving = TestServer::start(&server).await;
    let url = "https://notes.example/v1/mcp";
    let bound = "sub=ann;jkt=K;cache=60";
    let send = async |scheme: &str, token: &str, proofs: &[&str]| {
        let request = Request::stateless(call("who")).header("Authorization", &format!("{scheme} {token}"));
        let request = proofs.iter().fold(request, |request, proof| request.header("DPoP", proof));
        serving.send(request).await
    };
    let proof = format!("K POST {url} nonce");
    for _ in 0..2 {
        let served = send("DPoP", bound, &[&proof]).await;
        assert_eq!((served.status, served.header("dpop-nonce")), (200, Some("next")));
    }
    assert_eq!((issuer.verified(), issuer.proofs()), (1, 2));
    let demanded = send("DPoP", bound, &[&format!("K POST {url}")]).await;
    assert_eq!((demanded.status, demanded.header("dpop-nonce")), (401, Some("nonce")));
    assert!(challenges(&demanded)[0].starts_with("DPoP error=\"use_dpop_nonce\""), "{demanded:?}");
    for proofs in [&[][..], &[&*proof, &*proof], &[&*format!("K GET {url} nonce")], &["L"]] {
        let refused = send("DPoP", bound, proofs).await;
        let challenge = challenges(&refused)[0];
        assert_eq!(refused.status, 401, "{proofs:?}");
        assert!(
            challenge.starts_with("DPoP error=\"invalid_dpop_proof\"")
                && challenge.contains("algs=\"ES256\"")
        );
    }
    // Neither can the token be used without its key, nor another token with a proof.
    assert_eq!(send("Bearer", bound, &[&proof]).await.status, 401);
    assert_eq!(send("DPoP", "sub=ann", &[&proof]).await.status, 401);
}

#[tokio::test]
async fn unprotected_server_needs_no_token() {
    let echo = Tool::new("who").handler(async || "anyone");
    let serving = TestServer::start(&Server::new("s", "1").tool(echo)).await;
    assert_eq!(serving.send(Request::stateless(call("who"))).await.status, 200);
    assert_eq!(serving.send(document("")).await.status, 404);
}

#[tokio::test]
async fn scope_that_grants_everything_is_warned_about() {
    // A-08, SEC-027
    let warnings = Warnings::capture();
    let (server, _) = protected(Issuer::named().resource.scopes_supported(["notes:*"]));
    drop(TestServer::start(&server).await);
    let warned = warnings.take();
    assert!(warned.iter().any(|line| line.contains("notes:*")), "{warned:?}");
}

#[tokio::test]
async fn unix_socket_and_static_token_need_no_address() {
    let token = StaticToken::new("s3cret", Principal::new("owner"));
    assert!(Server::new("s", "1").authorize(token).http_service().is_ok());
}
