//! A small program that tests start where others would need a shell, which not every system has.
//!
//! - `helper replies LINE…` reads a line from stdin and prints LINE, for each of them, and then reads until the end.
//! - `helper fails CODE TEXT` prints TEXT to stderr and exits with CODE.
//! - `helper environment FILE` writes its environment variables to FILE, one in each line, and serves the fixture.
//! - `helper starts` serves the fixture with a tool that starts `helper replies` with the stdin of the server.
//! - `helper family PORT` starts `helper holds PORT`, serves the fixture, and does not end when its stdin does.
//! - `helper holds PORT` connects to PORT on loopback and waits until it is killed.
//! - `helper URL` is a browser: it opens the page, and those to which it is redirected.
//! - `helper script TEXT` runs a script in the language of `src/script/mod.rs`, `helper file PATH` the script in a file.

use std::io::{self, BufRead, Read};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use tsugite::Server;
use tsugite::client::{FetchRequest, Fetcher};
use tsugite::server::Tool;
use tsugite_testkit::fixture;
use tsugite_testkit::script::{End, Script};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["replies", lines @ ..] => reply(lines),
        ["fails", code, text] => {
            eprintln!("{text}");
            std::process::exit(code.parse()?)
        }
        ["script", text] => run(text),
        ["file", path] => run(&std::fs::read_to_string(path)?),
        ["environment", file] => {
            let all =
                std::env::vars_os().map(|(name, value)| format!("{}={}\n", name.display(), value.display()));
            std::fs::write(file, all.collect::<String>())?;
            serve(fixture::server())
        }
        ["starts"] => serve(fixture::server().tool(starts())),
        ["family", port] => {
            // Not a pipe of ours: the server must not wait for it.
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["holds", port]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let _child = command.spawn()?;
            serve(fixture::server())?;
            hold()
        }
        ["holds", port] => {
            let _connection = TcpStream::connect(("127.0.0.1", port.parse()?))?;
            hold()
        }
        [url] if url.starts_with("http://") => block_on(browse(url))?,
        other => Err(format!("unknown arguments {other:?}").into()),
    }
}

fn run(script: &str) -> Result {
    match Script::parse(script)?.run()? {
        End::Exit(code) => std::process::exit(code),
        End::Abort => std::process::abort(),
        End::Serve => serve(fixture::server()),
    }
}

fn reply(lines: &[&str]) -> Result {
    let mut stdin = io::stdin().lock();
    for line in lines {
        stdin.read_line(&mut String::new())?;
        println!("{line}");
    }
    stdin.read_to_end(&mut Vec::new())?;
    Ok(())
}

fn serve(server: Server) -> Result {
    Ok(block_on(server.serve_stdio())??)
}

fn block_on<F: Future>(work: F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(work))
}

async fn browse(url: &str) -> Result {
    let mut next = Some(url.to_owned());
    for _ in 0..MAX_PAGES {
        let Some(url) = next.take() else { return Ok(()) };
        let page = Fetcher::new().fetch(FetchRequest::get(&url)).await?;
        next = page.header("location").map(str::to_owned);
    }
    Err("too many redirects".into())
}

const MAX_PAGES: usize = 5;

fn starts() -> Tool {
    Tool::new("starts").description("Starts a program that reads stdin, and reads stdin itself.").handler(
        || async {
            let started =
                std::env::current_exe().and_then(|helper| Command::new(helper).arg("replies").status());
            let child = started.map(|status| status.success());
            let read = io::stdin().read_to_end(&mut Vec::new());
            format!("{child:?} {read:?}")
        },
    )
}

fn hold() -> ! {
    loop {
        std::thread::park();
    }
}
