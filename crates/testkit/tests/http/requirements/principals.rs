//! Sessions of callers that a layer in front of the server has authenticated.

use std::net::SocketAddr;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower_service::Service;
use tsugite::Server;
use tsugite::server::Principal;
use tsugite_testkit::http::{Connection, Request, Response, initialize_request};

use super::{call, feature_server, within};

/// Serves behind a layer that takes the principal from a header.
async fn gated(server: &Server) -> SocketAddr {
    let service = server.http_service().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let service = service.clone();
            let gate = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
                let user = request.headers().get("x-user").map(|user| user.to_str().unwrap().to_owned());
                if let Some(user) = user {
                    request.extensions_mut().insert(Principal::new(user));
                }
                let mut service = service.clone();
                async move { service.call(request).await }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), gate));
        }
    });
    address
}

async fn send(address: SocketAddr, user: Option<&str>, request: Request) -> Response {
    let mut connection = Connection::connect(address).await;
    let request = match user {
        Some(user) => request.header("X-User", user),
        None => request,
    };
    let mut response = within(connection.send(request)).await;
    if response.header("content-type") != Some("text/event-stream") {
        response.body = connection.read_body().await;
    }
    response
}

async fn session_of(address: SocketAddr, user: Option<&str>, capabilities: Value) -> String {
    let opened = send(address, user, Request::post(&initialize_request("2025-11-25", capabilities))).await;
    opened.header("mcp-session-id").unwrap().to_owned()
}

#[tokio::test]
async fn session_id_is_not_enough_to_use_a_session() {
    // SESS-013, SEC-015: every request is checked. SEC-017: a session is identified by its user and its id.
    let address = gated(&feature_server().server).await;
    let session = session_of(address, Some("anna"), json!({})).await;
    let requests = [
        Request::post(&call(1, "echo")).session(&session),
        Request::post(&super::notice("notifications/x")).session(&session),
        Request::get_stream(&session),
        Request::new("DELETE").session(&session),
    ];
    for request in &requests {
        for user in [Some("ben"), None] {
            let refused = send(address, user, request.clone()).await;
            assert_eq!(refused.status, 404, "{user:?} {request:?} {refused:?}");
        }
    }
    for request in &requests {
        let served = send(address, Some("anna"), request.clone()).await;
        assert!((200..300).contains(&served.status), "{request:?} {served:?}");
    }
    let anonymous = session_of(address, None, json!({})).await;
    let refused = send(address, Some("ben"), Request::post(&call(1, "echo")).session(&anonymous)).await;
    assert_eq!(refused.status, 404, "{refused:?}");
}

#[tokio::test]
async fn only_the_asked_user_can_answer() {
    // ELIC-035
    let address = gated(&feature_server().server).await;
    let session = session_of(address, Some("anna"), json!({"roots": {}})).await;
    let mut asking = Connection::connect(address).await;
    let request = Request::post(&call(1, "asks")).session(&session).header("X-User", "anna");
    assert_eq!(asking.send(request).await.status, 200);
    let question = within(asking.next_message()).await.unwrap();
    let answer = |roots: Value| {
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": roots}});
        Request::post(&answer).session(&session)
    };
    let forged = json!([{"uri": "file:///etc"}]);
    for user in [Some("ben"), None] {
        assert_eq!(send(address, user, answer(forged.clone())).await.status, 404);
    }
    assert_eq!(send(address, Some("anna"), answer(json!([]))).await.status, 202);
    let answered = within(asking.next_message()).await.unwrap();
    assert_eq!(answered["result"]["content"][0]["text"], "0 roots", "{answered}");
}
