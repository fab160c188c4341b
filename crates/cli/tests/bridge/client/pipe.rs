//! Standard input and output of the bridge: one message on a line.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::ChildStdin;

use super::{Heard, Heards, On};
use crate::bridge::Bridge;
use crate::message::Message;

/// The pipes of a bridge.
pub(super) struct Pipe(ChildStdin);

impl Pipe {
    pub(super) fn take(bridge: &mut Bridge, heards: Heards) -> Self {
        let (input, output) = bridge.pipes();
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let heard = Message::read(&line).map(|message| Heard { on: On::Pipe, message });
                if heards.send(heard).is_err() {
                    return;
                }
            }
        });
        Self(input)
    }

    pub(super) async fn send(&mut self, message: String) -> Result<(), String> {
        let sent = self.0.write_all(format!("{message}\n").as_bytes()).await;
        sent.map_err(|error| format!("the bridge does not read: {error}"))
    }
}
