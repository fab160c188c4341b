//! DPoP (RFC 9449): proofs that the sender of a token holds its key.

mod proof;

pub(crate) use proof::{Proof, now};
