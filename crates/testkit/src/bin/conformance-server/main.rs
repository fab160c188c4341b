//! The server that the official conformance suite tests: `conformance-server --listen 127.0.0.1:PORT`.
//!
//! Names, texts and schemas are the suite's. Tasks and skills are not here: they are extensions.

mod input_requests;
mod prompts;
mod resources;
mod tools;

use std::env;
use std::process::ExitCode;

use tsugite::Server;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ["--listen", address] = *args else {
        eprintln!("usage: conformance-server --listen 127.0.0.1:PORT");
        return ExitCode::from(2);
    };
    match serve(address).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(address: &str) -> tsugite::Result<()> {
    server().serve_http(address).await
}

/// The suite calls the first tool without arguments, and reads the first resource.
fn server() -> Server {
    let server = Server::new("conformance-server", "1.0.0");
    prompts::register(resources::register(input_requests::register(tools::register(server))))
}

/// A red dot: PNG in base64.
const RED_DOT_PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// A moment of silence: WAV in base64.
const SILENCE_WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA==";
