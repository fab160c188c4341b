//! A server behind an authenticating layer: the name in `Authorization` becomes the principal of the request.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;

use http_body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower_service::Service;
use tsugite::prelude::*;
use tsugite::transport::http::{HttpBody, HttpService};
use tsugite_testkit::http::{Connection, Request, Response, initialize_request};

/// A guarded server on its own socket.
pub(crate) struct Guarded {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Guarded {
    pub(crate) async fn start(server: &Server) -> Self {
        let service = server.http_service().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let service = service.clone();
                let knows = service_fn(move |mut request| {
                    identify(&mut request);
                    service.clone().call(request)
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), knows));
            }
        });
        Self { address, task }
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::connect(self.address).await
    }

    /// Sends one request on its own connection and reads the whole response.
    pub(crate) async fn send(&self, request: Request) -> Response {
        let mut connection = self.connect().await;
        let mut response = connection.send(request).await;
        response.body = connection.read_body().await;
        response
    }

    /// Opens a session for the principal `who`.
    pub(crate) async fn open(&self, who: &str, revision: &str, capabilities: serde_json::Value) -> String {
        let opened = self.send(by(who, Request::post(&initialize_request(revision, capabilities)))).await;
        assert_eq!(opened.status, 200, "{opened:?}");
        opened.header("mcp-session-id").unwrap().to_owned()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The same request, sent by the principal `who`.
pub(crate) fn by(who: &str, request: Request) -> Request {
    request.replace_header("Authorization", &format!("Bearer {who}"))
}

/// Sets the principal from `subject` or `subject@issuer`, either with an optional `+scope`.
fn identify<B>(request: &mut http::Request<B>) {
    let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let Some(token) = token.and_then(|value| value.strip_prefix("Bearer ")) else { return };
    let (who, scope) = token.split_once('+').unwrap_or((token, ""));
    let (subject, issuer) = who.split_once('@').unwrap_or((who, ""));
    let principal = Principal::new(subject).with_issuer(issuer).with_scopes([scope]);
    request.extensions_mut().insert(principal);
}

/// A guarded server without a socket, so that time can be paused.
pub(crate) struct Direct(HttpService);

impl Direct {
    pub(crate) fn new(server: &Server) -> Self {
        Self(server.http_service().unwrap())
    }

    /// The head of the response, and its body to be read.
    pub(crate) async fn begin(&self, request: &Request) -> (Response, HttpBody) {
        let mut made = http::Request::builder().method(request.method.as_str()).uri(&request.path);
        for (name, value) in &request.headers {
            made = made.header(name, value);
        }
        let mut made = made.body(String::from_utf8(request.body.clone()).unwrap()).unwrap();
        identify(&mut made);
        let (parts, body) = self.0.clone().call(made).await.unwrap().into_parts();
        let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
        let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        (Response { status: parts.status.as_u16(), headers, body: String::new() }, body)
    }

    /// The whole response.
    pub(crate) async fn send(&self, request: &Request) -> Response {
        let (mut response, mut body) = self.begin(request).await;
        while let Some(text) = next(&mut body).await {
            response.body.push_str(&text);
        }
        response
    }
}

/// The next chunk of a body.
pub(crate) async fn next(body: &mut HttpBody) -> Option<String> {
    let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
    Some(String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
}
