//! Our verifiers at a protected server, with an issuer whose answers each test can change.

mod attacks;
mod dpop;
mod introspection;
pub(super) mod issuer;
mod keys;
