//! Resources without a URI, and template variables without a parameter.

#![allow(unused)]

use tsugite::prelude::*;

#[resource]
async fn nowhere() -> String {
    String::new()
}

#[resource(name = "somewhere")]
async fn named() -> String {
    String::new()
}

#[resource("notes://{owner}/{id}")]
async fn note(owner: String) -> String {
    owner
}

fn main() {
    let _ = Server::new("test", "1").resource(nowhere).resource(named).resource(note);
}
