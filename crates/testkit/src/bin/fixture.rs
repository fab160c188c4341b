//! A fixture server on stdio. `fixture --server NAME` serves one of those that transcripts talk to.
//!
//! `fixture 50` serves the basic one with a shutdown grace of 50 milliseconds, and `fixture 50 soon` adds a tool that
//! changes the list of tools after its response. `fixture --principal ann` has a caller. `fixture --http` serves at a free
//! port, which it prints; `fixture --http 50` does so with that grace.

use std::time::Duration;

use tsugite::prelude::*;
use tsugite::server::ListKind;
use tsugite_testkit::fixture;

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let server = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--server", name] => fixture::by_name(name).unwrap_or_else(|error| {
            eprintln!("{error}");
            std::process::exit(2)
        }),
        ["--principal", name] => fixture::server().stdio_principal(Principal::new(name)).tool(who()),
        ["--http", ref grace @ ..] => {
            let server = match grace {
                [grace, ..] => fixture::server().shutdown_grace(milliseconds(grace)),
                [] => fixture::server(),
            };
            let listener = server.bind_http("127.0.0.1:0").await?;
            println!("{}", listener.local_addr());
            return listener.serve().await;
        }
        [grace] => fixture::server().shutdown_grace(milliseconds(grace)),
        [grace, _] => fixture::server().shutdown_grace(milliseconds(grace)).tool(soon()),
        _ => fixture::server(),
    };
    server.serve_stdio().await
}

fn milliseconds(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap_or_default())
}

fn soon() -> Tool {
    Tool::new("soon").description("Disables itself.").handler(|cx: Context| async move {
        let server = cx.server().clone();
        tokio::spawn(async move { server.disable(ListKind::Tool, "soon") });
        "soon"
    })
}

fn who() -> Tool {
    Tool::new("who")
        .description("Names the caller.")
        .handler(|who: Principal| async move { who.subject().to_owned() })
}
