//! `http`, by hand.

use serde::Deserialize;
use tsugite::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
struct AddUp {
    to: u32,
}

pub fn server() -> Server {
    let add = Tool::new("add")
        .description("Add two numbers.")
        .handler(|Args(Add { a, b }): Args<Add>| async move { a + b });
    let add_up = Tool::new("add_up")
        .description("Adds all numbers up to one, and says how far it is.")
        .handler(|Args(AddUp { to }): Args<AddUp>, cx: Context| async move {
            let mut sum = 0;
            for number in 1..=to {
                sum += u64::from(number);
                cx.progress(number).total(to).await;
            }
            sum
        });
    Server::new("calculator", "1.0.0").tool(add).tool(add_up)
}
