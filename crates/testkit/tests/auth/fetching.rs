//! Requests to URLs that a server names: where they may go, how long they may be, and how often they are redirected.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tsugite::client::{Authorizer, Challenge, Credentials, Fetcher, RequestInfo, Resolver};
use tsugite_auth::Login;

use super::within;
use super::world::{Changes, Clicks, Reply, World};

/// A server that counts its connections. None may come.
struct Trap {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Trap {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { address, connections }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Resolves every name to the next of these addresses, and the last one for ever.
#[derive(Clone)]
struct Scripted {
    addresses: Arc<Vec<SocketAddr>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    fn new(addresses: &[SocketAddr]) -> Self {
        Self { addresses: Arc::new(addresses.to_vec()), asked: Arc::default() }
    }
}

impl Resolver for Scripted {
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        _: u16,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>> {
        let mut asked = self.asked.lock().unwrap();
        let address = self.addresses[asked.len().min(self.addresses.len() - 1)];
        asked.push(host.to_owned());
        Box::pin(async move { Ok(vec![address]) })
    }
}

/// An address of the Internet to which nothing is connected in time.
fn public(port: u16) -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 7], port))
}

/// The outcome of a challenge by a server on the Internet that names this URL for its metadata.
async fn challenged(login: &Login, metadata_url: &str) -> String {
    let server = "https://mcp.example.com/mcp";
    let header = format!("Bearer resource_metadata=\"{metadata_url}\"");
    let mut challenge = Challenge::new(401, server, vec![header]);
    challenge.remote_address = Some(public(443).ip());
    let mut request = RequestInfo::new(server, "POST", server);
    request.method = Some("tools/call");
    let outcome = within(login.handle_challenge(request, &Credentials::none(), &challenge)).await;
    outcome.unwrap_err().to_string()
}

fn login_with(resolver: Scripted) -> Login {
    let fetcher = Fetcher::new().resolver(resolver).connect_timeout(Duration::from_millis(50));
    Clicks::default().login().fetcher(fetcher)
}

#[tokio::test]
async fn literal_addresses_are_not_connected_to() {
    // C-14, SEC-011, SEC-012
    let trap = Trap::start().await;
    let port = trap.address.port();
    for host in
        ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "169.254.169.254", "2130706433"]
    {
        for scheme in ["http", "https"] {
            let resolver = Scripted::new(&[trap.address]);
            let error = challenged(&login_with(resolver), &format!("{scheme}://{host}:{port}/x")).await;
            assert!(error.contains("refused"), "{scheme} {host}: {error}");
        }
    }
    assert_eq!(trap.connections(), 0);
}

#[tokio::test]
async fn name_of_a_private_address_is_not_connected_to() {
    // C-14, SEC-013
    let trap = Trap::start().await;
    let error = challenged(&login_with(Scripted::new(&[trap.address])), "https://as.example.com/x").await;
    assert!(error.contains("loopback"), "{error}");
    let private = SocketAddr::from(([10, 1, 2, 3], 443));
    let error = challenged(&login_with(Scripted::new(&[private])), "https://as.example.com/x").await;
    assert!(error.contains("private network"), "{error}");
    let link_local = SocketAddr::from(([169, 254, 169, 254], 443));
    let login = login_with(Scripted::new(&[link_local])).allow_private_addresses();
    let error = challenged(&login, "https://as.example.com/x").await;
    assert!(error.contains("metadata"), "{error}");
    assert_eq!(trap.connections(), 0);
}

#[tokio::test]
async fn rebound_name_is_connected_to_at_the_checked_address() {
    // C-16, SEC-013
    let trap = Trap::start().await;
    let resolver = Scripted::new(&[public(trap.address.port()), trap.address]);
    let login = login_with(resolver.clone());
    let error = challenged(&login, &format!("https://as.example.com:{}/x", trap.address.port())).await;
    assert!(!error.contains("refused: it is on"), "the first address is a public one: {error}");
    assert_eq!(resolver.asked.lock().unwrap().len(), 1, "a name is resolved once for each connection");
    assert_eq!(trap.connections(), 0);
}

