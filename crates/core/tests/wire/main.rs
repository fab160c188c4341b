//! The official schemas judge what the crate reads and writes.
//!
//! Values are generated from the schemas themselves, so nothing here rests on our own reading of the protocol.

mod examples;
mod generate;
mod losses;
mod messages;
mod methods;
mod official;
mod rules;
