//! Access tokens: which requests are let in, and who sent them.

// - `verify_token`, `verify_error`, `protected_resource`: what a verifier implements and returns. `static_token`: one.
// - `token_check`: the stage of a request. `challenge`: the responses to those without a valid token.
// - `resource_url`: the address of the endpoint, as tokens name it.

mod challenge;
mod protected_resource;
mod resource_url;
mod static_token;
mod token_check;
mod verify_error;
mod verify_token;

pub use protected_resource::ProtectedResource;
pub use static_token::StaticToken;
pub use verify_error::{VerifyError, VerifyErrorKind};
pub use verify_token::{TokenRequest, TokenScheme, Verified, VerifiedProof, VerifyFuture, VerifyToken};

pub(super) use challenge::add_nonce;
pub(super) use resource_url::{PublicUrl, ResourceUrl};
pub(super) use token_check::{Authorization, Authorized};
