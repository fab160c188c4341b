//! TLS through rustls, with the cargo feature `tls`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// An encrypted connection.
pub(super) type Stream = TlsStream<TcpStream>;

/// Accepts TLS connections.
#[derive(Clone)]
pub(super) struct Acceptor(TlsAcceptor);

impl Acceptor {
    /// Reads the certificate chain and the key, and the authorities that issue certificates of clients, all in PEM.
    pub(super) fn load(
        chain: &Path,
        key: &Path,
        client_ca: Option<&Path>,
        protocols: &[&[u8]],
    ) -> io::Result<Self> {
        let unreadable = |path: &Path, error: &dyn std::fmt::Display| {
            io::Error::other(format!("{}: {error}", path.display()))
        };
        let certificates = |path: &Path| {
            CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| unreadable(path, &error))
        };
        let chain = certificates(chain)?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?;
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let config = match client_ca {
            None => config.with_no_client_auth(),
            Some(path) => {
                let mut authorities = RootCertStore::empty();
                for certificate in certificates(path)? {
                    authorities.add(certificate).map_err(|error| unreadable(path, &error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider)
                    .build()
                    .map_err(|error| unreadable(path, &error))?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let mut config = config.with_single_cert(chain, secret).map_err(io::Error::other)?;
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(super) async fn accept(&self, socket: TcpStream) -> io::Result<Stream> {
        self.0.accept(socket).await
    }
}
