//! Measures the memory of an idle session.

use std::process::Command;

use crate::BoxError;
use crate::load::BurstClient;
use crate::load::cpu_pinning::CpuPinning;
use crate::load::http_clients::StreamableHttpClient;
use crate::load::process::Process;

/// Opens idle sessions on one connection, and returns the resident memory that each of them adds, in bytes.
pub(super) fn per_session(command: Command, sessions: usize, pinning: &CpuPinning) -> Result<f64, BoxError> {
    pinning.pin_servers()?;
    let (process, url, _stdin) = Process::start_listening(command)?;
    pinning.pin_client()?;
    let mut client = StreamableHttpClient::open(&url)?;
    client.burst(1, 1)?;
    let before = process.memory()?;
    client.open_sessions(sessions)?;
    Ok(process.memory()?.saturating_sub(before) as f64 / sessions as f64)
}
