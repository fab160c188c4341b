//! `--trace FILE`: records every message on the wire in both directions, one line of JSON each.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use tsugite::client::Direction;
use tsugite::jsonrpc::RawJson;

use crate::error::{CliError, Result};
use crate::file_mode::{make_private, open_private};

/// The trace file, and when it was created.
pub(crate) struct Trace {
    file: Mutex<File>,
    started: Instant,
}

/// One message. Text that is not valid JSON is recorded in `text`.
#[derive(Serialize)]
struct TraceRecord<'a> {
    ms: f64,
    direction: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

impl Trace {
    /// Creates or truncates the file, and takes it away from everyone but its owner.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = create_private_file(path)
            .map_err(|error| CliError::usage(format!("--trace: cannot write {}: {error}", path.display())))?;
        Ok(Self { file: Mutex::new(file), started: Instant::now() })
    }

    /// Records a message.
    pub(crate) fn write(&self, direction: Direction, text: &str) {
        let message = RawJson::parse(text).ok();
        let line = TraceRecord {
            ms: (self.started.elapsed().as_secs_f64() * 1e6).round() / 1e3,
            direction: match direction {
                Direction::Sent => "sent",
                _ => "received",
            },
            text: message.is_none().then_some(text),
            message,
        };
        let Ok(mut line) = serde_json::to_vec(&line) else { return };
        // A message may contain newlines between its tokens.
        line.retain(|byte| *byte != b'\n' && *byte != b'\r');
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(&line) {
            tracing::warn!(%error, "cannot write to the trace file");
        }
    }
}

/// Messages may hold secrets, so an existing file is made private before anything is written to it.
fn create_private_file(path: &Path) -> io::Result<File> {
    let file = open_private(OpenOptions::new().write(true).create(true).truncate(false)).open(path)?;
    // Not a terminal or another device, which have no contents to protect.
    if file.metadata()?.is_file() {
        make_private(&file)?;
        file.set_len(0)?;
    }
    Ok(file)
}
