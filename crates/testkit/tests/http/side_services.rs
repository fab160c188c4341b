//! Services beside the endpoint of a listener.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::Body;
use tower_service::Service;
use tsugite::prelude::*;
use tsugite::transport::http::{ClientAddr, Http, HttpBody, StaticToken};
use tsugite_testkit::http::{Request, TestServer};

/// Answers with what it was asked.
#[derive(Clone)]
struct Echo;

impl Service<http::Request<HttpBody>> for Echo {
    type Response = http::Response<HttpBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<HttpBody>) -> Self::Future {
        Box::pin(async move {
            let (head, mut body) = request.into_parts();
            let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
            let body = frame.map(|frame| frame.unwrap().into_data().unwrap()).unwrap_or_default();
            let address = head.extensions.get::<ClientAddr>().unwrap().0;
            let text = format!("{} {} {address} {}", head.method, head.uri, String::from_utf8_lossy(&body));
            Ok(http::Response::builder().header("x-service", "echo").body(text.into()).unwrap())
        })
    }
}

async fn serve(http: Http) -> TestServer {
    let token = StaticToken::new("s3cret", Principal::new("owner"));
    TestServer::start(&Server::new("s", "1").http(http).authorize(token)).await
}

#[tokio::test]
async fn service_answers_its_paths_without_a_token() {
    let http = Http::new().route_service("/echo", Echo).route_service("/below/*", Echo);
    let serving = serve(http.route_service("/mcp", Echo).route_service("/health", Echo)).await;
    let posted = serving.send(Request::new("POST").path("/echo?a=1").body("hello".to_owned())).await;
    assert_eq!((posted.status, &*posted.body), (200, "POST /echo?a=1 127.0.0.1 hello"));
    assert_eq!(posted.header("x-service"), Some("echo"));
    let health = serving.send(Request::new("GET").path("/health")).await;
    assert_eq!((health.status, health.header("x-service")), (200, None));
    for (path, status) in
        [("/below/a/b", 200), ("/below/", 200), ("/below", 404), ("/echo/", 404), ("/mcp", 401)]
    {
        assert_eq!(serving.send(Request::new("GET").path(path)).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn service_decides_about_origins_but_not_about_hosts() {
    let serving = serve(Http::new().route_service("/echo", Echo)).await;
    let page = Request::new("GET").path("/echo").header("Origin", "https://page.example");
    assert_eq!(serving.send(page.clone()).await.status, 200);
    assert_eq!(serving.send(page.replace_header("Host", "evil.example")).await.status, 403);
}
