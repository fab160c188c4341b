//! Resources and prompts of the demo server, with completion.

use std::sync::atomic::Ordering;

use tsugite::prelude::*;
use tsugite::server::CompletionRequest;

use super::Counter;

/// How often `touch` was called.
#[resource("demo://counter", mime_type = "text/plain")]
pub(super) async fn counter(State(counter): State<Counter>) -> String {
    counter.load(Ordering::Relaxed).to_string()
}

/// What is known of a city.
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
    /// What to look at.
    code: String,
    /// What it is written in.
    #[arg(complete = ["perl", "python", "ruby", "rust"])]
    language: Option<String>,
) -> String {
    format!("Review this {}: {code}", language.unwrap_or_else(|| "code".to_owned()))
}

/// The cities of the country that was chosen already.
async fn cities(typing: CompletionRequest) -> Vec<String> {
    let known = known_cities(typing.argument("country").unwrap_or_default()).iter();
    known.filter(|name| name.starts_with(&typing.value)).map(|name| (*name).to_owned()).collect()
}

fn known_cities(country: &str) -> &'static [&'static str] {
    match country {
        "Japan" => &["Kyoto", "Nara", "Tokyo"],
        "Norway" => &["Bergen", "Oslo"],
        _ => &[],
    }
}
