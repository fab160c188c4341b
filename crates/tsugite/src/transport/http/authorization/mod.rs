//! Access tokens: which requests are let in, and who sent them.

// - `verify_token`, `verify_error`, `protected_resource`: what a verifier implements and returns. `static_token`: one.
// - `token_check`: the stage of a request. `token_cache`: tokens that were verified before. `challenge`: the responses to
//   requests without a valid token.
// - `resource_url`: the address of the endpoint, as tokens name it. `resource_metadata`: the document for clients.

mod challenge;
mod protected_resource;
mod resource_metadata;
mod resource_url;
mod static_token;
mod token_cache;
mod token_check;
mod verify_error;
mod verify_token;

pub use protected_resource::ProtectedResource;
pub use resource_metadata::ResourceMetadataService;
pub use static_token::StaticToken;
pub use verify_error::{VerifyError, VerifyErrorKind};
pub use verify_token::{TokenRequest, TokenScheme, Verified, VerifiedProof, VerifyFuture, VerifyToken};

pub(super) use challenge::add_nonce;
pub(super) use resource_url::{HostName, PublicUrl, ResourceUrl};
pub(super) use token_check::{Authorization, Authorized, insufficient_scope};
