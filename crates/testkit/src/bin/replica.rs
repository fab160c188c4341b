//! A replica of the fixture servers: `replica --redis URL`. It listens on a free port, which it prints.
//!
//! Each conversation has servers of its own, as it has in one process: `/RUN/NAME/mcp` is the server of `fixture` called
//! NAME, made by the first request. Replicas share its state in Redis. `DELETE /RUN/NAME` drops it.

use std::collections::HashMap;
use std::process::{self, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, io, thread};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tower_service::Service;
use tsugite::transport::http::{Http, HttpService, HttpSsePaths};
use tsugite_testkit::{fixture, replicas};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let ["--redis", url] = args.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
        eprintln!("usage: replica --redis URL");
        return ExitCode::from(2);
    };
    match serve(url).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(redis: &str) -> io::Result<()> {
    // The process that started it holds the other end, and has exited when it closes.
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0);
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let servers = Servers { redis: redis.into(), running: Arc::default() };
    let app = Router::new().fallback(respond).with_state(servers);
    axum::serve(listener.tap_io(|socket| drop(socket.set_nodelay(true))), app).await
}

/// The servers by run and name.
#[derive(Clone)]
struct Servers {
    redis: Arc<str>,
    running: Arc<Mutex<HashMap<String, HttpService>>>,
}

impl Servers {
    /// The server of `/RUN/NAME`, which is made if it does not run yet.
    fn get(&self, folder: &str) -> Result<HttpService, String> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(service) = running.get(folder) {
            return Ok(service.clone());
        }
        let (_, name) = folder.rsplit_once('/').ok_or("no server is named")?;
        let paths = HttpSsePaths { stream: format!("{folder}/sse"), messages: format!("{folder}/messages") };
        let server = replicas::replica(fixture::by_name(name)?, &self.redis, folder)?;
        let service = server.http(Http::new().http_sse_at(paths)).http_service();
        let service = service.map_err(|error| error.to_string())?;
        running.insert(folder.to_owned(), service.clone());
        Ok(service)
    }

    fn remove(&self, folder: &str) {
        let removed = self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(folder);
        if let Some(service) = removed {
            service.close();
        }
    }
}

async fn respond(State(servers): State<Servers>, request: Request) -> Response {
    let path = request.uri().path();
    let Some((folder, _)) = path.rsplit_once('/').filter(|(folder, _)| folder.matches('/').count() == 2)
    else {
        servers.remove(path);
        return Response::default();
    };
    match servers.get(folder) {
        Ok(mut service) => match service.call(request).await {
            Ok(response) => response.map(Body::new),
            Err(never) => match never {},
        },
        Err(error) => Response::builder().status(404).body(error.into()).unwrap_or_default(),
    }
}
