//! `mounting`, by hand.

use std::sync::Arc;

use serde::Deserialize;
use tsugite::prelude::*;

struct Weather {
    mood: &'static str,
}

#[derive(Deserialize, JsonSchema)]
struct Forecast {
    city: String,
}

pub fn server() -> Server {
    let weather = Arc::new(Weather { mood: "rain" });
    let forecast = Tool::new("forecast").description("Forecasts the weather.").read_only(true).handler(
        move |Args(Forecast { city }): Args<Forecast>| {
            let weather = weather.clone();
            async move { format!("{} in {city}", weather.mood) }
        },
    );
    let stations = Resource::new("stations://all")
        .name("stations")
        .description("Lists the weather stations.")
        .handler(|| async { "Bergen, Kyoto" });
    let heating_off = Tool::new("heating_off")
        .description("Switches the heating off.")
        .destructive(true)
        .tag("admin")
        .handler(|| async { "it gets cold" });
    Server::new("home", "1.0.0")
        .mount("weather", Server::new("weather", "1.0.0").tool(forecast).resource(stations))
        .mount("house", Server::new("house", "1.0.0").tool(heating_off))
        .visible(|who, item| !item.has_tag("admin") || who.is_some_and(|who| who.has_scope("admin")))
}
