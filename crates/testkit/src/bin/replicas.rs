//! Three replicas of a server program behind nginx: `replicas PROGRAM`. It prints the URL for clients, and stops everything
//! that it has started when its standard input ends.

use std::io;
use std::process::{Command, ExitCode};

use tsugite_testkit::replicas::Replicas;

fn main() -> ExitCode {
    let Some(program) = std::env::args_os().nth(1) else {
        eprintln!("usage: replicas PROGRAM");
        return ExitCode::from(2);
    };
    let replicas = Replicas::start(3, |redis| {
        let mut command = Command::new(&program);
        command.args(["--listen", "127.0.0.1:0", "--redis", redis]);
        command
    });
    let mut replicas = match replicas {
        Ok(replicas) => replicas,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("http://{}/mcp", replicas.address());
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    match replicas.are_running() {
        true => ExitCode::SUCCESS,
        false => {
            eprintln!("error: a replica has exited");
            ExitCode::FAILURE
        }
    }
}
