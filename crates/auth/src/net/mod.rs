//! URLs, the guard over those that a server names, and requests to them.

#[cfg(feature = "authorization-server")]
mod cached_json;
mod guard;
mod http;
mod url;

pub use guard::AddressClass;

pub(crate) use guard::Trust;
pub(crate) use http::GuardedHttp;
#[cfg(feature = "authorization-server")]
pub(crate) use url::decode_pairs;
pub(crate) use url::{Url, decode_form, encode, encode_form};
