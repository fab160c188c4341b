//! TLS through rustls, with the cargo feature `tls`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A TLS connector with trusted root certificates.
#[derive(Clone)]
pub(in crate::client) struct Tls(TlsConnector);

impl Tls {
    /// Trusts the certificates of this machine, and those in `trusted`, which are PEM files.
    pub(in crate::client) fn new(trusted: &[std::path::PathBuf]) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        let native = rustls_native_certs::load_native_certs();
        for error in &native.errors {
            tracing::debug!(%error, "cannot read a trusted certificate of this machine");
        }
        roots.add_parsable_certificates(native.certs);
        for file in trusted {
            for certificate in read_certificates(file)? {
                roots.add(certificate).map_err(|error| file_error(file, &error))?;
            }
        }
        if roots.is_empty() {
            return Err(io::Error::other(
                "this machine trusts no certificates; add one with `add_root_certificate`",
            ));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    pub(super) async fn connect(&self, host: &str, socket: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.0.connect(name, socket).await
    }
}

fn read_certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| file_error(file, &error))
}

fn file_error(file: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", file.display()))
}
