//! A minimal HTTP/1.1 server: one request at a time, and detection of disconnects.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::mpsc;

use super::posts::Posts;

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A part of a response.
pub(super) enum Write {
    Bytes(String),
    /// The response is complete.
    Done,
}

/// The writer of a response. Dropping it before the response is complete closes the connection.
pub(super) type Writer = mpsc::UnboundedSender<Write>;

/// Serves one connection until either side closes it.
pub(super) async fn serve(socket: TcpStream, posts: Arc<Posts>) {
    let (read, mut write) = socket.into_split();
    let mut read = BufReader::new(read);
    while let Some(request) = read_request(&mut read).await {
        let (writer, mut writes) = mpsc::unbounded_channel();
        let gone = posts.arrive(request, writer);
        loop {
            tokio::select! {
                biased;
                next = writes.recv() => match next {
                    Some(Write::Bytes(text)) => {
                        if write.write_all(text.as_bytes()).await.is_err() {
                            return gone();
                        }
                    }
                    Some(Write::Done) => break,
                    None => return,
                },
                // Clients do not pipeline, so this is the end of the connection.
                _ = read.fill_buf() => return gone(),
            }
        }
    }
}

async fn read_request(read: &mut BufReader<OwnedReadHalf>) -> Option<Request> {
    let mut line = String::new();
    read.read_line(&mut line).await.ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        read.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request { method, path, headers, body: String::new() };
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    read.read_exact(&mut body).await.ok()?;
    request.body = String::from_utf8(body).ok()?;
    Some(request)
}

/// Sends a complete response.
pub(super) fn reply(writer: &Writer, status: &str, headers: &str, body: &str) {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let text = format!("HTTP/1.1 {status}\r\n{kind}{headers}Content-Length: {}\r\n\r\n{body}", body.len());
    let _ = writer.send(Write::Bytes(text));
    let _ = writer.send(Write::Done);
}

/// Sends the head of a stream.
pub(super) fn stream(writer: &Writer, headers: &str) {
    let text = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{headers}Transfer-Encoding: chunked\r\n\r\n"
    );
    let _ = writer.send(Write::Bytes(text));
}

/// Sends an event of a stream.
pub(super) fn event(writer: &Writer, kind: &str, data: &str) {
    let text = format!("event: {kind}\ndata: {data}\n\n");
    let _ = writer.send(Write::Bytes(format!("{:x}\r\n{text}\r\n", text.len())));
}

/// Sends the end of a stream.
pub(super) fn end(writer: &Writer) {
    let _ = writer.send(Write::Bytes("0\r\n\r\n".to_owned()));
    let _ = writer.send(Write::Done);
}
