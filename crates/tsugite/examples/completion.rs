//! Completion: suggests values for an argument while the user types.
//!
//! Run: `cargo run -p tsugite --example completion`

use tsugite::prelude::*;
use tsugite::server::CompletionRequest;

/// Completes the cities of the country that was chosen before.
async fn cities(request: CompletionRequest) -> Vec<String> {
    let cities: &[&str] = match request.argument("country") {
        Some("Japan") => &["Kyoto", "Nara", "Tokyo"],
        Some("Norway") => &["Bergen", "Oslo"],
        _ => &[],
    };
    cities.iter().filter(|city| city.starts_with(&request.value)).map(|city| (*city).to_owned()).collect()
}

/// Plans a journey.
#[prompt]
async fn journey(
    #[arg(complete = ["Japan", "Norway"])] country: String,
    #[arg(complete = cities)] city: String,
) -> String {
    format!("Plan three days in {city}, {country}.")
}

/// Builds the server.
pub fn server() -> Server {
    Server::new("completion", "1.0.0").prompt(journey)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    server().serve_stdio().await
}
