//! Our client logs in to our server, over sockets: the example `own_login`.

use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tsugite::client::{Client, ErrorKind, FetchRequest, Fetcher};
use tsugite_auth::{Login, LoginPage, UserAgent, UserAgentFuture};

use super::{Answer, TwoUsers, encode_form};
use crate::within;

#[allow(dead_code, unreachable_pub, reason = "an example has a `main` that is not called here")]
#[path = "../../../../auth/examples/own_login.rs"]
mod own_login;

/// A person who logs in as Ann, with a browser that keeps its cookie.
#[derive(Clone)]
struct Ann {
    action: &'static str,
    pages: Arc<Mutex<Vec<LoginPage>>>,
    cookie: Arc<Mutex<String>>,
}

impl Ann {
    fn new(action: &'static str) -> Self {
        Self { action, pages: Arc::default(), cookie: Arc::default() }
    }

    async fn fetch(&self, request: FetchRequest) -> Answer {
        let cookie = self.cookie.lock().unwrap().clone();
        let response = Fetcher::new().fetch(request.header("cookie", cookie)).await.unwrap();
        if let Some(cookie) = response.header("set-cookie") {
            *self.cookie.lock().unwrap() = cookie.split(';').next().unwrap().to_owned();
        }
        let mut headers = http::HeaderMap::new();
        headers.extend(response.header("location").map(|url| (http::header::LOCATION, url.parse().unwrap())));
        Answer { status: response.status, headers, body: String::from_utf8(response.body).unwrap() }
    }

    async fn submit(&self, url: String, form: &[(&str, &str)]) -> Answer {
        let form = encode_form(form);
        self.fetch(FetchRequest::post(url, "application/x-www-form-urlencoded", form)).await
    }
}

impl UserAgent for Ann {
    fn open(&self, page: LoginPage) -> UserAgentFuture<'_> {
        self.pages.lock().unwrap().push(page.clone());
        Box::pin(async move {
            let (origin, _) = page.url.split_once("/authorize").unwrap();
            let mut shown = self.fetch(FetchRequest::get(page.url.clone())).await;
            if shown.body.contains("name=\"password\"") {
                let sealed = shown.sealed();
                let form = [("request", &*sealed), ("name", "ann"), ("password", "annann")];
                shown = self.submit(format!("{origin}/login"), &form).await;
            }
            let sealed = shown.sealed();
            let form = [("request", &*sealed), ("action", self.action)];
            let answer = self.submit(format!("{origin}/consent"), &form).await;
            self.fetch(FetchRequest::get(answer.header("location"))).await;
            Ok(None)
        })
    }
}

/// Serves the example on a free port, and returns its address.
async fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = own_login::server(&format!("http://{address}"), TwoUsers).unwrap();
    let listener = server.bind_http(address).await.unwrap();
    tokio::spawn(listener.serve());
    format!("http://{address}")
}

#[tokio::test]
async fn our_client_logs_in_to_our_server() {
    let address = serve().await;
    let ann = Ann::new("allow");
    let login = Login::with_agent("our client", ann.clone());
    for (round, url) in [format!("{address}/mcp"), format!("{address}/mcp")].iter().enumerate() {
        let client = within(Client::builder(url).login(login.clone()).connect()).await.unwrap();
        let said: String = within(client.call("whoami", serde_json::json!({}))).await.unwrap();
        assert_eq!(said, "you are ann", "{round}");
        client.close().await;
    }
    assert_eq!(ann.pages.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn our_client_logs_in_with_a_bound_key() {
    let address = serve().await;
    let login = Login::with_agent("our client", Ann::new("allow")).dpop();
    let client = within(Client::builder(format!("{address}/mcp")).login(login).connect()).await.unwrap();
    for _ in 0..2 {
        let said: String = within(client.call("whoami", serde_json::json!({}))).await.unwrap();
        assert_eq!(said, "you are ann");
    }
}

#[tokio::test]
async fn denial_reaches_our_client() {
    let address = serve().await;
    let login = Login::with_agent("our client", Ann::new("deny"));
    let failed = within(Client::builder(format!("{address}/mcp")).login(login).connect()).await;
    let error = match failed {
        Err(error) => error,
        Ok(client) => within(client.call::<String>("whoami", serde_json::json!({}))).await.unwrap_err(),
    };
    assert!(matches!(error.kind(), ErrorKind::Authorization(_)), "{error}");
    assert!(error.to_string().contains("access_denied"), "{error}");
}
