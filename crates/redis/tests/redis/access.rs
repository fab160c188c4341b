//! Users, databases, TLS, and servers that cannot be used.

use std::io::{Read, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tsugite_redis::Redis;
use tsugite_store::{Store, suite};

use crate::server::{Server, commit, free_port, set, within};

/// The certificates are for tests alone.
const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tsugite/tests/tls");

async fn error_of(store: &Redis) -> String {
    within(store.read("k", &["a"])).await.unwrap_err().to_string()
}

#[tokio::test]
async fn user_with_the_documented_commands_suffices() {
    let server = Server::start();
    let user = ["ACL", "SETUSER", "app", "on", ">p@ss", "~app:*"];
    // As the documentation of the crate says.
    let commands = ["+@read", "+@write", "+@connection", "+@scripting", "+@stream", "+time"];
    server.run::<()>(&[&user[..], &commands].concat());
    let store = Redis::at(&format!("redis://app:p%40ss@127.0.0.1:{}/3", server.port)).unwrap();
    let store: Arc<dyn Store> = Arc::new(store.prefix("app"));
    suite::run(&store, "acl").await.unwrap();
    assert_eq!(server.run::<usize>(&["DBSIZE"]), 0);
    assert!(server.run::<String>(&["INFO", "keyspace"]).contains("db3:"));
}

#[tokio::test]
async fn password_without_user_suffices() {
    let server = Server::with(&["--requirepass", "hunter2"]);
    let error = error_of(&server.store()).await;
    assert!(error.contains("NOAUTH"), "{error}");
    let store = Redis::at(&format!("redis://:hunter2@127.0.0.1:{}", server.port)).unwrap();
    commit(&store, &[set("k", "a", "1")]).await.unwrap();
}

#[tokio::test]
async fn refused_users_are_reported_without_their_password() {
    let server = Server::start();
    server.run::<()>(&["ACL", "SETUSER", "app", "on", ">hunter2", "~app:*", "+@all", "-xadd"]);
    let wrong = Redis::at(&format!("redis://app:hunter3@127.0.0.1:{}", server.port)).unwrap();
    let error = error_of(&wrong).await;
    assert!(error.contains("WRONGPASS") && !error.contains("hunter"), "{error}");
    let shown = format!("{wrong:?}");
    assert!(shown.contains("127.0.0.1") && !shown.contains("hunter"), "{shown}");
    let url = format!("redis://app:hunter2@127.0.0.1:{}", server.port);
    let error = error_of(&Redis::at(&url).unwrap()).await;
    assert!(error.contains("permissions") && !error.contains("hunter"), "{error}");
    let error = error_of(&Redis::at(&url).unwrap().prefix("app")).await;
    assert!(error.contains("XADD"), "{error}");
}

#[tokio::test]
async fn tls_checks_both_certificates() {
    let file = |name: &str| format!("{TLS}/{name}");
    let server = Server::with(&[
        "--tls-port",
        "PORT",
        "--tls-cert-file",
        &file("certificate.pem"),
        "--tls-key-file",
        &file("key.pem"),
        "--tls-ca-cert-file",
        &file("client_authority.pem"),
        "--tls-auth-clients",
        "yes",
    ]);
    let url = format!("rediss://localhost:{}", server.port);
    let store = Redis::at(&url).unwrap();
    assert!(error_of(&store).await.contains("certificate"));
    let store = Redis::at(&url).unwrap().add_root_certificate(file("certificate.pem"));
    within(store.read("k", &["a"])).await.unwrap_err();
    let store = Redis::at(&url).unwrap().add_root_certificate(file("certificate.pem"));
    let store = store.client_certificate(file("client.pem"), file("client_key.pem"));
    commit(&store, &[set("k", "a", "1")]).await.unwrap();
    let missing = Redis::at(&url).unwrap().add_root_certificate(file("missing.pem"));
    assert!(error_of(&missing).await.contains("missing.pem"));
}

#[tokio::test]
async fn cluster_is_refused() {
    let bus = free_port().to_string();
    let server = Server::with(&["--cluster-enabled", "yes", "--cluster-port", &bus]);
    for url in [server.url(), format!("{}/1", server.url())] {
        let error = error_of(&Redis::at(&url).unwrap()).await;
        assert!(error.contains("Redis Cluster, which is not supported"), "{error}");
    }
}

#[tokio::test]
async fn unsuitable_servers_are_refused() {
    for (mode, version, expected) in [
        ("standalone", "6.2.14", "\"6.2.14\"; 7.0 or newer is required"),
        ("standalone", "", "\"\"; 7.0 or newer is required"),
        ("sentinel", "7.0.0", "Redis Sentinel"),
    ] {
        let (port, server) = server_that_says(mode, version);
        let error = error_of(&Redis::at(&format!("redis://127.0.0.1:{port}")).unwrap()).await;
        assert!(error.contains(expected), "{error}");
        server.join().unwrap();
    }
}

/// A server that answers one command, which must be `HELLO`.
fn server_that_says(mode: &str, version: &str) -> (u16, JoinHandle<()>) {
    let lengths = (version.len(), mode.len());
    let hello = format!(
        "*4\r\n$7\r\nversion\r\n${}\r\n{version}\r\n$4\r\nmode\r\n${}\r\n{mode}\r\n",
        lengths.0, lengths.1
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut request = [0; 100];
        let length = socket.read(&mut request).unwrap();
        assert_eq!(&request[..length], b"*1\r\n$5\r\nHELLO\r\n");
        socket.write_all(hello.as_bytes()).unwrap();
    });
    (port, server)
}

#[test]
fn unencrypted_connections_to_other_machines_are_refused() {
    let error = Redis::at("redis://:hunter2@db.example").unwrap_err().to_string();
    assert!(error.contains("at_unencrypted") && !error.contains("hunter2"), "{error}");
    Redis::at_unencrypted("redis://:hunter2@db.example").unwrap();
    Redis::at("rediss://:hunter2@db.example").unwrap();
}
