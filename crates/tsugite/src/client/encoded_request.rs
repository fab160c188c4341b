//! A request in the form in which transports send it.

/// A request that is ready to be sent.
pub(super) struct EncodedRequest<'a> {
    pub(super) bytes: Vec<u8>,
    pub(super) method: &'a str,
    pub(super) name: Option<&'a str>,
    /// The headers that repeat arguments.
    pub(super) param_headers: Vec<(String, String)>,
    /// The headers that the caller set.
    pub(super) extra_headers: &'a [(String, String)],
    /// Whether running it twice does no harm.
    pub(super) harmless: bool,
    /// Whether it only checks that the server responds.
    pub(super) checks_liveness: bool,
}
