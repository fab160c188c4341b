//! The server for benchmarks against other implementations: `bench_server stdio` or `bench_server http PORT MODE`. A
//! number after that adds as many tools, which should cost nothing. The mode `protected` needs a token of 800 bytes.

use serde::{Deserialize, Serialize};
use tsugite::prelude::*;
use tsugite::transport::http::StaticToken;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

fn server(more: usize) -> Server {
    let echo = Tool::new("echo")
        .description("Returns the text.")
        .handler(|Args(echo): Args<Echo>| async move { echo.text });
    let add = Tool::new("add")
        .description("Adds two numbers.")
        .handler(|Args(add): Args<Add>| async move { Json(Sum { sum: add.a + add.b }) });
    let big = Tool::new("big")
        .description("Returns 100 KiB of text.")
        .handler(|| async { "0123456789abcdef".repeat(6_400) });
    let progress = Tool::new("progress").description("Reports progress.").handler(|cx: Context| async move {
        for step in 1..=100 {
            cx.progress(step).total(100).await;
        }
        "done"
    });
    let server = Server::new("bench", "1.0.0").tool(echo).tool(add).tool(big).tool(progress);
    (0..more).fold(server, |server, number| {
        server.tool(
            Tool::new(format!("more_{number}")).description("One of many.").handler(|| async { "more" }),
        )
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (args, more) = match *args {
        [ref args @ .., number] if args.len() == 3 => (args, number.parse().ok()),
        ref args => (args, Some(0)),
    };
    match (args, more) {
        (["stdio"], Some(more)) => server(more).serve_stdio().await,
        // One endpoint serves both eras, so the mode changes nothing.
        (["http", port, "session" | "stateless"], Some(more)) => {
            server(more).serve_http(format!("127.0.0.1:{port}")).await
        }
        (["http", port, "protected"], Some(more)) => {
            let token = StaticToken::new("t".repeat(800), Principal::new("bench"));
            server(more).authorize(token).serve_http(format!("127.0.0.1:{port}")).await
        }
        _ => {
            eprintln!("usage: bench_server stdio | http PORT session|stateless|protected [TOOLS]");
            std::process::exit(1)
        }
    }
}
