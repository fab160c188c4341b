//! How messages travel.

#[cfg(feature = "client")]
pub mod child;
#[cfg(feature = "http")]
pub mod http;
pub mod memory;
#[cfg(not(feature = "http"))]
mod no_http_settings;
mod signal;
mod stderr_log;
mod stdio;

#[cfg(feature = "http")]
pub(crate) use http::HttpSettings;
#[cfg(not(feature = "http"))]
pub(crate) use no_http_settings::HttpSettings;
