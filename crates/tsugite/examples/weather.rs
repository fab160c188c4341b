//! The server that tutorials about MCP talk to: the weather, a package, a file, a review and completion.
//!
//! Run: `cargo run -p tsugite --example weather`, and paste the messages of a tutorial.

use serde::Deserialize;
use tsugite::prelude::*;

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Units {
    #[default]
    Metric,
    Imperial,
    Kelvin,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Degrees {
    #[default]
    Celsius,
    Fahrenheit,
}

/// Get current weather for a location
#[tool(read_only)]
async fn get_weather(
    /// City name or coordinates
    location: String,
    #[arg(default)] units: Degrees,
    cx: Context,
) -> String {
    for (percent, step) in [
        (33, "Connecting to weather API..."),
        (66, "Fetching weather data..."),
        (100, "Processing results..."),
    ] {
        cx.progress(percent).total(100).message(step).await;
    }
    let temperature = match units {
        Degrees::Celsius => "20°C",
        Degrees::Fahrenheit => "68°F",
    };
    format!(
        "Current weather in {location}:\n- Temperature: {temperature}\n- Conditions: Partly cloudy\n\
         - Wind: 8 mph from west\n- Humidity: 65%"
    )
}

/// Get current weather information for any location worldwide
#[tool(title = "Weather Information", read_only)]
async fn weather_current(
    /// City name, address, or coordinates (latitude,longitude)
    location: String,
    /// Temperature units to use in response
    #[arg(default)]
    units: Units,
) -> String {
    let temperature = match units {
        Units::Metric => "20°C",
        Units::Imperial => "68°F",
        Units::Kelvin => "293 K",
    };
    format!(
        "Current weather in {location}: {temperature}, partly cloudy with light winds from the west at 8 mph. \
         Humidity: 65%"
    )
}

/// Perform mathematical calculations: one operation on two numbers
#[tool(title = "Calculator", read_only)]
async fn calculator_arithmetic(
    /// Mathematical expression to evaluate (e.g., '2 + 3')
    expression: String,
) -> Result<f64, HandlerError> {
    let unfit = || HandlerError::new("write two numbers with + - * or / between them, as in '2 + 3'");
    let mut words = expression.split_whitespace();
    let (Some(left), Some(sign), Some(right), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(unfit());
    };
    let (left, right): (f64, f64) = (left.parse().map_err(|_| unfit())?, right.parse().map_err(|_| unfit())?);
    match sign {
        "+" => Ok(left + right),
        "-" => Ok(left - right),
        "*" => Ok(left * right),
        "/" => Ok(left / right),
        _ => Err(unfit()),
    }
}

/// Describes a package of the npm registry
#[tool(name = "getNpmPackageInfo", read_only)]
async fn npm_package_info(#[arg(name = "packageName")] package_name: String) -> String {
    let description = match package_name.as_str() {
        "zod" => "TypeScript-first schema validation...",
        _ => "unknown",
    };
    format!("Package: {package_name}\nDescription: {description}\nLicense: MIT")
}

/// Reads a ticket
#[tool(name = "getTicket", read_only)]
async fn ticket(id: String) -> String {
    format!("Ticket {id}: open")
}

/// Asks the LLM to analyze code quality and suggest improvements
#[prompt(title = "Request Code Review")]
async fn code_review(
    /// The code to review
    code: String,
    /// The language of the code
    #[arg(complete = ["python", "pytorch", "pyside", "rust", "typescript"])]
    language: Option<String>,
) -> String {
    format!("Please review this {} code:\n{code}", language.as_deref().unwrap_or("Python"))
}

/// Builds the server.
pub fn server() -> Server {
    let main =
        Resource::text("file:///project/src/main.rs", "fn main() {\n    println!(\"Hello world!\");\n}")
            .name("main.rs")
            .title("Rust Software Application Main File")
            .description("Primary application entry point")
            .mime_type("text/x-rust");
    Server::new("WeatherMCPServer", "1.0.0")
        .tool(get_weather)
        .tool(weather_current)
        .tool(calculator_arithmetic)
        .tool(npm_package_info)
        .tool(ticket)
        .resource(main)
        .prompt(code_review)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    server().serve_stdio().await
}
