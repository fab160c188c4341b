//! Values that cannot be registered.

use tsugite::prelude::*;

async fn plain(n: i64) -> i64 {
    n
}

#[prompt]
async fn plan(topic: String) -> String {
    topic
}

#[tool]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

fn main() {
    let server = Server::new("test", "1.0.0");
    let server = server.tool(plain);
    let server = server.tool(plan);
    let server = server.prompt(add);
    let server = server.resource(add);
    let _ = server.add(plain);
}
