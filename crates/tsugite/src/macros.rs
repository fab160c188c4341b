//! The macros, with examples. The generated code can be written by hand; see [`Tool`](crate::server::Tool),
//! [`Resource`](crate::server::Resource), [`Prompt`](crate::server::Prompt) and [`Form`](trait@crate::server::Form).

/// Turns a function into a tool that models can call.
///
/// ```
/// use tsugite::prelude::*;
///
/// /// Add two numbers.
/// #[tool(read_only)]
/// async fn add(
///     /// The first number.
///     a: i64,
///     /// The second number.
///     #[arg(default = 1)]
///     b: i64,
/// ) -> i64 {
///     a + b
/// }
///
/// let server = Server::new("calculator", "1.0.0").tool(add);
/// # let _ = server;
/// ```
pub use tsugite_macros::tool;

/// Turns a function into a resource that clients can read, or into a template for many of them.
///
/// ```
/// use tsugite::prelude::*;
///
/// /// A note of a user.
/// #[resource("notes://{owner}/{id}", mime_type = "text/plain")]
/// async fn note(#[arg(complete = ["ann", "bob"])] owner: String, id: u32) -> Option<String> {
///     (id == 1).then(|| format!("{owner}'s first"))
/// }
///
/// let server = Server::new("notes", "1.0.0").resource(note);
/// # let _ = server;
/// ```
pub use tsugite_macros::resource;

/// Turns a function into a prompt that users can pick.
///
/// ```
/// use tsugite::prelude::*;
///
/// /// Reviews code.
/// #[prompt]
/// async fn review(
///     /// The code to look at.
///     code: String,
///     #[arg(complete = ["rust", "ruby"], default = "rust")] language: String,
/// ) -> String {
///     format!("Please review this {language}:\n{code}")
/// }
///
/// let server = Server::new("reviewer", "1.0.0").prompt(review);
/// # let _ = server;
/// ```
pub use tsugite_macros::prompt;

/// Registers the methods of a value as tools, resources and prompts.
///
/// ```
/// use std::sync::atomic::{AtomicI64, Ordering};
/// use tsugite::prelude::*;
///
/// #[derive(Default)]
/// struct Counter {
///     sum: AtomicI64,
/// }
///
/// #[handlers]
/// impl Counter {
///     /// Counts.
///     #[tool]
///     async fn count(&self, by: i64) -> i64 {
///         self.sum.fetch_add(by, Ordering::Relaxed) + by
///     }
/// }
///
/// let server = Server::new("counter", "1.0.0").handlers(Counter::default());
/// # let _ = server;
/// ```
pub use tsugite_macros::handlers;

/// Makes a struct a form that a tool can ask the user to fill in, and an enum without data a choice in it.
///
/// ```
/// use tsugite::prelude::*;
///
/// #[derive(Form)]
/// struct Order {
///     /// How many?
///     #[form(min = 1, max = 10, default = 1)]
///     count: u8,
///     size: Option<Size>,
/// }
///
/// #[derive(Form)]
/// enum Size {
///     /// Fits most.
///     Medium,
///     Large,
/// }
///
/// #[tool]
/// async fn order(cx: Context) -> Result<String, HandlerError> {
///     let order: Order = cx.ask("What shall it be?").await?;
///     Ok(format!("{} to come", order.count))
/// }
/// # let _ = order;
/// ```
pub use tsugite_macros::Form;
