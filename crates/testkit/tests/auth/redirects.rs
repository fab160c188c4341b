//! The loopback listener that receives the answer to a login.

use std::sync::Arc;

use tokio::sync::Notify;
use tsugite::client::{FetchRequest, Fetcher};

use super::world::{Changes, Clicks, World, fetch};
use super::{call, until, within};

/// A login that waits for its answer, and the redirect URI and state of it.
struct Waiting {
    world: World,
    clicks: Clicks,
    gate: Arc<Notify>,
    redirect: String,
    state: String,
    calling: tokio::task::JoinHandle<Result<String, tsugite::client::ClientError>>,
}

async fn waiting() -> Waiting {
    let world = World::start(Changes::default()).await;
    let gate = Arc::new(Notify::new());
    let clicks = Clicks { gate: Some(Arc::clone(&gate)), ..Clicks::default() };
    let client = within(world.client(&clicks.login())).await.unwrap();
    let calling = tokio::spawn(async move { call(&client).await });
    until(|| !clicks.pages().is_empty()).await;
    let page = clicks.pages().remove(0);
    let state = page.url.split("state=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    Waiting { world, clicks, gate, redirect: page.redirect_uri, state, calling }
}

#[tokio::test]
async fn injected_code_does_not_end_the_login() {
    // ACL-044, C-11, C-23
    let waiting = waiting().await;
    let (redirect, state) = (&waiting.redirect, &waiting.state);
    assert!(redirect.starts_with("http://127.0.0.1:"), "{redirect}");
    let (root, path) = redirect.split_at(redirect.find("/callback").unwrap());
    assert!(path.len() > "/callback/".len() + 40, "the path is not guessable: {path}");
    for url in [
        format!("{redirect}?code=evil"),
        format!("{redirect}?code=evil&state=x"),
        format!("{redirect}?code=evil&code=evil&state={state}"),
        format!("{root}/callback?code=evil&state={state}"),
        format!("{root}/?code=evil&state={state}"),
        redirect.clone(),
    ] {
        assert_eq!(fetch(&url).await.0, 404, "{url}");
    }
    let url = format!("{redirect}?code=evil&state={state}");
    // Another name for this machine, as after DNS rebinding, and another method.
    let rebound = url.replace("127.0.0.1", "localhost");
    assert_eq!(fetch(&rebound).await.0, 404);
    let posted = Fetcher::new().fetch(FetchRequest::post(url, "text/plain", "")).await.unwrap();
    assert_eq!(posted.status, 404);
    waiting.gate.notify_one();
    assert_eq!(within(waiting.calling).await.unwrap().unwrap(), "in");
    let codes: Vec<_> = waiting.world.at("/token").iter().filter_map(|seen| seen.form("code")).collect();
    assert_eq!(codes, ["code-1"]);
}

#[tokio::test]
async fn second_answer_is_not_accepted() {
    // C-23
    let waiting = waiting().await;
    waiting.gate.notify_one();
    assert_eq!(within(waiting.calling).await.unwrap().unwrap(), "in");
    let second = format!("{}?code=evil&state={}", waiting.redirect, waiting.state);
    assert_eq!(fetch(&second).await.0, 0, "nothing listens there any more");
    assert_eq!(waiting.world.at("/token").len(), 1);
    assert_eq!(waiting.clicks.pages().len(), 1);
}

#[tokio::test]
async fn redirect_page_leads_nowhere_else() {
    // An open redirect would lend the address of a login to a phishing page.
    let waiting = waiting().await;
    let evil = "https%3A%2F%2Fevil.example.com";
    let origin = waiting.redirect.split("/callback").next().unwrap().to_owned();
    for url in [
        format!("{}?redirect_uri={evil}&next={evil}&url={evil}", waiting.redirect),
        format!("{origin}//evil.example.com/%2e%2e"),
        format!("{origin}/?return_to={evil}"),
        // The answer ends the login.
        format!("{}?state={}&error=x&error_uri={evil}&redirect={evil}", waiting.redirect, waiting.state),
    ] {
        let response = Fetcher::new().fetch(FetchRequest::get(url.as_str())).await.unwrap();
        let text = String::from_utf8(response.body.clone()).unwrap();
        assert!(matches!(response.status, 400 | 404) && response.header("location").is_none(), "{url}");
        assert!(response.header("refresh").is_none() && !text.contains("evil"), "{url}: {text}");
    }
    assert!(within(waiting.calling).await.unwrap().is_err());
}

#[tokio::test]
async fn page_says_that_the_window_may_be_closed() {
    let waiting = waiting().await;
    let url = format!("{}?code=code-9&state={}", waiting.redirect, waiting.state);
    // A silent connection, such as browsers open in advance, does not hold up the answer.
    let address = waiting.redirect.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
    let response = Fetcher::new().fetch(FetchRequest::get(url)).await.unwrap();
    let text = String::from_utf8(response.body.clone()).unwrap();
    assert!(text.contains("may be closed") && !text.contains("code-9"), "{text}");
    assert_eq!(response.header("cache-control"), Some("no-store"));
    waiting.calling.abort();
}

#[tokio::test]
async fn redirect_uri_can_be_fixed() {
    // ACL-043
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let world = World::start(Changes::default()).await;
    let uri = format!("http://localhost:{free}/done");
    let login = Clicks::default().login().redirect_uri(&uri);
    assert_eq!(world.try_login(&login).await.unwrap(), "in");
    assert_eq!(world.at("/authorize")[0].query["redirect_uri"], uri);
    for elsewhere in ["http://example.com/done", "https://localhost/done", "http://0.0.0.0:1/", "myapp://x"] {
        let login = Clicks::default().login().redirect_uri(elsewhere);
        assert!(world.try_login(&login).await.is_err(), "{elsewhere}");
    }
    assert_eq!(world.at("/authorize").len(), 1);
}
