//! The server that the official conformance suite tests: `conformance-server --listen 127.0.0.1:PORT`, and with
//! `--redis URL` one of several replicas.
//!
//! Names, texts and schemas are the suite's. Skills are not here: they are an extension.

mod input_requests;
mod prompts;
mod resources;
mod tasks;
mod tools;

use std::process::ExitCode;

use tsugite::Server;
use tsugite_testkit::replicas::ServerArgs;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match ServerArgs::from_env() {
        Ok(args) => args.serve(server()).await,
        Err(usage) => {
            eprintln!("conformance-server: {usage}");
            ExitCode::from(2)
        }
    }
}

/// The suite calls the first tool without arguments, and reads the first resource.
fn server() -> Server {
    let server = Server::new("conformance-server", "1.0.0");
    let server = input_requests::register(tools::register(server));
    tasks::register(prompts::register(resources::register(server)))
}

/// A red dot: PNG in base64.
const RED_DOT_PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// A moment of silence: WAV in base64.
const SILENCE_WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA==";
