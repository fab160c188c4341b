//! `impl` blocks that cannot be handlers.

#![allow(unused)]

use tsugite::prelude::*;

struct Calculator;

#[handlers]
impl Calculator {
    #[tool]
    async fn add(&mut self, a: i64) -> i64 {
        a
    }

    #[tool]
    async fn take(self) {}

    #[tool]
    #[prompt]
    async fn both(&self) -> String {
        String::new()
    }

    #[tool(nmae = "c")]
    async fn unknown(&self) {}
}

struct Nothing;

#[handlers]
impl Nothing {
    fn helper(&self) {}
}

#[handlers]
impl Clone for Nothing {
    fn clone(&self) -> Self {
        Nothing
    }
}

#[handlers]
struct NoBlock;

fn main() {
    let _ = Server::new("test", "1").handlers(Calculator);
    Nothing.helper();
}
