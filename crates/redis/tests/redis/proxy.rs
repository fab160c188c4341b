//! A TCP proxy whose connections can go silent.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Forwards connections to a port on loopback.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    /// Connections with lower numbers are silent.
    first_forwarded: Arc<AtomicU64>,
    accepted: Arc<AtomicU64>,
}

impl Proxy {
    pub(crate) fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = Self { port, first_forwarded: Arc::default(), accepted: Arc::default() };
        let (first_forwarded, accepted) = (proxy.first_forwarded.clone(), proxy.accepted.clone());
        // The threads end with the process of the test.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let number = accepted.fetch_add(1, Ordering::AcqRel);
                let server = TcpStream::connect(("127.0.0.1", target)).unwrap();
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let first_forwarded = first_forwarded.clone();
                    thread::spawn(move || {
                        forward(from, to, || number >= first_forwarded.load(Ordering::Acquire))
                    });
                }
            }
        });
        proxy
    }

    /// Drops everything that the present connections send from now on, without closing them.
    pub(crate) fn silence(&self) {
        self.first_forwarded.store(self.accepted.load(Ordering::Acquire), Ordering::Release);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, is_forwarded: impl Fn() -> bool) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if is_forwarded() && to.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}
