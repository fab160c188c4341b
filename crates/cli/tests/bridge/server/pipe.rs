//! Standard input and output through a relay: one message per line.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::{Out, Shared};
use crate::message::Message;

struct Lines(mpsc::UnboundedSender<String>);

impl Out for Lines {
    fn send(&self, text: &str) {
        let _ = self.0.send(format!("{text}\n"));
    }

    fn answer(&self, text: &str) {
        self.send(text);
    }
}

/// Serves one relay until it closes the connection.
pub(super) async fn serve(socket: TcpStream, shared: Arc<Shared>) {
    let (read, mut write) = socket.into_split();
    let (lines, mut outgoing) = mpsc::unbounded_channel::<String>();
    let writing = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move {
            while let Some(line) = outgoing.recv().await {
                if write.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
                shared.written.send_modify(|written| *written += line.len() as u64);
            }
        }
    });
    let out: Arc<dyn Out> = Arc::new(Lines(lines));
    let connection = shared.join(Arc::clone(&out));
    let mut read = BufReader::new(read).lines();
    loop {
        let line = tokio::select! {
            line = read.next_line() => line,
            () = connection.dead() => break,
        };
        let Ok(Some(line)) = line else { break };
        match Message::read(&line) {
            Ok(message) => connection.receive(message, &out),
            Err(fault) => shared.fault(None, &fault),
        }
    }
    shared.leave(&connection);
    // Pending messages have no receiver.
    writing.abort();
}
