//! Functions that cannot be tools.

#![allow(unused)]

use tsugite::prelude::*;

#[tool]
async fn generic<T: ToString>(text: String) -> String {
    text
}

#[tool]
async fn takes_impl(text: impl ToString) -> String {
    String::new()
}

#[tool]
async fn gives_impl() -> impl ToString {
    "text"
}

#[tool]
async fn borrows(text: &str) -> String {
    text.to_owned()
}

#[tool]
const fn constant() -> i64 {
    1
}

#[tool]
unsafe fn not_safe() -> i64 {
    1
}

#[tool]
extern "C" fn foreign() -> i64 {
    1
}

#[tool]
async fn many(
    a: i64, b: i64, c: i64, d: i64, e: i64, f: i64, g: i64, h: i64,
    i: i64, j: i64, k: i64, l: i64, m: i64, n: i64, o: i64, p: i64,
    q: i64,
) -> i64 {
    1
}

struct Calculator;

impl Calculator {
    #[tool]
    async fn add(
        &self,
        /// The number.
        a: i64,
    ) -> i64 {
        a
    }
}

#[tool]
struct NoFunction;

#[tool]
#[prompt]
async fn both() -> String {
    String::new()
}

fn main() {
    // The items exist in spite of the errors, so that there are no errors that only follow from them.
    let _ = Server::new("test", "1").tool(generic).tool(takes_impl).tool(gives_impl).tool(many);
}
