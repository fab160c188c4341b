//! The bare servers: hyper on one thread, and a child that reads all available input, responds, and writes once.
//!
//! They validate nothing. With a delay, each response is sent that much later, however many calls are in flight.

use std::convert::Infallible;
use std::io::{Read, Write, stdin, stdout};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::BoxError;
use crate::responses::{INITIALIZE, write_response};

/// Serves until it is killed. The first line on standard output is the address.
pub(crate) fn serve_http(delay: &str) -> Result<(), BoxError> {
    let delay = milliseconds(delay)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}/mcp", listener.local_addr()?);
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            let service = service_fn(move |request| respond(request, delay));
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service);
            // A broken connection is reported by the client.
            tokio::spawn(async move { connection.await.ok() });
        }
    })
}

async fn respond(request: Request<Incoming>, delay: Duration) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::default());
    match *request.method() {
        Method::POST => {}
        Method::DELETE => return Ok(response),
        _ => {
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            return Ok(response);
        }
    }
    let body = match request.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return Ok(response),
    };
    let mut bytes = Vec::with_capacity(256);
    if !write_response(&body, &mut bytes) {
        *response.status_mut() = StatusCode::ACCEPTED;
        return Ok(response);
    }
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if memchr::memmem::find(&body, INITIALIZE.as_bytes()).is_some() {
        headers.insert("mcp-session-id", HeaderValue::from_static("0123456789abcdef0123456789abcdef"));
    }
    *response.body_mut() = Full::from(bytes);
    Ok(response)
}

/// Serves until its input ends.
pub(crate) fn serve_stdio(delay: &str) -> Result<(), BoxError> {
    let delay = milliseconds(delay)?;
    let (later, due) = mpsc::channel();
    let writer = std::thread::spawn(move || write_delayed(&due));
    let mut input = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    let mut out = Vec::new();
    loop {
        let read = stdin().lock().read(&mut chunk)?;
        if read == 0 {
            break;
        }
        input.extend_from_slice(&chunk[..read]);
        let mut start = 0;
        while let Some(length) = memchr::memchr(b'\n', &input[start..]) {
            if write_response(&input[start..start + length], &mut out) {
                out.push(b'\n');
            }
            start += length + 1;
        }
        input.drain(..start);
        if delay.is_zero() {
            write(&out)?;
            out.clear();
        } else {
            later.send((Instant::now() + delay, std::mem::take(&mut out)))?;
        }
    }
    drop(later);
    writer.join().map_err(|_| "the writer panicked")?
}

fn write_delayed(due: &mpsc::Receiver<(Instant, Vec<u8>)>) -> Result<(), BoxError> {
    for (when, bytes) in due {
        std::thread::sleep(when.saturating_duration_since(Instant::now()));
        write(&bytes)?;
    }
    Ok(())
}

fn write(bytes: &[u8]) -> Result<(), BoxError> {
    let mut stdout = stdout().lock();
    stdout.write_all(bytes)?;
    Ok(stdout.flush()?)
}

fn milliseconds(text: &str) -> Result<Duration, BoxError> {
    Ok(Duration::from_millis(text.parse()?))
}
