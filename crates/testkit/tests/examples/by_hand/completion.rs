//! `completion`, by hand.

use serde::Deserialize;
use tsugite::prelude::*;
use tsugite::server::CompletionRequest;

async fn cities(typing: CompletionRequest) -> Vec<String> {
    let cities: &[&str] = match typing.argument("country") {
        Some("Japan") => &["Kyoto", "Nara", "Tokyo"],
        Some("Norway") => &["Bergen", "Oslo"],
        _ => &[],
    };
    cities.iter().filter(|city| city.starts_with(&typing.value)).map(|city| (*city).to_owned()).collect()
}

#[derive(Deserialize, JsonSchema)]
struct Journey {
    country: String,
    city: String,
}

pub fn server() -> Server {
    let journey = Prompt::new("journey")
        .description("Plans a journey.")
        .handler(|Args(Journey { country, city }): Args<Journey>| async move {
            format!("Plan three days in {city}, {country}.")
        })
        .complete("country", ["Japan", "Norway"])
        .complete("city", cities);
    Server::new("completion", "1.0.0").prompt(journey)
}
