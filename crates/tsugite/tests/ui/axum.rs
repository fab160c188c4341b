//! axum's `State` where a handler takes ours: an explicit import takes precedence over the prelude.

#![allow(unused)]

use axum::extract::State;
use tsugite::prelude::*;

#[derive(Clone)]
struct Db;

#[tool]
async fn with_macro(State(db): State<Db>) {}

async fn plain(State(db): State<Db>) {}

fn main() {
    let tool = Tool::new("by hand").handler(plain);
}
