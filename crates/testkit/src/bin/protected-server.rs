//! A protected server that other projects call with tokens of theirs: `protected-server --issuer URL`.
//!
//! With `--introspect ID SECRET` the issuer is asked about each token, and tokens that are bound to a key need a proof. It
//! says `ready PORT` and ends with its standard input.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use tsugite::prelude::*;
use tsugite_auth::ClientCredentials;
use tsugite_auth::resource::{Dpop, Introspection, Jwt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = match args.as_slice() {
        // The keys are fetched for each unknown one, so that a rotation is seen at once.
        ["--issuer", issuer] => {
            server().authorize(Dpop::new(Jwt::issuer(*issuer).refresh_interval(Duration::ZERO)))
        }
        ["--issuer", issuer, "--introspect", id, secret] => {
            let client = ClientCredentials::secret(*id, *secret);
            server().authorize(Dpop::new(Introspection::new(*issuer, client).cache_ttl(Duration::ZERO)))
        }
        _ => {
            eprintln!("usage: protected-server --issuer URL [--introspect ID SECRET]");
            return ExitCode::from(2);
        }
    };
    match serve(&server).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The tool names the caller as the token does.
fn server() -> Server {
    Server::new("protected", "1.0.0").tool(Tool::new("whoami").description("Names the caller").handler(
        |who: Principal| async move {
            format!("{} {} {}", who.subject(), who.client_id(), who.scopes().join(","))
        },
    ))
}

async fn serve(server: &Server) -> tsugite::Result<()> {
    let listener = server.bind_http("127.0.0.1:0").await?;
    let port = listener.local_addr().port();
    let (ended, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = ended.send(());
    });
    let mut output = std::io::stdout();
    let _ = writeln!(output, "ready {port}").and_then(|()| output.flush());
    listener.serve_until(async move { drop(end.await) }).await
}
