//! One client in a process of its own: for each number it reads, it makes that many calls and prints their cost.

use std::future::Future;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Instant;

use nix::time::{ClockId, clock_gettime};

use crate::{BoxError, Era, allocations, bare_hyper, bare_pipes, rmcp_client, tsugite_client};

/// A client that makes one call after the other.
pub(crate) trait EchoClient: Send + 'static {
    /// Calls the tool `echo` and returns its text.
    fn echo(&mut self, text: String) -> impl Future<Output = Result<String, BoxError>> + Send;
}

/// Runs the client `who` in `era`, with `window` calls at a time.
///
/// `way` is a URL, or a delay in milliseconds for a child.
pub(crate) fn run(who: &str, era: &str, way: &str, window: &str) -> Result<(), BoxError> {
    let (era, window) = (Era::parse(era)?, window.parse()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match (who, way.starts_with("http")) {
            ("ours", true) => {
                run_bursts(ParallelClients::from_client(&tsugite_client::over_http(way, era).await?, window))
                    .await
            }
            ("ours", false) => {
                run_bursts(ParallelClients::from_client(&tsugite_client::over_stdio(way, era).await?, window))
                    .await
            }
            ("rmcp", true) => {
                run_bursts(ParallelClients::from_client(&rmcp_client::over_http(way, era).await?, window))
                    .await
            }
            ("rmcp-pooled", true) => {
                run_bursts(ParallelClients::from_client(
                    &rmcp_client::over_pooled_http(way, era).await?,
                    window,
                ))
                .await
            }
            ("rmcp", false) => {
                run_bursts(ParallelClients::from_client(&rmcp_client::over_stdio(way, era).await?, window))
                    .await
            }
            ("hyper", true) => {
                run_bursts(ParallelClients(bare_hyper::connect(way, era, window).await?)).await
            }
            ("hyper", false) => run_bursts(bare_pipes::BarePipeClient::start(way, era, window).await?).await,
            _ => Err(format!("there is no client {who}").into()),
        }
    })
}

/// A client that makes many calls, some at a time.
pub(crate) trait BurstRunner: Sized + Send + 'static {
    /// Makes the calls, and returns the client for the next burst.
    fn burst(self, calls: usize) -> impl Future<Output = Result<Self, BoxError>> + Send;
}

async fn run_bursts(mut client: impl BurstRunner) -> Result<(), BoxError> {
    println!("ready");
    for line in stdin().lock().lines() {
        let calls = line?.parse()?;
        let (start, cpu, counted) = (Instant::now(), cpu_time()?, allocations::AllocationCounter::start());
        // In a task, since this thread is not one of the workers.
        client = tokio::spawn(client.burst(calls)).await??;
        let (time, cpu) = (start.elapsed().as_nanos(), cpu_time()? - cpu);
        println!("{time} {cpu} {}", counted.finish());
        stdout().flush()?;
    }
    Ok(())
}

/// The CPU time of this process, user and kernel, in nanoseconds.
fn cpu_time() -> Result<i64, BoxError> {
    let used = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    Ok(used.tv_sec() * 1_000_000_000 + used.tv_nsec())
}

/// Clients that call concurrently, each in a task of its own.
struct ParallelClients<C>(Vec<C>);

impl<C: EchoClient + Clone> ParallelClients<C> {
    /// Uses clones of one client.
    fn from_client(client: &C, window: usize) -> Self {
        Self(vec![client.clone(); window])
    }
}

impl<C: EchoClient> BurstRunner for ParallelClients<C> {
    async fn burst(self, calls: usize) -> Result<Self, BoxError> {
        let window = self.0.len();
        let tasks: Vec<_> = self
            .0
            .into_iter()
            .enumerate()
            .map(|(place, mut caller)| {
                tokio::spawn(async move {
                    for number in (place..calls).step_by(window) {
                        let text = call_text(number);
                        let echoed = caller.echo(text.clone()).await?;
                        if echoed != text {
                            return Err(format!("{echoed:?} came back for {text:?}").into());
                        }
                    }
                    Ok::<_, BoxError>(caller)
                })
            })
            .collect();
        let mut callers = Vec::with_capacity(window);
        for task in tasks {
            callers.push(task.await??);
        }
        Ok(Self(callers))
    }
}

/// The text of a call. It differs for each call, so that a swapped response is noticed.
pub(crate) fn call_text(number: usize) -> String {
    format!("call number {number} of a burst")
}
