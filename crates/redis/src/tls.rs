//! TLS through rustls, with ring.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The PEM files for TLS.
#[derive(Clone, Default)]
pub(crate) struct TlsFiles {
    /// Trusted in addition to the certificates that this machine trusts.
    pub(crate) roots: Vec<PathBuf>,
    /// The certificates and the key that the client presents.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// Encrypts a connection to `host`. The files are read each time, so that they can be replaced.
pub(crate) async fn connect(
    files: &TlsFiles,
    host: &str,
    socket: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let files = files.clone();
    let config = tokio::task::spawn_blocking(move || files.config()).await.map_err(io::Error::other)??;
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, socket).await
}

impl TlsFiles {
    fn config(&self) -> io::Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for file in &self.roots {
            for certificate in read_certificates(file)? {
                roots
                    .add(certificate)
                    .map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
            }
        }
        // Named, since the application may have a second provider of cryptography in its tree.
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots);
        let Some((certificates, key)) = &self.identity else { return Ok(config.with_no_client_auth()) };
        let chain = read_certificates(certificates)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| file_error(key, &error))?;
        config.with_client_auth_cert(chain, key).map_err(io::Error::other)
    }
}

fn read_certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| file_error(file, &error))
}

fn file_error(file: &Path, error: &PemError) -> io::Error {
    io::Error::other(format!("{}: {error}", file.display()))
}
