//! The smallest possible proxy between a client and a server over pipes: it copies bytes.

use std::io::{Read, Write, stdin, stdout};
use std::process::{Command, Stdio};

use crate::BoxError;

/// Starts a server and copies its input and output until it ends.
pub(crate) fn run_proxy(server: &[&str]) -> Result<(), BoxError> {
    let [program, args @ ..] = server else { return Err("no server is named".into()) };
    let mut child = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let pipes = (child.stdin.take(), child.stdout.take());
    let (Some(to), Some(from)) = pipes else { return Err("the server has no pipes".into()) };
    // The end of our input ends that of the server, which then exits.
    std::thread::spawn(move || copy(stdin(), to));
    copy(from, stdout())?;
    child.wait()?;
    Ok(())
}

fn copy(mut from: impl Read, mut to: impl Write) -> std::io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        match from.read(&mut bytes)? {
            0 => return Ok(()),
            read => to.write_all(&bytes[..read]).and_then(|()| to.flush())?,
        }
    }
}
