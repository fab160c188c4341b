//! Processes that a test sees end, and can end, through the command `hold` of their script.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::support::LONG;

/// Listens for processes that run `hold PORT`. It is displayed as that port.
pub(crate) struct Holds {
    address: SocketAddr,
    held: Receiver<TcpStream>,
}

impl Holds {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, held) = mpsc::channel();
        thread::spawn(move || {
            for socket in listener.incoming() {
                let Ok(socket) = socket else { return };
                if sender.send(socket).is_err() {
                    return;
                }
            }
        });
        Self { address, held }
    }

    /// Waits for the next process.
    #[track_caller]
    pub(crate) fn next(&self) -> Held {
        Held(self.held.recv_timeout(LONG).expect("a process that runs `hold`"))
    }
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address.port())
    }
}

/// A process that has run `hold`. It is killed on drop.
pub(crate) struct Held(TcpStream);

impl Held {
    /// Kills the process, and waits until it has ended.
    #[track_caller]
    pub(crate) fn kill(self) {
        // Fails on some systems if the process has ended already.
        let _ = self.0.shutdown(Shutdown::Write);
        self.ends();
    }

    /// Waits until the process has ended.
    #[track_caller]
    pub(crate) fn ends(mut self) {
        self.0.set_read_timeout(Some(LONG)).unwrap();
        let read = self.0.read(&mut [0]);
        // A killed process resets its connections on some systems.
        let gone = match &read {
            Ok(length) => *length == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        };
        assert!(gone, "a child is left: {read:?}");
    }
}
