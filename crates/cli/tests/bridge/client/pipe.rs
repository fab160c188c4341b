//! Standard input and output of the bridge: one message on a line.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;

use super::{On, Received, ReceivedSender};
use crate::message::Message;

/// The pipes of a bridge.
pub(super) struct Pipe {
    input: ChildStdin,
    /// Whether standard output is read.
    reads: watch::Sender<bool>,
}

impl Pipe {
    pub(super) fn new(input: ChildStdin, output: ChildStdout, sender: ReceivedSender) -> Self {
        let (reads, mut reading) = watch::channel(true);
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let received = Message::read(&line).map(|message| Received { on: On::Pipe, message });
                if sender.send(received).is_err() || reading.wait_for(|reads| *reads).await.is_err() {
                    return;
                }
            }
        });
        Self { input, reads }
    }

    /// Stops or resumes reading. One more message may be read after stopping.
    pub(super) fn set_reading(&self, reads: bool) {
        self.reads.send_replace(reads);
    }

    pub(super) async fn send(&mut self, message: String) -> Result<(), String> {
        let sent = self.input.write_all(format!("{message}\n").as_bytes()).await;
        sent.map_err(|error| format!("the bridge does not read: {error}"))
    }
}
