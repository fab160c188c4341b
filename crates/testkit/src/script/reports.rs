//! The side of a test: it hears what its scripts report, and lets scripts that wait continue.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// Hears `report` and `wait_for` of scripts, on a port of loopback. It is displayed as that port.
#[derive(Debug)]
pub struct Reports {
    listener: TcpListener,
    address: SocketAddr,
}

impl Reports {
    /// Listens, in the runtime of the test.
    pub async fn listen() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        Ok(Self { address: listener.local_addr()?, listener })
    }

    /// Waits for the next report, and returns its text.
    pub async fn next(&self) -> io::Result<String> {
        let mut text = String::new();
        self.listener.accept().await?.0.read_to_string(&mut text).await?;
        Ok(text)
    }

    /// Waits until a script waits for this, and lets it continue.
    pub async fn allow(&self) -> io::Result<()> {
        self.listener.accept().await.map(drop)
    }
}

impl fmt::Display for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address.port())
    }
}
