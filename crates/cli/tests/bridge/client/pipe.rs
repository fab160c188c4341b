//! Standard input and output of the bridge: one message on a line.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;

use super::{Heard, Heards, On};
use crate::message::Message;

/// The pipes of a bridge.
pub(super) struct Pipe {
    input: ChildStdin,
    /// Whether anybody reads.
    hears: watch::Sender<bool>,
}

impl Pipe {
    pub(super) fn new(input: ChildStdin, output: ChildStdout, heards: Heards) -> Self {
        let (hears, mut hearing) = watch::channel(true);
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let heard = Message::read(&line).map(|message| Heard { on: On::Pipe, message });
                if heards.send(heard).is_err() || hearing.wait_for(|hears| *hears).await.is_err() {
                    return;
                }
            }
        });
        Self { input, hears }
    }

    /// Reads nothing from now on, or again; one message may be heard meanwhile.
    pub(super) fn hear(&self, hears: bool) {
        self.hears.send_replace(hears);
    }

    pub(super) async fn send(&mut self, message: String) -> Result<(), String> {
        let sent = self.input.write_all(format!("{message}\n").as_bytes()).await;
        sent.map_err(|error| format!("the bridge does not read: {error}"))
    }
}
