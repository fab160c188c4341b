//! How host names become addresses, and which of these may be connected to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

/// Resolves host names. [`SystemResolver`] is the default; tests bring their own.
pub trait Resolver: Send + Sync + 'static {
    /// Returns the addresses of a host, which may be a literal address.
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;
}

/// Resolves host names as the operating system does.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// Decides which addresses a [`Fetcher`](super::Fetcher) may connect to.
pub trait AddressFilter: Send + Sync + 'static {
    /// Checks an address of a host that a connection is about to be opened to. The error says why it is refused.
    fn check_address(&self, host: &str, address: IpAddr) -> std::result::Result<(), String>;

    /// Checks a host that a proxy will resolve.
    fn check_proxied_host(&self, host: &str) -> std::result::Result<(), String>;
}
