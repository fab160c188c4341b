//! Clients that measure a server's process: each makes a burst of calls, some at a time, and checks every response.

pub(crate) mod cpu_pinning;
pub(crate) mod http_clients;
pub(crate) mod process;
pub(crate) mod stdio_client;

use std::time::{Duration, Instant};

use crate::BoxError;
use process::Process;

/// A client that makes calls, some at a time.
pub(crate) trait BurstClient {
    /// Drops idle connections, which the server may have closed.
    fn drop_idle(&mut self) {}

    /// Makes the calls, and returns how long each took.
    fn burst(&mut self, calls: usize, window: usize) -> Result<Vec<Duration>, BoxError>;
}

/// The cost of one burst.
#[derive(Debug, Clone)]
pub(crate) struct LoadSample {
    calls: usize,
    time: Duration,
    /// CPU time of the measured process.
    cpu: Duration,
    /// How long each call took, the shortest first.
    latencies: Vec<Duration>,
}

impl LoadSample {
    /// Makes the calls and measures them, with the CPU time of `process`.
    pub(crate) fn measure(
        client: &mut dyn BurstClient,
        process: &Process,
        calls: usize,
        window: usize,
    ) -> Result<Self, BoxError> {
        // Open the connections before measuring.
        client.drop_idle();
        client.burst(window, window)?;
        let (start, cpu) = (Instant::now(), process.cpu_time()?);
        let mut latencies = client.burst(calls, window)?;
        let (time, cpu) = (start.elapsed(), process.cpu_time()?.saturating_sub(cpu));
        latencies.sort();
        Ok(Self { calls, time, cpu, latencies })
    }

    /// Calls per second.
    pub(crate) fn rate(&self) -> f64 {
        self.calls as f64 / self.time.as_secs_f64()
    }

    /// Microseconds.
    pub(crate) fn cpu_per_call(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.calls as f64
    }

    /// A percentile of the latency, in microseconds.
    pub(crate) fn percentile(&self, hundredths: usize) -> f64 {
        percentile(&self.latencies, hundredths)
    }
}

/// A percentile of sorted times, in microseconds.
pub(crate) fn percentile(sorted: &[Duration], hundredths: usize) -> f64 {
    let place = sorted.len() * hundredths / 100;
    sorted.get(place).or(sorted.last()).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}
