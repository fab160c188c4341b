//! One server made of several, with something only some may see.
//!
//! Run: `cargo run -p tsugite --example mounting`

use tsugite::prelude::*;

struct Weather {
    mood: &'static str,
}

#[handlers]
impl Weather {
    /// What the weather will be.
    #[tool(read_only)]
    async fn forecast(&self, city: String) -> String {
        format!("{} in {city}", self.mood)
    }

    /// Where there is a station.
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

/// The server.
pub fn server() -> Server {
    let weather = Server::new("weather", "1.0.0").handlers(Weather { mood: "rain" });
    let house = Server::new("house", "1.0.0").tool(heating_off);
    Server::new("home", "1.0.0")
        .mount("weather", weather)
        .mount("house", house)
        .visible(|who, item| !item.has_tag("admin") || who.is_some_and(|who| who.has_scope("admin")))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    server().serve_stdio().await
}
