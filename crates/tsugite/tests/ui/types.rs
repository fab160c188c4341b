//! Types that are neither arguments nor parts of a call, or that cannot be returned.

#![allow(unused)]

use tsugite::prelude::*;

struct Opaque;

#[tool]
async fn takes(it: Opaque) {}

#[tool]
async fn takes_with_default(#[arg(default = Opaque)] it: Opaque) {}

#[tool]
async fn named_part(#[arg(name = "context")] cx: Context) {}

#[tool]
async fn gives() -> Opaque {
    Opaque
}

#[tool]
async fn gives_or_fails() -> Result<Opaque, HandlerError> {
    Ok(Opaque)
}

#[tool]
async fn fails_with() -> Result<i64, Opaque> {
    Ok(1)
}

fn main() {}
