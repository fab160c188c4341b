//! The client over pipes: it reads all available output and writes the next calls in one go.

use std::io::{Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use super::BurstClient;
use crate::BoxError;
use crate::Era;
use crate::bare_hyper::{INITIALIZE, INITIALIZED, read_response, write_call};
use crate::worker::call_text;

pub(crate) struct StdioClient {
    stdin: ChildStdin,
    stdout: ChildStdout,
    input: Vec<u8>,
    chunk: Vec<u8>,
}

impl StdioClient {
    /// Initializes a session.
    pub(crate) fn open(stdin: ChildStdin, stdout: ChildStdout) -> Result<Self, BoxError> {
        let mut lines = Self { stdin, stdout, input: Vec::new(), chunk: vec![0; 64 << 10] };
        lines.stdin.write_all(format!("{INITIALIZE}\n").as_bytes())?;
        while memchr::memchr(b'\n', &lines.input).is_none() {
            lines.fill_buffer()?;
        }
        if memchr::memmem::find(&lines.input, b"\"result\"").is_none() {
            let said = String::from_utf8_lossy(&lines.input).into_owned();
            return Err(format!("the handshake was refused: {said}").into());
        }
        lines.input.clear();
        lines.stdin.write_all(format!("{INITIALIZED}\n").as_bytes())?;
        Ok(lines)
    }

    fn fill_buffer(&mut self) -> Result<(), BoxError> {
        match self.stdout.read(&mut self.chunk)? {
            0 => Err("it ended".into()),
            read => {
                self.input.extend_from_slice(&self.chunk[..read]);
                Ok(())
            }
        }
    }
}

impl BurstClient for StdioClient {
    fn burst(&mut self, calls: usize, window: usize) -> Result<Vec<Duration>, BoxError> {
        let mut each = Vec::with_capacity(calls);
        let mut since = Vec::with_capacity(calls);
        let mut out = Vec::new();
        while each.len() < calls {
            out.clear();
            let now = Instant::now();
            while since.len() < calls && since.len() - each.len() < window {
                write_call(&mut out, since.len() as u64, &call_text(since.len()), Era::Handshake)?;
                out.push(b'\n');
                since.push(Some(now));
            }
            self.stdin.write_all(&out)?;
            self.fill_buffer()?;
            let now = Instant::now();
            let mut start = 0;
            while let Some(length) = memchr::memchr(b'\n', &self.input[start..]) {
                let line = &self.input[start..start + length];
                start += length + 1;
                let (id, echoed) = read_response(line)?;
                let id = usize::try_from(id)?;
                let asked = since.get_mut(id).and_then(Option::take);
                let asked = asked.ok_or_else(|| format!("call {id} was answered unasked"))?;
                if echoed != call_text(id) {
                    return Err(format!("{echoed:?} came back for call {id}").into());
                }
                each.push(now - asked);
            }
            self.input.drain(..start);
        }
        Ok(each)
    }
}
