//! Access tokens: which requests are let in, and who sent them.

// - `verify_token`, `verify_error`, `protected_resource`: what a verifier implements and returns. `static_token`: one.
// - `token_check`: the stage of a request. `token_cache`: tokens that were verified before. `challenge`: the responses to
//   requests without a valid token.
// - `resource_url`: the address of the endpoint, as tokens name it.
//
// Nothing here knows the responses of the transport, since its shared state holds the verifier.

mod challenge;
mod protected_resource;
mod resource_url;
mod static_token;
mod token_cache;
mod token_check;
mod verify_error;
mod verify_token;

pub use protected_resource::ProtectedResource;
pub use static_token::StaticToken;
pub use verify_error::{VerifyError, VerifyErrorKind};
pub use verify_token::{TokenRequest, TokenScheme, Verified, VerifiedProof, VerifyFuture, VerifyToken};

pub(super) use challenge::{TokenError, add_nonce};
pub(super) use resource_url::{HostName, ResourceUrl, WELL_KNOWN, well_known_path};
pub(super) use token_check::{Authorization, Authorized, RequestTarget, insufficient_scope};
