//! Transports: how messages reach a server or a client.
//!
//! A server chooses its transport by the method that serves it, and a client by the function that connects:
//!
//! | transport | server | client |
//! |---|---|---|
//! | stdio | [`Server::serve_stdio`](crate::Server::serve_stdio) | [`Client::spawn`](crate::Client::spawn), with a [`Command`](child::Command) |
//! | HTTP | [`Server::serve_http`](crate::Server::serve_http), [`Server::http_service`](crate::Server::http_service), with [`Http`](http::Http) | [`Client::connect`](crate::Client::connect) |
//! | any byte streams, one message a line | [`Server::serve_on`](crate::Server::serve_on) | [`Client::over`](crate::Client::over) |
//! | in memory | [`memory::connect`] | [`Client::in_process`](crate::Client::in_process) |
//!
//! The guides [stdio](crate::guide::stdio) and [HTTP](crate::guide::http) say what each of them guarantees.

#[cfg(feature = "client")]
pub mod child;
#[cfg(feature = "http")]
pub mod http;
mod line_stream;
pub mod memory;
mod signal;
mod stdio;
mod streams;
