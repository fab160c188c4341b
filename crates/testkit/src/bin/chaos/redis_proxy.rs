//! A TCP proxy between a replica and Redis that disturbs its connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A proxy, until the runtime ends.
#[derive(Debug)]
pub(crate) struct RedisProxy {
    address: SocketAddr,
    condition: watch::Sender<Condition>,
}

/// What happens to the data of all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Condition {
    delay: Duration,
    is_stalled: bool,
    /// How often connections were cut so far. A connection ends when it changes.
    cuts: u64,
    half_closes_to_replica: u64,
    half_closes_to_redis: u64,
}

impl RedisProxy {
    pub(crate) async fn start(redis: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let proxy = Self { address: listener.local_addr()?, condition: watch::Sender::default() };
        let condition = proxy.condition.subscribe();
        tokio::spawn(async move {
            while let Ok((replica, _)) = listener.accept().await {
                tokio::spawn(forward(replica, redis, condition.clone()));
            }
        });
        Ok(proxy)
    }

    /// The URL for the replica.
    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Delays each piece of data from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        self.condition.send_modify(|condition| condition.delay = delay);
    }

    /// Forwards nothing from now on, or everything again.
    pub(crate) fn stall(&self, is_stalled: bool) {
        self.condition.send_modify(|condition| condition.is_stalled = is_stalled);
    }

    /// Closes all connections.
    pub(crate) fn cut(&self) {
        self.condition.send_modify(|condition| condition.cuts += 1);
    }

    /// Closes one direction of all connections: what the replica reads.
    pub(crate) fn half_close_to_replica(&self) {
        self.condition.send_modify(|condition| condition.half_closes_to_replica += 1);
    }

    /// Closes one direction of all connections: what Redis reads.
    pub(crate) fn half_close_to_redis(&self) {
        self.condition.send_modify(|condition| condition.half_closes_to_redis += 1);
    }
}

/// Forwards a connection in both directions until it ends or is cut.
async fn forward(replica: TcpStream, redis: SocketAddr, condition: watch::Receiver<Condition>) {
    let began = *condition.borrow();
    let mut cut = condition.clone();
    let Ok(redis) = TcpStream::connect(redis).await else { return };
    if replica.set_nodelay(true).is_err() || redis.set_nodelay(true).is_err() {
        return;
    }
    let ((from_replica, to_replica), (from_redis, to_redis)) = (replica.into_split(), redis.into_split());
    let to_replica = Direction {
        from: from_redis,
        to: to_replica,
        condition: condition.clone(),
        closes: |condition| condition.half_closes_to_replica,
    };
    let to_redis = Direction {
        from: from_replica,
        to: to_redis,
        condition,
        closes: |condition| condition.half_closes_to_redis,
    };
    tokio::select! {
        _ = async { tokio::join!(to_replica.copy(), to_redis.copy()) } => {}
        _ = cut.wait_for(|now| now.cuts != began.cuts) => {}
    }
}

/// One direction of a connection.
struct Direction {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    condition: watch::Receiver<Condition>,
    /// How often this direction was closed so far.
    closes: fn(&Condition) -> u64,
}

impl Direction {
    /// Copies until the end. A direction that is half-closed is still read, so that its sender does not notice.
    async fn copy(mut self) {
        let closes = self.closes;
        let began = closes(&self.condition.borrow());
        let mut closed = self.condition.clone();
        tokio::select! {
            () = copy_bytes(&mut self.from, &mut self.to, &mut self.condition) => {}
            _ = closed.wait_for(|now| closes(now) != began) => {}
        }
        let _ = self.to.shutdown().await;
        let mut unread = [0; 4096];
        while matches!(self.from.read(&mut unread).await, Ok(length) if length > 0) {}
    }
}

async fn copy_bytes(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    condition: &mut watch::Receiver<Condition>,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let Ok(length) = from.read(&mut buffer).await else { return };
        let delay = condition.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if condition.wait_for(|now| !now.is_stalled).await.is_err() {
            return;
        }
        let Some(bytes) = buffer.get(..length).filter(|bytes| !bytes.is_empty()) else { return };
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}
