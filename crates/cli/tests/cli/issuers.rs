//! `--issuer`: only clients with a token of an outside issuer are served.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use tsugite::base64::encode_url;

use crate::support::{Place, Ran, Running};

/// An issuer with one key, on a thread that ends with the test.
struct Issuer {
    url: String,
    key: EcdsaKeyPair,
}

impl Issuer {
    fn start() -> Self {
        let (random, kind) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let der = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(kind, der.as_ref(), &random).unwrap();
        let (x, y) = key.public_key().as_ref()[1..].split_at(32);
        let jwk = json!({"kty": "EC", "crv": "P-256", "x": encode_url(x), "y": encode_url(y)});
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let metadata = json!({"issuer": url, "jwks_uri": format!("{url}/jwks")});
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                let mut head = [0; 4096];
                let length = socket.read(&mut head).unwrap();
                let body = match head[..length].starts_with(b"GET /jwks ") {
                    true => json!({ "keys": [jwk] }).to_string(),
                    false => metadata.to_string(),
                };
                let length = body.len();
                write!(
                    socket,
                    "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                )
                .unwrap();
            }
        });
        Self { url, key }
    }

    fn token(&self, audience: &str, scope: &str) -> String {
        let expiry = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 300;
        let claims = json!({"iss": self.url, "aud": audience, "sub": "ann", "scope": scope, "exp": expiry});
        let part = |value: Value| encode_url(value.to_string().as_bytes());
        let input = format!("{}.{}", part(json!({"alg": "ES256", "typ": "at+jwt"})), part(claims));
        let signature = self.key.sign(&SystemRandom::new(), input.as_bytes()).unwrap();
        format!("{input}.{}", encode_url(signature.as_ref()))
    }
}

fn call(place: &Place, url: &str, token: &str) -> Ran {
    let header = format!("Authorization: Bearer {token}");
    place.run(["call", url, "add", "a=1", "b=2", "-H", &header])
}

#[test]
fn clients_need_a_token_of_the_issuer_for_this_server() {
    let (place, issuer) = (Place::new(), Issuer::start());
    for verb in [&["serve"][..], &["bridge", "demo"]] {
        let mut words = verb.to_vec();
        words.extend(["--listen", "127.0.0.1:0", "--issuer", &issuer.url]);
        words.extend(["--audience", "api://demo", "--required-scope", "demo"]);
        let running = Running::start(place.command(words));
        let url = running.line().trim().to_owned();
        running.wait_for_stderr(&format!("clients need a token of {}", issuer.url));
        for audience in [url.as_str(), "api://demo"] {
            assert_eq!(call(&place, &url, &issuer.token(audience, "demo more")).fine().trim(), "3");
        }
        assert_eq!(place.run(["call", &url, "add", "a=1", "b=2"]).code, 5);
        // The start page, which needs no token, names no tool.
        let mut page = String::new();
        let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
        let mut socket = TcpStream::connect(address).unwrap();
        write!(socket, "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        socket.read_to_string(&mut page).unwrap();
        assert!(verb[0] == "bridge" || page.contains("tsugite login"), "{page}");
        assert!(!page.contains("<code>add"), "{page}");
        for refused in [
            issuer.token("https://other.example/mcp", "demo"),
            issuer.token(&url, "more"),
            Issuer::start().token(&url, "demo"),
            "x".to_owned(),
        ] {
            assert_eq!(call(&place, &url, &refused).code, 5, "{verb:?}");
        }
    }
}

#[test]
fn issuer_needs_a_url_that_tokens_can_be_for() {
    let place = Place::new();
    let refused = place.run(["serve", "--listen", "0.0.0.0:0", "--issuer", "https://idp.example"]).failed(1);
    assert!(refused.contains("--public-url"), "{refused}");
    let words = ["serve", "--listen", "0.0.0.0:0", "--issuer", "https://idp.example", "--public-url"];
    let running = Running::start(place.command(words.into_iter().chain(["https://demo.example/mcp"])));
    running.wait_for_stderr("clients need a token of https://idp.example");
    for alone in [["--audience", "x"], ["--required-scope", "x"], ["--public-url", "https://h/mcp"]] {
        assert_ne!(place.run(["serve", "--listen", "127.0.0.1:0"].into_iter().chain(alone)).code, 0);
    }
}
