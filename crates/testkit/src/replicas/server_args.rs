//! The command line of a server program that can be a replica.

use std::process::{self, ExitCode};
use std::{env, io, thread};

use tsugite::Server;

use super::replica;

/// The arguments of a server program: `--listen 127.0.0.1:PORT`, and for a replica `--redis URL`.
#[derive(Debug)]
pub struct ServerArgs {
    listen: String,
    redis: Option<String>,
}

impl ServerArgs {
    /// Reads the arguments of this process.
    pub fn from_env() -> Result<Self, String> {
        let args: Vec<String> = env::args().skip(1).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        match *args {
            ["--listen", listen] => Ok(Self { listen: listen.to_owned(), redis: None }),
            ["--listen", listen, "--redis", url] => {
                Ok(Self { listen: listen.to_owned(), redis: Some(url.to_owned()) })
            }
            _ => Err("the arguments are --listen 127.0.0.1:PORT [--redis URL]".to_owned()),
        }
    }

    /// The address of Redis, if this process is a replica.
    pub fn redis(&self) -> Option<&str> {
        self.redis.as_deref()
    }

    /// Serves until standard input ends, and prints the address first.
    pub async fn serve(&self, server: Server) -> ExitCode {
        // The process that started it holds the other end, and has exited when it closes.
        thread::spawn(|| {
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            process::exit(0);
        });
        match self.try_serve(server).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        }
    }

    async fn try_serve(&self, server: Server) -> Result<(), String> {
        let server = match &self.redis {
            Some(url) => replica(server, url, "server")?,
            None => server,
        };
        let listener = server.bind_http(self.listen.as_str()).await.map_err(|error| error.to_string())?;
        println!("{}", listener.local_addr());
        listener.serve().await.map_err(|error| error.to_string())
    }
}
