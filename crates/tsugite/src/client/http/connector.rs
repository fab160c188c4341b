//! Opens a connection in steps, so that an error names the step that failed.

use std::time::Duration;

use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::address::ServerOrigin;
use super::full_body::FullBody;
use super::tls::Tls;
use crate::client::client_error::{ClientError, ConnectStep};

/// A connection that was just opened.
pub(super) struct NewConnection {
    pub(super) sender: SendRequest<FullBody>,
    pub(super) task: AbortHandle,
}

/// Resolves the host and opens a connection to the first address that accepts one. Each step has the timeout `limit`.
pub(super) async fn connect(
    origin: &ServerOrigin,
    tls: Option<&Tls>,
    limit: Duration,
) -> Result<NewConnection, ClientError> {
    let timeout_error = |step: ConnectStep| {
        ClientError::connect(step, format!("no response within {} s", limit.as_secs_f64()))
    };
    let addresses = timeout(limit, lookup_host((origin.host.as_str(), origin.port))).await;
    let addresses: Vec<_> = addresses
        .map_err(|_| timeout_error(ConnectStep::Dns))?
        .map_err(|error| ClientError::connect(ConnectStep::Dns, format!("{}: {error}", origin.host)))?
        .collect();
    let mut last_error = ClientError::connect(ConnectStep::Dns, format!("{}: no address found", origin.host));
    for address in addresses {
        match timeout(limit, TcpStream::connect(address)).await {
            Err(_) => last_error = timeout_error(ConnectStep::Tcp),
            Ok(Err(error)) => {
                last_error = ClientError::connect(ConnectStep::Tcp, format!("{address}: {error}"))
            }
            Ok(Ok(socket)) => {
                // Messages are small and the sender waits for the response, so Nagle's algorithm only adds latency.
                let _ = socket.set_nodelay(true);
                return match tls {
                    None => http_handshake(TokioIo::new(socket)).await,
                    Some(tls) => {
                        let encrypted = timeout(limit, tls.connect(&origin.host, socket)).await;
                        let encrypted =
                            encrypted.map_err(|_| timeout_error(ConnectStep::Tls))?.map_err(|error| {
                                ClientError::connect(ConnectStep::Tls, format!("{}: {error}", origin.host))
                            })?;
                        http_handshake(TokioIo::new(encrypted)).await
                    }
                };
            }
        }
    }
    Err(last_error)
}

async fn http_handshake<T: Read + Write + Unpin + Send + 'static>(
    io: T,
) -> Result<NewConnection, ClientError> {
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .handshake(io)
        .await
        .map_err(|error| ClientError::connect(ConnectStep::Http, error))?;
    let task = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "an HTTP connection has failed");
        }
    });
    Ok(NewConnection { sender, task: task.abort_handle() })
}

/// The read buffer in bytes, which also limits the head of a response.
const MAX_HEAD_BYTES: usize = 256 << 10;
