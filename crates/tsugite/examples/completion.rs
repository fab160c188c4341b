//! Completion: what could stand in an argument, while a person is typing it.
//!
//! Run: `cargo run -p tsugite --example completion`

use tsugite::prelude::*;
use tsugite::server::CompletionRequest;

/// The cities of the country that was chosen already.
async fn cities(typing: CompletionRequest) -> Vec<String> {
    let cities: &[&str] = match typing.argument("country") {
        Some("Japan") => &["Kyoto", "Nara", "Tokyo"],
        Some("Norway") => &["Bergen", "Oslo"],
        _ => &[],
    };
    cities.iter().filter(|city| city.starts_with(&typing.value)).map(|city| (*city).to_owned()).collect()
}

/// Plans a journey.
#[prompt]
async fn journey(
    #[arg(complete = ["Japan", "Norway"])] country: String,
    #[arg(complete = cities)] city: String,
) -> String {
    format!("Plan three days in {city}, {country}.")
}

/// The server.
pub fn server() -> Server {
    Server::new("completion", "1.0.0").prompt(journey)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    server().serve_stdio().await
}
