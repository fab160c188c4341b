//! DPoP (RFC 9449): proofs that the sender of a token holds its key.

mod nonce;
mod proof;
mod replay;
mod verify;

pub(crate) use nonce::NonceKey;
pub(crate) use proof::{Proof, now};
pub(crate) use replay::use_once;
#[cfg(feature = "authorization-server")]
pub(crate) use verify::VerifiedProof;
pub(crate) use verify::{ProvenRequest, verify_proof};
