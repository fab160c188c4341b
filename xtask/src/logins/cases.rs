//! Logins of the library that the binary has no options for: clients without a person, signed assertions and DPoP.
//!
//! `peer-logins` of the testkit is the client. It logs in at `oidc-provider`, and at an authorization server whose
//! signatures authlib makes and verifies; each case is a line of its output.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Instant;

use super::{Peer, TIMEOUT, keys, parse_ready, read};
use crate::browser::Browser;
use crate::count::Count;
use crate::peers::PeerPackages;
use crate::process::{self, ChildProcess};
use crate::server::ListeningServer;

/// Runs all cases against one server and adds them to `count`. Returns the failures.
pub(super) fn run(
    peer: Peer,
    program: &Path,
    packages: &PeerPackages,
    browser: &mut Browser,
    count: &mut Count,
) -> Result<Vec<String>, String> {
    let folder = packages.output_dir.join("logins").join(format!("{}-cases", peer.name()));
    let _ = fs::remove_dir_all(&folder);
    process::create_dir(&folder)?;
    let server = ListeningServer::start(peer.server(packages), &folder.join("server.txt"), parse_ready)?;
    let url = format!("http://127.0.0.1:{}/mcp", server.endpoint);
    let file = folder.join("cases.txt");
    let mut command = process::program(program, [url.as_str()]);
    command.arg(keys()).args(cases(peer)).stdin(Stdio::null()).stdout(process::create_log(&file)?);
    let ended = follow(ChildProcess::start_group(command)?, &file, peer, browser);
    let said = read(&file);
    let mut failures = Vec::new();
    for case in cases(peer) {
        let passed = said.lines().any(|line| line.strip_prefix("passed ") == Some(case));
        match passed {
            true => *count += Count { passed: 1, failed: 0, skipped: 0 },
            false => {
                *count += Count { passed: 0, failed: 1, skipped: 0 };
                let start = format!("failed {case}: ");
                let why = said.lines().find_map(|line| line.strip_prefix(&start));
                failures.push(format!("{}: {case}: {}", peer.name(), why.unwrap_or("no result")));
            }
        }
    }
    println!("{} of {} passed", cases(peer).len() - failures.len(), cases(peer).len());
    failures.extend(ended.err().map(|why| format!("{}: {why}", peer.name())));
    Ok(failures)
}

/// Waits for the exit, and opens the address that the client shows to a person.
fn follow(mut running: ChildProcess, file: &Path, peer: Peer, browser: &mut Browser) -> Result<(), String> {
    let (start, mut is_open) = (Instant::now(), false);
    loop {
        if let Some(status) = running.try_wait()? {
            return if status.success() { Ok(()) } else { Err(format!("peer-logins exited with {status}")) };
        }
        let said = read(file);
        let url = said.split_inclusive('\n').find_map(|line| line.strip_prefix("open ")?.strip_suffix('\n'));
        if let (Some(url), false) = (url, is_open) {
            is_open = true;
            browser.open(url)?;
            peer.log_in(browser)?;
        }
        if start.elapsed() > TIMEOUT {
            return Err("peer-logins does not end".to_owned());
        }
        thread::sleep(process::POLL_INTERVAL);
    }
}

/// The cases of `peer-logins`.
fn cases(peer: Peer) -> &'static [&'static str] {
    match peer {
        Peer::OidcProvider => &[
            "basic",
            "basic+dpop",
            "post",
            "post+dpop",
            "key-ES256",
            "key-ES384",
            "key-EdDSA",
            "key-RS256",
            "key-PS256",
            "key-ES256+dpop",
            "wrong-secret",
            "wrong-key",
            "person+dpop",
        ],
        Peer::Authlib => &[
            "key-ES256",
            "key-ES384",
            "key-EdDSA",
            "key-RS256",
            "key-PS256",
            "key-ES256+dpop",
            "key-ES384+dpop",
            "key-EdDSA+dpop",
            "key-RS256+dpop",
            "key-PS256+dpop",
            "wrong-key",
            "signed",
        ],
        Peer::FastMcp => &[],
    }
}
