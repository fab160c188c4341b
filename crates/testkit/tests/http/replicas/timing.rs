//! Times to live, leases and outages, with a paused clock: requests reach the service without a socket.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::Bytes;
use http_body::Body;
use serde_json::json;
use tokio::time::{Instant, advance};
use tower_service::Service;
use tsugite::transport::http::{Http, HttpBody, HttpService};
use tsugite_testkit::http::initialize_request;

use super::*;

/// A replica without a socket.
struct Unbound {
    service: HttpService,
    faults: Arc<Faults>,
}

impl Unbound {
    fn new(cluster: &Cluster) -> Self {
        let (server, faults) = cluster.server();
        Self { service: server.http_service().unwrap(), faults }
    }

    async fn send(&self, request: Request) -> http::Response<HttpBody> {
        let mut parts = http::Request::builder().method(&*request.method).uri(&*request.path);
        for (name, value) in &request.headers {
            parts = parts.header(name, value);
        }
        let body = String::from_utf8(request.body).unwrap();
        self.service.clone().call(parts.body(body).unwrap()).await.unwrap()
    }

    async fn status(&self, request: Request) -> u16 {
        self.send(request).await.status().as_u16()
    }

    async fn open_session(&self, capabilities: Value) -> String {
        let opened = self.send(Request::post(&initialize_request("2025-11-25", capabilities))).await;
        opened.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    }

    async fn list_status(&self, session: &str) -> u16 {
        self.status(Request::post(&list(1)).session(session)).await
    }

    async fn stream(&self, request: Request) -> Events {
        let response = self.send(request).await;
        assert_eq!(response.status(), 200);
        Events { body: response.into_body(), text: String::new() }
    }
}

/// The events of a response.
struct Events {
    body: HttpBody,
    text: String,
}

impl Events {
    /// The id and the data of the next event with data; `None` at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let line = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                let event = (line("id: ").unwrap_or_default().to_owned(), line("data: ").map(str::to_owned));
                self.text = rest.to_owned();
                if let (id, Some(data)) = event
                    && !data.is_empty()
                {
                    return Some((id, serde_json::from_str(&data).unwrap()));
                }
            }
            let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await?;
            let data: Bytes = frame.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }

    /// The path in the first event of an HTTP+SSE stream.
    async fn endpoint(&mut self) -> String {
        let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await.unwrap();
        let data = frame.unwrap().into_data().unwrap();
        let text = std::str::from_utf8(&data).unwrap();
        text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().to_owned()
    }
}

fn cluster() -> Cluster {
    let lease = Duration::from_secs(10);
    Cluster { lease, http: Http::new().http_sse(), ..Cluster::new() }
}

