//! The token that clients of `tsugite serve` and `tsugite bridge --listen` need.
//!
//! Without `--token` a token is made for each set of servers, kept in a file of the user and used again after a restart.
//! A second file records which token a loopback address needs, for `tsugite config add`.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use tsugite::server::Principal;
use tsugite::transport::http::StaticToken;

use crate::error::{CliError, Result};
use crate::file_mode;
use crate::state_dir::state_dir;

/// A token and the file that it is kept in.
pub(crate) struct AccessToken {
    text: String,
    pub(crate) path: PathBuf,
}

impl AccessToken {
    /// Reads the token of `--token FILE`.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = read_token(path).map_err(|error| {
            CliError::usage(format!("cannot read the token in {}: {error}", path.display())).at_step("token")
        })?;
        Ok(Self { text, path: path.to_owned() })
    }

    /// Reads the token that was made for these servers, or makes one.
    pub(crate) fn for_servers(servers: &str) -> Result<Self> {
        let folder = tokens_dir()?;
        let name: String = digest(&SHA256, servers.as_bytes())
            .as_ref()
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let path = folder.join(name);
        if let Ok(text) = read_token(&path) {
            return Ok(Self { text, path });
        }
        let mut bytes = [0; 32];
        let made = SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("no random bytes"));
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        made.and_then(|()| write_private(&path, &text)).map_err(|error| token_error(&path, &error))?;
        Ok(Self { text, path })
    }

    /// Records that clients of this address need the token.
    pub(crate) fn record_address(&self, address: SocketAddr) -> Result<()> {
        let path = tokens_dir()?.join(address_name(address));
        write_private(&path, &self.text).map_err(|error| token_error(&path, &error))
    }

    pub(crate) fn verifier(&self) -> StaticToken {
        StaticToken::new(&self.text, Principal::new("owner"))
    }

    /// The token, to be shown to the user who started the server.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// The token that a server of this user at a loopback address needs.
pub(crate) fn token_for_url(url: &str) -> Option<String> {
    let authority = url.strip_prefix("http://")?.split(['/', '?', '#']).next()?;
    let authority = authority.replace("localhost", "127.0.0.1");
    let address: SocketAddr = authority.parse().ok()?;
    read_token(&tokens_dir().ok()?.join(address_name(address))).ok()
}

fn address_name(address: SocketAddr) -> String {
    format!("at-{}-{}", address.ip(), address.port())
}

fn tokens_dir() -> Result<PathBuf> {
    let folder = state_dir().map(|state| state.join("tokens")).ok_or_else(|| {
        CliError::usage("there is no home folder to keep a token in")
            .at_step("token")
            .hint("--token FILE names a file")
    })?;
    file_mode::create_private_dir(&folder).map_err(|error| token_error(&folder, &error))?;
    Ok(folder)
}

/// Reads a token: one line of visible characters.
fn read_token(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(MAX_TOKEN_BYTES + 1).read_to_string(&mut text)?;
    let token = text.trim();
    let is_valid = !token.is_empty()
        && token.len() as u64 <= MAX_TOKEN_BYTES
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    match is_valid {
        true => Ok(token.to_owned()),
        false => Err(io::Error::other("it must be one line of visible ASCII characters, at most 4096")),
    }
}

/// Writes a file that only its owner can read, in one step.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let unready = path.with_extension(format!("new-{}", std::process::id()));
    let mut options = OpenOptions::new();
    let mut file = file_mode::open_private(options.write(true).create(true).truncate(true)).open(&unready)?;
    file_mode::make_private(&file)?;
    writeln!(file, "{text}")?;
    drop(file);
    file_mode::replace(&unready, path)
}

fn token_error(path: &Path, error: &io::Error) -> CliError {
    CliError::usage(format!("cannot keep a token in {}: {error}", path.display()))
        .at_step("token")
        .hint("--token FILE uses a token of your own")
}

const MAX_TOKEN_BYTES: u64 = 4096;
