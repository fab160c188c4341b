//! Checking JSON against a JSON Schema: for keywords a Rust type cannot say, for tools known only at run time, and for
//! what a peer promised.
//!
//! - [`Validator`]: a compiled schema. Without the cargo feature `validate` none can be compiled, and the error says
//!   which keyword asked for it.
//! - [`beyond_types`]: whether a schema says more than the type it was made from.
//! - `places`: where schemas stand inside a schema. `bounds`: how much work a schema may cause. `sentences`: what is
//!   said about a value that does not fit.

mod beyond;
#[cfg(feature = "validate")]
mod bounds;
mod places;
#[cfg(feature = "validate")]
mod sentences;
#[cfg(feature = "validate")]
mod with;
#[cfg(not(feature = "validate"))]
mod without;

pub(crate) use beyond::beyond_types;
#[cfg(feature = "validate")]
pub(crate) use with::{IS_THERE, Validator};
#[cfg(not(feature = "validate"))]
pub(crate) use without::{IS_THERE, Validator};
