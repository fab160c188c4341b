//! How messages travel.

#[cfg(feature = "client")]
pub mod child;
#[cfg(feature = "http")]
pub mod http;
mod log;
pub mod memory;
#[cfg(not(feature = "http"))]
mod no_http;
#[cfg_attr(
    not(all(feature = "http", feature = "client")),
    allow(dead_code, reason = "some of it is there for HTTP, and for bridges")
)]
pub(crate) mod outbox;
mod signal;
mod stdio;

#[cfg(feature = "http")]
pub(crate) use http::Settings as HttpSettings;
#[cfg(not(feature = "http"))]
pub(crate) use no_http::Settings as HttpSettings;
