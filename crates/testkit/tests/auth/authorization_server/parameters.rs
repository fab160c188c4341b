//! Requests that are built to confuse: parameters twice, in the wrong place, too many, too long, or too slow.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame};
use serde_json::json;
use tower_service::Service;

use tsugite_auth::authorization_server::{AuthorizationServer, ConfiguredClient};

use super::{CALLBACK, CHALLENGE, RESOURCE, TwoUsers, VERIFIER, Visitor, builder, server};

#[tokio::test]
async fn parameters_of_a_token_request_stand_in_its_body_once() {
    let mut program = Visitor::new(&server());
    let client = program.public_client().await;
    let code = program.get_code(&client, &[]).await;
    let form = format!(
        "grant_type=authorization_code&client_id={client}&code={code}&redirect_uri={CALLBACK}&code_verifier={VERIFIER}"
    );
    let urlencoded = "application/x-www-form-urlencoded";
    let query = program.send("POST", &format!("/token?{form}"), urlencoded, String::new()).await;
    assert_eq!((query.status, query.error()), (401, "invalid_client".to_owned()));
    for (url, content_type, body) in [
        ("/token", urlencoded, format!("{form}&code=other")),
        ("/token", urlencoded, format!("{form}&c%6fde=other")),
        ("/token", urlencoded, format!("{form}&x=%zz")),
        ("/token", urlencoded, format!("{form}&x=%ff")),
        ("/token", "application/json", json!({"grant_type": "authorization_code", "code": code}).to_string()),
        ("/token", "text/plain", form.clone()),
    ] {
        let refused = program.send("POST", url, content_type, body.clone()).await;
        assert_eq!((refused.status, refused.error()), (400, "invalid_request".to_owned()), "{url} {body}");
    }
    for several in [
        "resource=https://a.example&resource=https://b.example".to_owned(),
        format!("resource={RESOURCE}&resource={RESOURCE}"),
    ] {
        let body = format!("{form}&{several}");
        let refused = program.send("POST", "/token", urlencoded, body).await;
        assert_eq!((refused.status, refused.error()), (400, "invalid_target".to_owned()), "{several}");
    }
    // None of these used the code up.
    let url = "/token?code=other&client_id=other";
    assert_eq!(program.send("POST", url, urlencoded, form).await.status, 200);
}

#[tokio::test]
async fn number_of_parameters_is_limited() {
    let mut program = Visitor::new(&server());
    let form = |count: usize| {
        let params: Vec<String> = (0..count).map(|number| format!("p{number}=")).collect();
        params.join("&")
    };
    let urlencoded = "application/x-www-form-urlencoded";
    let mut error = async |count: usize| {
        let answer = program.send("POST", "/token", urlencoded, form(count)).await;
        answer.json()["error"].clone()
    };
    assert_eq!(error(100).await, "invalid_client");
    assert_eq!(error(101).await, "invalid_request");
    assert_eq!(error(8_000).await, "invalid_request");
}

#[tokio::test]
async fn response_cannot_be_sent_another_way() {
    let mut browser = Visitor::new(&server());
    let client = browser.public_client().await;
    for (name, value, error) in [
        ("response_mode", "fragment", "invalid_request"),
        ("response_mode", "form_post", "invalid_request"),
        ("response_type", "code token", "unsupported_response_type"),
        ("response_type", "id_token", "unsupported_response_type"),
        ("request_uri", "https://evil.example/request", "request_uri_not_supported"),
    ] {
        let page = browser.authorize(&client, &[(name, value)]).await;
        assert_eq!((page.status, page.header("location")), (400, ""), "{name} {value}");
        assert!(page.body.contains(error), "{name} {value}: {}", page.body);
    }
    let twice = format!(
        "/authorize?response_type=code&client_id={client}&redirect_uri={CALLBACK}&code_challenge={CHALLENGE}\
         &code_challenge_method=S256&code_challenge_method=plain"
    );
    assert_eq!(browser.get(&twice).await.status, 400);
    let mut browser = Visitor::new(&builder().client(app()).build().unwrap());
    let url = format!(
        "/authorize?response_type=code&client_id=app&redirect_uri={CALLBACK}&code_challenge={CHALLENGE}\
         &code_challenge_method=S256&resource={RESOURCE}&resource=https://b.example"
    );
    let answer = browser.get(&url).await;
    assert_eq!(answer.redirect_param("error").as_deref(), Some("invalid_target"));
}

fn app() -> ConfiguredClient {
    ConfiguredClient::public("app").redirect_uri(CALLBACK)
}

