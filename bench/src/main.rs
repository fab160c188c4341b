//! Compares our client with that of rmcp and a bare one, against a server that does almost nothing.
//!
//! ```console
//! cargo run --release --manifest-path bench/Cargo.toml -- [options]
//!   --rounds N        bursts of each client per scenario; 7
//!   --calls N         calls of one burst; 4000
//!   --only A,B        of ours, rmcp, rmcp-pooled, hyper; all of them
//!   --instructions N  also counts instructions, with callgrind: those of 3N calls less those of N
//! ```
//!
//! With `server` it compares servers instead, with `fairness` the callers of one server, with `state` the stores of a server,
//! and with `bridge` the binary with other bridges: see the modules of these names.
//!
//! Each client is a process of its own with two workers, and so is the server: this program again, in another role. All
//! clients of a scenario run at the same time, and each round has one burst of every client, so that a disturbance
//! affects all of them. A figure is the median of the rounds, a ratio the median of the ratios of each round. CPU time
//! is that of the client's process, user and kernel. Every response is checked.

mod bare_hyper;
mod bare_pipes;
mod bare_server;
mod bridge;
mod fairness;
mod library_server;
mod load;
mod responses;
mod rmcp_client;
mod rmcp_server;
mod run;
mod server;
mod state;
mod stdio_proxy;
mod table;
mod tsugite_client;
mod worker;

#[cfg(feature = "allocations")]
#[path = "allocations_counted.rs"]
mod allocations;
#[cfg(not(feature = "allocations"))]
#[path = "allocations_disabled.rs"]
mod allocations;

use std::process::ExitCode;

/// Any error; it ends the program.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ended = match args[..] {
        ["serve", "http", delay] => bare_server::serve_http(delay),
        ["serve", "stdio", delay] => bare_server::serve_stdio(delay),
        ["serve", "library"] => library_server::serve_stdio(),
        ["serve", "library-http"] => library_server::serve_http(),
        ["serve", "state", place] => library_server::serve_with_state(place),
        ["serve", "rmcp"] => rmcp_server::serve_stdio(),
        ["serve", "rmcp-http", era] => rmcp_server::serve_http(era),
        ["copy", ref server @ ..] => stdio_proxy::run_proxy(server),
        ["client", who, era, way, window] => worker::run(who, era, way, window),
        ["server", ref options @ ..] => server::run(options),
        ["fairness", ref options @ ..] => fairness::run(options),
        ["state", ref options @ ..] => state::run(options),
        ["bridge", ref options @ ..] => bridge::run(options),
        _ => run::run(&args),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("error: {failed}");
            ExitCode::FAILURE
        }
    }
}

/// The era of a protocol revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    /// 2025-11-25, with `initialize`.
    Handshake,
    /// 2026-07-28, where each request stands alone.
    Stateless,
}

impl Era {
    const ALL: [Era; 2] = [Era::Handshake, Era::Stateless];

    fn revision(self) -> &'static str {
        match self {
            Era::Handshake => "2025-11-25",
            Era::Stateless => "2026-07-28",
        }
    }

    fn parse(text: &str) -> Result<Self, BoxError> {
        Self::ALL.into_iter().find(|era| era.revision() == text).ok_or_else(|| "an era is a revision".into())
    }
}