#[tokio::test]
async fn names_and_literals_are_checked_before_a_proxy() {
    // C-14
    let proxy = Trap::start().await;
    let login = || {
        let fetcher = Fetcher::new().proxy(format!("http://{}", proxy.address));
        Clicks::default().login().fetcher(fetcher.connect_timeout(Duration::from_millis(50)))
    };
    for host in ["10.0.0.1", "169.254.169.254", "2130706433", "0x7f.1", "127.1"] {
        let error = challenged(&login(), &format!("https://{host}/x")).await;
        assert!(error.contains("refused"), "{host}: {error}");
    }
    assert_eq!(proxy.connections(), 0);
    challenged(&login(), "https://as.example.com/x").await;
    assert_eq!(proxy.connections(), 1, "a name is left to the proxy");
}

#[tokio::test]
async fn server_on_loopback_may_name_its_neighbours() {
    let world = World::start(Changes::default()).await;
    assert_eq!(world.try_login(&Clicks::default().login()).await.unwrap(), "in");
    // But not a metadata service.
    let world = World::start(Changes {
        resource: Box::new(|_, document| {
            document["authorization_servers"] = json!(["https://169.254.169.254"])
        }),
        ..Changes::default()
    })
    .await;
    let error = world.try_login(&Clicks::default().login()).await.unwrap_err();
    assert!(error.contains("refused the URL"), "{error}");
}

#[tokio::test]
async fn redirect_to_a_forbidden_address_is_not_followed() {
    // C-15, SEC-014
    for location in [
        "http://169.254.169.254/latest",
        "https://169.254.169.254/",
        "ftp://h/",
        "//evil",
        "javascript:x",
        "",
    ] {
        let world = World::start(Changes {
            reply: Box::new(move |_, seen| {
                seen.path.contains("protected-resource").then(|| Reply::redirect(302, location))
            }),
            ..Changes::default()
        })
        .await;
        let error = world.try_login(&Clicks::default().login()).await.unwrap_err();
        assert!(error.contains("refused") || error.contains("unsupported place"), "{location}: {error}");
        assert!(world.seen().iter().all(|seen| !seen.at_issuer));
    }
}

#[tokio::test]
async fn endless_redirects_end() {
    let world = World::start(Changes {
        reply: Box::new(|_, seen| {
            let again = seen.path.contains("protected-resource");
            again.then(|| Reply::redirect(302, format!("{}x", seen.path)))
        }),
        ..Changes::default()
    })
    .await;
    let error = world.try_login(&Clicks::default().login()).await.unwrap_err();
    assert!(error.contains("more than 3 redirects"), "{error}");
    assert_eq!(world.seen().len(), 5);
}

#[tokio::test]
async fn body_of_a_post_is_not_redirected() {
    let other = World::start(Changes::default()).await;
    for path in ["/token", "/register"] {
        for status in [302, 307, 308] {
            let target = format!("{}{path}", other.issuer);
            let world = World::start(Changes {
                reply: Box::new(move |_, seen| {
                    (seen.path == path).then(|| Reply::redirect(status, target.clone()))
                }),
                ..Changes::default()
            })
            .await;
            let error = world.try_login(&Clicks::default().login()).await.unwrap_err();
            assert!(error.contains("refused a redirect"), "{error}");
        }
    }
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn huge_and_encoded_documents_are_refused() {
    // C-17
    let huge = || Reply { status: 200, body: vec![b' '; 100 << 20], ..Reply::default() };
    let encoded =
        || Reply { headers: vec![("content-encoding", "gzip".to_owned())], ..Reply::json(200, &json!({})) };
    for (reply, expected) in
        [(huge as fn() -> Reply, "larger than"), (encoded as fn() -> Reply, "content encoding")]
    {
        let world = World::start(Changes {
            reply: Box::new(move |_, seen| seen.path.contains("protected-resource").then(reply)),
            ..Changes::default()
        })
        .await;
        let error = world.try_login(&Clicks::default().login()).await.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
