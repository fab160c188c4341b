//! One client in a process of its own: for each line with a number it makes that many calls and says what they cost.

use std::future::Future;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Instant;

use nix::time::{ClockId, clock_gettime};

use crate::{BoxError, Era, allocations, bare_hyper, bare_pipes, rmcp_client, tsugite_client};

/// Somebody who can make one call after the other.
pub(crate) trait EchoClient: Send + 'static {
    /// Has the text echoed.
    fn echo(&mut self, text: String) -> impl Future<Output = Result<String, BoxError>> + Send;
}

/// `who` speaks `era` to `way`, which is a URL, or a delay in milliseconds for a child; `window` calls at a time.
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

/// Somebody who can make many calls, some at a time.
pub(crate) trait BurstRunner: Sized + Send + 'static {
    /// Makes them, and is then there for more.
    fn burst(self, calls: usize) -> impl Future<Output = Result<Self, BoxError>> + Send;
}

async fn run_bursts(mut client: impl BurstRunner) -> Result<(), BoxError> {
    println!("ready");
    for line in stdin().lock().lines() {
        let calls = line?.parse()?;
        let (start, cpu, counted) = (Instant::now(), cpu_time()?, allocations::AllocationCounter::start());
        // In a task, since this thread is none of the workers.
        client = tokio::spawn(client.burst(calls)).await??;
        let (time, cpu) = (start.elapsed().as_nanos(), cpu_time()? - cpu);
        println!("{time} {cpu} {}", counted.finish());
        stdout().flush()?;
    }
    Ok(())
}

/// What this process has used, user and kernel, in nanoseconds.
fn cpu_time() -> Result<i64, BoxError> {
    let used = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    Ok(used.tv_sec() * 1_000_000_000 + used.tv_nsec())
}

/// Callers side by side, each in a task of its own.
struct ParallelClients<C>(Vec<C>);

impl<C: EchoClient + Clone> ParallelClients<C> {
    /// One client, called from many places.
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

/// What is said in a call: no two alike, so that no answer can be mistaken for another.
pub(crate) fn call_text(number: usize) -> String {
    format!("call number {number} of a burst")
}