/// Lets time pass in steps, so that timers run in their order.
async fn pass(time: Duration) {
    let step = Duration::from_secs(1);
    for _ in 0..time.as_secs() {
        advance(step).await;
        tokio::task::yield_now().await;
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn death_is_noticed_within_two_lease_times() {
    for late in [Duration::ZERO, Duration::from_millis(1_234), Duration::from_millis(2_499)] {
        let cluster = cluster();
        let (first, second) = (Unbound::new(&cluster), Unbound::new(&cluster));
        let session = first.open_session(json!({})).await;
        let mut stream = first.stream(Request::post(&call(1, "slow")).session(&session)).await;
        let (progress, _) = stream.next().await.unwrap();
        advance(late).await;
        first.faults.cut_off();
        let died = Instant::now();
        let resume = Request::get_stream(&session).header("Last-Event-ID", &progress);
        let mut resumed = second.stream(resume).await;
        let (_, lost) = resumed.next().await.unwrap();
        assert_eq!(lost["error"]["code"], -32603, "{lost}");
        assert!(died.elapsed() > cluster.lease, "a lease that stays away for less is no death");
        assert!(died.elapsed() <= cluster.lease * 2, "{:?}", died.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn session_in_use_does_not_expire() {
    let mut cluster = cluster();
    cluster.http = cluster.http.session_idle_timeout(30 * MINUTE);
    let replicas = [Unbound::new(&cluster), Unbound::new(&cluster), Unbound::new(&cluster)];
    let session = replicas[0].open_session(json!({})).await;
    let commits = |replicas: &[Unbound]| replicas.iter().map(|one| one.faults.seen().commits).sum::<usize>();
    let before = commits(&replicas);
    // Each replica sees the session so rarely that it has dropped its copy.
    for round in 0..60 {
        pass(2 * MINUTE).await;
        assert_eq!(replicas[round % 3].list_status(&session).await, 200, "round {round}");
    }
    // Once in each quarter of the time to live of 40 minutes.
    let refreshed = commits(&replicas) - before;
    assert!((10..=12).contains(&refreshed), "{refreshed}");
    pass(41 * MINUTE).await;
    for replica in &replicas {
        assert_eq!(replica.list_status(&session).await, 404);
    }
}

#[tokio::test(start_paused = true)]
async fn idle_copies_are_dropped() {
    let mut cluster = cluster();
    let first = Unbound::new(&cluster);
    cluster.http = cluster.http.max_sessions(1);
    let second = Unbound::new(&cluster);
    let (one, other) = (first.open_session(json!({})).await, first.open_session(json!({})).await);
    // A stream at another replica does not matter.
    let _stream = first.stream(Request::get_stream(&one)).await;
    assert_eq!(second.list_status(&one).await, 200);
    assert_eq!(second.list_status(&other).await, 503);
    pass(3 * MINUTE).await;
    assert_eq!(second.list_status(&other).await, 200);
}

#[tokio::test(start_paused = true)]
async fn copy_in_use_is_kept_while_the_store_is_slow() {
    let cluster = cluster();
    let replica = Arc::new(Unbound::new(&cluster));
    let session = replica.open_session(json!({})).await;
    pass(MINUTE / 2).await;
    let gate = replica.faults.stall_reads();
    let reads = replica.faults.seen().reads;
    let status = tokio::spawn({
        let (replica, session) = (replica.clone(), session.clone());
        async move { replica.list_status(&session).await }
    });
    replica.faults.wait_for(|seen| seen.reads > reads).await;
    pass(3 * MINUTE).await;
    gate.add_permits(1_000);
    assert_eq!(status.await.unwrap(), 200);
}

#[tokio::test(start_paused = true)]
async fn completion_long_after_its_call_reaches_the_client() {
    let cluster = cluster();
    let (first, second) = (Unbound::new(&cluster), Unbound::new(&cluster));
    let session = first.open_session(json!({"elicitation": {"url": {}}})).await;
    assert_eq!(first.status(Request::post(&call(1, "login")).session(&session)).await, 200);
    pass(5 * MINUTE).await;
    assert!(cluster.stage.visits.lock().unwrap()[0].complete());
    let mut stream = second.stream(Request::get_stream(&session)).await;
    assert_eq!(stream.next().await.unwrap().1["method"], "notifications/elicitation/complete");
}

#[tokio::test(start_paused = true)]
async fn long_outage_ends_a_stream_with_an_error() {
    let cluster = cluster();
    let (first, second) = (Unbound::new(&cluster), Unbound::new(&cluster));
    let session = first.open_session(json!({})).await;
    let mut stream = first.stream(Request::post(&call(1, "slow")).session(&session)).await;
    let (progress, _) = stream.next().await.unwrap();
    // The replica is alive and renews its lease, but its events are not stored.
    first.faults.refuse(|operation| operation.appends());
    cluster.let_go(1);
    assert_eq!(stream.next().await, None);
    drop(stream);
    first.faults.connect();
    let resume = Request::get_stream(&session).header("Last-Event-ID", &progress);
    let mut resumed = second.stream(resume).await;
    let (_, lost) = resumed.next().await.unwrap();
    assert_eq!((&lost["id"], &lost["error"]["code"]), (&json!(1), &json!(-32603)), "{lost}");
    assert_eq!(resumed.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn http_sse_session_is_refreshed_while_its_stream_is_open() {
    let mut cluster = cluster();
    cluster.http = cluster.http.session_idle_timeout(30 * MINUTE);
    let (first, second) = (Unbound::new(&cluster), Unbound::new(&cluster));
    let mut stream =
        first.stream(Request::new("GET").path("/sse").header("Accept", "text/event-stream")).await;
    let endpoint = stream.endpoint().await;
    let before = first.faults.seen().commits;
    pass(120 * MINUTE).await;
    let refreshed = first.faults.seen().commits - before;
    assert!((10..=12).contains(&refreshed), "{refreshed}");
    let ping = request(1, "ping", json!({}));
    let posted = Request::new("POST").path(&endpoint).header("Content-Type", "application/json");
    assert_eq!(second.status(posted.body(ping.to_string())).await, 202);
}
