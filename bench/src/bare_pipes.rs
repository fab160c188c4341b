//! The bare client over pipes: it reads all available output and writes the next calls in one go.

use std::process::Stdio;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::bare_hyper::{INITIALIZE, INITIALIZED, read_response, write_call};
use crate::worker::{BurstRunner, call_text};
use crate::{BoxError, Era};

pub(crate) struct BarePipeClient {
    stdin: ChildStdin,
    stdout: ChildStdout,
    input: Vec<u8>,
    era: Era,
    window: usize,
    _child: Child,
}

impl BarePipeClient {
    pub(crate) async fn start(delay: &str, era: Era, window: usize) -> Result<Self, BoxError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", "stdio", delay]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let stdin = child.stdin.take().ok_or("no pipe to the child")?;
        let stdout = child.stdout.take().ok_or("no pipe from the child")?;
        let mut pipes = Self { stdin, stdout, input: Vec::new(), era, window, _child: child };
        if era == Era::Handshake {
            pipes.stdin.write_all(format!("{INITIALIZE}\n{INITIALIZED}\n").as_bytes()).await?;
            while pipes.input.last() != Some(&b'\n') {
                pipes.read().await?;
            }
            pipes.input.clear();
        }
        Ok(pipes)
    }

    async fn read(&mut self) -> Result<(), BoxError> {
        match self.stdout.read_buf(&mut self.input).await? {
            0 => Err("the child is gone".into()),
            _ => Ok(()),
        }
    }
}

impl BurstRunner for BarePipeClient {
    async fn burst(mut self, calls: usize) -> Result<Self, BoxError> {
        let (mut asked, mut answered) = (0, 0);
        let mut out = Vec::new();
        while answered < calls {
            out.clear();
            while asked < calls && asked - answered < self.window {
                write_call(&mut out, asked as u64, &call_text(asked), self.era)?;
                out.push(b'\n');
                asked += 1;
            }
            self.stdin.write_all(&out).await?;
            self.read().await?;
            let mut start = 0;
            while let Some(length) = memchr::memchr(b'\n', &self.input[start..]) {
                let (id, echoed) = read_response(&self.input[start..start + length])?;
                if echoed != call_text(usize::try_from(id)?) {
                    return Err(format!("{echoed:?} came back for call {id}").into());
                }
                answered += 1;
                start += length + 1;
            }
            self.input.drain(..start);
        }
        Ok(self)
    }
}