#[tokio::test]
async fn resource_may_be_written_another_way() {
    let mut browser = Visitor::new(&builder().client(app()).build().unwrap());
    for same in ["https://NOTES.example/mcp", "HTTPS://notes.example:443/mcp/", "https://notes.example/mcp/"]
    {
        let code = browser.get_code("app", &[("resource", same), ("prompt", "login")]).await;
        let tokens = browser.exchange("app", &code, &[("resource", same)]).await.json();
        assert_eq!(super::decode_token(&tokens["access_token"]).1["aud"], RESOURCE, "{same}");
    }
    for other in
        ["http://notes.example/mcp", "https://notes.example/MCP", "https://notes.example:8443/mcp", "x"]
    {
        let answer = browser.authorize("app", &[("resource", other)]).await;
        assert_eq!(answer.redirect_param("error").as_deref(), Some("invalid_target"), "{other}");
    }
}

#[tokio::test]
async fn issuer_in_upper_case_works() {
    let server = AuthorizationServer::builder("https://Auth.Example:443").resource(RESOURCE).users(TwoUsers);
    let server = server.client(app()).build().unwrap();
    let mut browser = Visitor::new(&server).header("origin", "https://auth.example");
    let code = browser.get_code("app", &[]).await;
    assert_eq!(browser.exchange("app", &code, &[]).await.status, 200);
    for foreign in ["https://auth.example:444", "http://auth.example", "https://evil.example", "null"] {
        let mut browser = Visitor::new(&server).header("origin", foreign);
        let page = browser.authorize("app", &[]).await;
        assert_eq!(browser.log_in(&page, "ann").await.status, 400, "{foreign}");
    }
}

#[tokio::test]
async fn state_cannot_add_headers_or_parameters() {
    let mut browser = Visitor::new(&server());
    let client = browser.public_client().await;
    let state = "x\r\nSet-Cookie: a=b&code=mine#<script>\u{0}";
    let page = browser.authorize(&client, &[("state", state)]).await;
    let page = browser.log_in(&page, "ann").await;
    assert!(!page.body.contains("<script>"));
    let answer = browser.decide(&page, "allow").await;
    let location = answer.header("location");
    assert_eq!(answer.redirect_param("state").as_deref(), Some(state));
    assert!(location.bytes().all(|byte| byte.is_ascii_graphic()) && !location.contains('#'), "{location}");
    assert_eq!((location.matches("code=").count(), answer.header("set-cookie")), (1, ""));
}

#[tokio::test]
async fn stored_clients_are_small() {
    let mut program = Visitor::new(&server());
    let uris = |count: usize, length: usize| {
        let uri = |number: usize| format!("https://app.example/{number:03}{}", "x".repeat(length - 23));
        json!({"redirect_uris": (0..count).map(uri).collect::<Vec<_>>()})
    };
    for (metadata, status) in [
        (uris(2, 2_048), 201),
        (uris(3, 2_048), 400),
        (uris(20, 200), 201),
        (uris(20, 210), 400),
        (uris(21, 30), 400),
    ] {
        let answer = program.post_json("/register", &metadata).await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    for body in [
        format!("{{\"redirect_uris\": [\"{CALLBACK}\"], \"redirect_uris\": [\"https://evil.example\"]}}"),
        format!("{{\"redirect_uris\": [\"{CALLBACK}\"], \"x\": {}", "[".repeat(60_000)),
    ] {
        let answer = program.send("POST", "/register", "application/json", body).await;
        assert_eq!((answer.status, answer.error()), (400, "invalid_client_metadata".to_owned()));
    }
}

#[tokio::test]
async fn address_beyond_its_limit_locks_no_names() {
    let server = builder().max_logins(2).build().unwrap();
    let mut eve = Visitor::new(&server);
    let client = eve.public_client().await;
    let page = eve.authorize(&client, &[]).await;
    let sealed = page.sealed();
    for number in 0..4 {
        let name = format!("user{number}");
        eve.post("/login", &[("request", &sealed), ("name", &name), ("password", "x")]).await;
    }
    for _ in 0..5 {
        let refused = eve.post("/login", &[("request", &sealed), ("name", "ann"), ("password", "x")]).await;
        assert_eq!(refused.status, 429);
    }
    let mut ann = Visitor::new(&server).at([198, 51, 100, 7]);
    let page = ann.authorize(&client, &[]).await;
    assert_eq!(ann.log_in(&page, "ann").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn body_that_never_ends_is_given_up() {
    struct Endless;

    impl Body for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    let request = Request::builder().method("POST").uri("/token").body(Endless).unwrap();
    let response = server().call(request).await.unwrap();
    assert_eq!(response.status(), 408);
}
