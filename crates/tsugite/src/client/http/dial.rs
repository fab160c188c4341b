//! A new connection to a server, step by step, so that a failure can say how far it came.

use std::time::Duration;

use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::address::Origin;
use super::body::Whole;
use super::tls::Tls;
use crate::client::error::{Error, Step};

/// A connection that has just been made.
pub(super) struct Dialled {
    pub(super) sender: SendRequest<Whole>,
    pub(super) task: AbortHandle,
}

/// Connects.
pub(super) async fn dial(origin: &Origin, tls: Option<&Tls>, limit: Duration) -> Result<Dialled, Error> {
    let late = |step: Step| Error::connect(step, format!("no answer within {} s", limit.as_secs_f64()));
    let addresses = timeout(limit, lookup_host((origin.host.as_str(), origin.port))).await;
    let addresses: Vec<_> = addresses
        .map_err(|_| late(Step::Name))?
        .map_err(|error| Error::connect(Step::Name, format!("{}: {error}", origin.host)))?
        .collect();
    let mut failure = Error::connect(Step::Name, format!("{}: no address", origin.host));
    for address in addresses {
        match timeout(limit, TcpStream::connect(address)).await {
            Err(_) => failure = late(Step::Tcp),
            Ok(Err(error)) => failure = Error::connect(Step::Tcp, format!("{address}: {error}")),
            Ok(Ok(socket)) => {
                // Messages are small, and whoever sends one waits for its answer.
                let _ = socket.set_nodelay(true);
                return match tls {
                    None => speak(TokioIo::new(socket)).await,
                    Some(tls) => {
                        let encrypted = timeout(limit, tls.connect(&origin.host, socket)).await;
                        let encrypted = encrypted.map_err(|_| late(Step::Tls))?.map_err(|error| {
                            Error::connect(Step::Tls, format!("{}: {error}", origin.host))
                        })?;
                        speak(TokioIo::new(encrypted)).await
                    }
                };
            }
        }
    }
    Err(failure)
}

async fn speak<T: Read + Write + Unpin + Send + 'static>(io: T) -> Result<Dialled, Error> {
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .handshake(io)
        .await
        .map_err(|error| Error::connect(Step::Http, error))?;
    let task = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended");
        }
    });
    Ok(Dialled { sender, task: task.abort_handle() })
}

/// Bytes that are read ahead, and of the head of an answer.
const MAX_HEAD: usize = 256 << 10;
