//! State on Unix: modes of its files, replicas with Redis, and the example of replicas, which is a shell script.

use std::net::{TcpListener, TcpStream};

use tsugite_testkit::replicas::RedisServer;

use super::{key, open_session, ping, serve};
use crate::support::unix::set_mode;
use crate::support::{Place, Running, TSUGITE};

#[test]
fn readable_key_file_is_refused() {
    let place = Place::new();
    place.file("state.redb.key", &key(1));
    set_mode(place.path.join("state.redb.key"), 0o640);
    let err = place.run(["serve", "--listen", "127.0.0.1:0", "--state", "state.redb"]).failed(1);
    assert!(err.contains("other users") && err.contains("chmod 600"), "{err}");
    assert!(!err.contains(&key(1)), "{err}");
}

#[test]
fn readable_state_file_is_warned_about() {
    let place = Place::new();
    drop(serve(&place, "state.redb", None));
    for name in ["state.redb", "state.redb.key"] {
        set_mode(place.path.join(name), 0o640);
    }
    // The key file ends the program.
    let err = place.run(["serve", "--listen", "127.0.0.1:0", "--state", "state.redb"]).failed(1);
    assert!(err.contains("warning: other users of this machine can read or change state.redb"), "{err}");
}

#[test]
fn replicas_share_sessions_in_redis() {
    let place = Place::new();
    let redis = RedisServer::start().unwrap();
    place.file("address.txt", &format!("{}\n", redis.url()));
    let (_one, first) = serve(&place, &redis.url(), Some(&key(1)));
    let (_other, second) = serve(&place, "@address.txt", Some(&key(1)));
    let session = open_session(&first);
    assert_eq!(ping(&second, &session), "HTTP/1.1 200 OK");
    // A database of its own is a state of its own.
    let (_apart, third) = serve(&place, &format!("{}/1", redis.url()), Some(&key(1)));
    assert_eq!(ping(&third, &session), "HTTP/1.1 404 Not Found");
}

#[test]
fn example_of_replicas_starts_and_stops() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/replicas/run.sh");
    let place = Place::new();
    // Below the ports that the system gives to connections and to port 0. Another process may have one of the five.
    let first = 10_000 + u16::try_from(std::process::id() % 2_000).unwrap() * 10;
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let free = (first..32_000).step_by(5).filter(|port| (*port..port + 5).all(is_free));
    let ran = free.take(5).find_map(|port| {
        let mut command = place.dressed(script);
        command.args([
            TSUGITE,
            "call",
            &format!("http://127.0.0.1:{port}/mcp"),
            "order",
            "--rev",
            "2025-11-25",
        ]);
        command.args(["--answer", "name=Ann", "--answer", "planks=3", "--answer", "size=small"]);
        command.args(["--answer", "sure=true"]).env("TSUGITE", TSUGITE).env("PORT", port.to_string());
        let ran = Running::start(command).end();
        (!ran.err.contains("nothing listens on port")).then_some((port, ran))
    });
    let (port, ran) = ran.expect("five free ports");
    assert!(ran.fine().contains("Ann"));
    for port in port..port + 5 {
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{port} still listens");
    }
}
