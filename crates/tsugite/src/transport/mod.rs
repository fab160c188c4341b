//! How messages travel.

#[cfg(feature = "client")]
pub mod child;
#[cfg(feature = "http")]
pub mod http;
pub mod memory;
#[cfg(not(feature = "http"))]
mod no_http_settings;
#[cfg_attr(
    not(all(feature = "http", feature = "client")),
    allow(dead_code, reason = "some of it is there for HTTP, and for bridges")
)]
pub(crate) mod outbound_queue;
mod signal;
mod stderr_log;
mod stdio;

#[cfg(feature = "http")]
pub(crate) use http::HttpSettings;
#[cfg(not(feature = "http"))]
pub(crate) use no_http_settings::HttpSettings;
