//! One server made of several, with a tool that only some users can see.
//!
//! Run: `cargo run -p tsugite --example mounting`

use tsugite::prelude::*;

struct Weather {
    mood: &'static str,
}

#[handlers]
impl Weather {
    /// Forecasts the weather.
    #[tool(read_only)]
    async fn forecast(&self, city: String) -> String {
        format!("{} in {city}", self.mood)
    }

    /// Lists the weather stations.
    #[resource("stations://all")]
    async fn stations(&self) -> &'static str {
        "Bergen, Kyoto"
    }
}

/// Switches the heating off.
#[tool(destructive, tags = ["admin"])]
async fn heating_off() -> &'static str {
    "it gets cold"
}

/// Builds the server.
pub fn server() -> Server {
    let weather = Server::new("weather", "1.0.0").handlers(Weather { mood: "rain" });
    let house = Server::new("house", "1.0.0").tool(heating_off);
    Server::new("home", "1.0.0").mount("weather", weather).mount("house", house).visible(|principal, item| {
        !item.has_tag("admin") || principal.is_some_and(|principal| principal.has_scope("admin"))
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    server().serve_stdio().await
}
