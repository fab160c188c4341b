//! Resources and prompts of the demo server, with completion.

use std::sync::atomic::Ordering;

use tsugite::prelude::*;
use tsugite::server::CompletionRequest;

use super::Counter;

/// The number of calls of `touch`.
#[resource("demo://counter", mime_type = "text/plain")]
pub(super) async fn counter(State(counter): State<Counter>) -> String {
    counter.load(Ordering::Relaxed).to_string()
}

/// A fact about a city.
#[resource("demo://cities/{country}/{city}", name = "city", mime_type = "text/plain")]
pub(super) async fn city(
    #[arg(complete = ["Japan", "Norway"])] country: String,
    #[arg(complete = cities)] city: String,
) -> Option<String> {
    let known = known_cities(&country).contains(&city.as_str());
    known.then(|| format!("{city} lies in {country}."))
}

/// Asks for a review.
#[prompt]
pub(super) async fn review(
    /// The code to review.
    code: String,
    /// The programming language.
    #[arg(complete = ["perl", "python", "ruby", "rust"])]
    language: Option<String>,
) -> String {
    format!("Review this {}: {code}", language.unwrap_or_else(|| "code".to_owned()))
}

/// Completes the cities of the country that was chosen before.
async fn cities(request: CompletionRequest) -> Vec<String> {
    let known = known_cities(request.argument("country").unwrap_or_default()).iter();
    known.filter(|name| name.starts_with(&request.value)).map(|name| (*name).to_owned()).collect()
}

fn known_cities(country: &str) -> &'static [&'static str] {
    match country {
        "Japan" => &["Kyoto", "Nara", "Tokyo"],
        "Norway" => &["Bergen", "Oslo"],
        _ => &[],
    }
}
