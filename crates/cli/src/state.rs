//! `--state`: where a served server keeps sessions, streams and messages, and the keys that seal them.
//!
//! Redis is shared with other replicas, so its keys come from the environment. A file is for this process alone: without
//! keys in the environment, one is made and kept beside the file.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ring::rand::{SecureRandom, SystemRandom};
use tsugite::Server;
use tsugite::server::SealKeys;
use tsugite_redis::Redis;
use tsugite_store::{FileStore, Store};

use crate::console::Console;
use crate::error::{CliError, Result};
use crate::file_mode;

/// The options for state that outlives the process.
#[derive(Debug, Args)]
pub(crate) struct StateOptions {
    /// Keep sessions and streams in FILE, or share them with other replicas: redis://…, rediss://…, or @FILE with the address
    #[arg(long, value_name = "WHERE", conflicts_with = "stdio")]
    state: Option<String>,
    /// Accept redis:// to another machine, where the connection is not encrypted
    #[arg(long, requires = "state")]
    state_unencrypted: bool,
}

impl StateOptions {
    /// Opens the store and reads the keys. Blocks while a file is opened.
    pub(crate) fn open(&self) -> Result<State> {
        let keys = keys_from_env()?;
        let Some(state) = &self.state else { return Ok(State { store: None, keys }) };
        match Place::parse(state)? {
            Place::Redis(url) => {
                let store = self.open_redis(&url)?;
                let keys = keys.ok_or_else(missing_keys)?;
                Console::new(false).note("sharing state with other replicas in Redis");
                Ok(State { store: Some(Arc::new(store)), keys: Some(keys) })
            }
            Place::File(path) => {
                let store = FileStore::open(&path)
                    .map_err(|error| state_error("cannot keep state").detail(error.to_string()))?;
                warn_if_shared(&path);
                // After the file: its lock keeps two processes from making two keys.
                let keys = match keys {
                    Some(keys) => keys,
                    None => KeyFile::beside(&path).read_or_create()?,
                };
                Console::new(false).note(&format!("keeping state in {}", path.display()));
                Ok(State { store: Some(Arc::new(store)), keys: Some(keys) })
            }
        }
    }

    fn open_redis(&self, url: &str) -> Result<Redis> {
        if self.state_unencrypted {
            return Redis::at_unencrypted(url).map_err(|error| state_error(error.to_string()));
        }
        Redis::at(url).map_err(|error| match Redis::at_unencrypted(url) {
            Ok(_) => state_error(
                "Redis is on another machine, and a connection with redis:// is not encrypted",
            )
            .hint("rediss:// connects with TLS")
            .hint(
                "--state-unencrypted accepts it, for a network that is trusted or encrypted by other means",
            ),
            Err(_) => state_error(error.to_string()),
        })
    }
}

/// Warns about a state file that others can read. What it contains is sealed, so it is no reason to refuse the file.
fn warn_if_shared(path: &Path) {
    if fs::metadata(path).is_ok_and(|metadata| !file_mode::is_private(&metadata)) {
        Console::new(false).note(&format!(
            "warning: other users of this machine can read or change {0}; `chmod 600 {0}`",
            path.display()
        ));
    }
}

/// An open store, if there is one, and the keys that seal what is in it.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) keys: Option<SealKeys>,
}

impl State {
    /// Gives a server its store and its keys.
    pub(crate) fn apply(&self, server: Server) -> Server {
        let server = match &self.store {
            Some(store) => server.store(Arc::clone(store)),
            None => server,
        };
        match &self.keys {
            Some(keys) => server.seal_keys(keys.clone()),
            None => server,
        }
    }
}

/// Gives a server the keys in the environment, if there are any.
pub(crate) fn apply_keys(server: Server) -> Result<Server> {
    Ok(match keys_from_env()? {
        Some(keys) => server.seal_keys(keys),
        None => server,
    })
}

fn keys_from_env() -> Result<Option<SealKeys>> {
    if env::var_os(KEYS_VARIABLE).is_none() {
        return Ok(None);
    }
    SealKeys::from_env(KEYS_VARIABLE).map(Some).map_err(|error| state_error(error.to_string()).hint(MAKE_KEY))
}

fn missing_keys() -> CliError {
    state_error(format!("{KEYS_VARIABLE} is not set"))
        .detail("what replicas share in Redis is sealed, and all of them need the same keys")
        .hint(MAKE_KEY)
}

fn state_error(message: impl Into<String>) -> CliError {
    CliError::usage(message).at_step("state")
}

/// The meaning of the value of `--state`.
enum Place {
    /// A URL, which may contain a password.
    Redis(String),
    File(PathBuf),
}

impl Place {
    fn parse(value: &str) -> Result<Self> {
        if let Some(file) = value.strip_prefix('@') {
            return read_address(Path::new(file)).map(Self::Redis).map_err(|error| {
                state_error(format!("cannot read the address of Redis in {file}")).detail(error.to_string())
            });
        }
        if is_redis_url(value) {
            if value.contains('@') {
                Console::new(false).note(
                    "warning: other users of this machine can read the password of Redis in the list of processes; \
                     --state @FILE reads the address from a file",
                );
            }
            return Ok(Self::Redis(value.to_owned()));
        }
        match value.split_once("://") {
            // Only the scheme: the rest may contain a password.
            Some((scheme, _)) => Err(state_error(format!("--state does not know {scheme}://"))
                .hint("use redis://…, rediss://…, or the path of a file")),
            None => Ok(Self::File(PathBuf::from(value))),
        }
    }
}

fn is_redis_url(text: &str) -> bool {
    text.starts_with("redis://") || text.starts_with("rediss://")
}

fn read_address(path: &Path) -> io::Result<String> {
    let text = read_limited(path)?;
    let address = text.trim();
    match is_redis_url(address) && !address.contains(char::is_whitespace) {
        true => Ok(address.to_owned()),
        false => Err(io::Error::other("it must hold one line with redis://… or rediss://…")),
    }
}

fn read_limited(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_FILE_BYTES {
        true => Err(io::Error::other(format!("it is longer than {MAX_FILE_BYTES} bytes"))),
        false => Ok(text),
    }
}

/// The file with the keys of a state file. Its name is that of the state file with `.key` at the end.
struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    fn beside(state: &Path) -> Self {
        let mut path = state.as_os_str().to_owned();
        path.push(".key");
        Self { path: path.into() }
    }

    fn read_or_create(&self) -> Result<SealKeys> {
        match self.read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.create().and_then(|()| self.read()).map_err(|error| self.error("make", &error))
            }
            outcome => outcome.map_err(|error| self.error("read", &error)),
        }
    }

    fn read(&self) -> io::Result<SealKeys> {
        if !file_mode::is_private(&fs::metadata(&self.path)?) {
            return Err(io::Error::other("other users of this machine can read it; `chmod 600` it"));
        }
        read_limited(&self.path)?.parse().map_err(io::Error::other)
    }

    /// Creates the file with a random key, complete or not at all. A file that is there already stays as it is.
    fn create(&self) -> io::Result<()> {
        let mut key = [0; 32];
        SystemRandom::new().fill(&mut key).map_err(|_| io::Error::other("no random bytes"))?;
        let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut unready = self.path.as_os_str().to_owned();
        unready.push(format!(".new-{}", std::process::id()));
        let unready = PathBuf::from(unready);
        let mut options = OpenOptions::new();
        let mut file =
            file_mode::open_private(options.write(true).create(true).truncate(true)).open(&unready)?;
        let written = file_mode::make_private(&file)
            .and_then(|()| writeln!(file, "{digits}"))
            .and_then(|()| file.sync_all())
            // Unlike a rename, a link does not replace a file.
            .and_then(|()| fs::hard_link(&unready, &self.path));
        let _ = fs::remove_file(&unready);
        match written {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            // Without its key the state is lost, so the name of the key must survive a loss of power as well.
            Ok(()) => file_mode::sync_folder_of(&self.path),
            written => written,
        }
    }

    fn error(&self, verb: &str, error: &io::Error) -> CliError {
        state_error(format!("cannot {verb} the key in {}", self.path.display()))
            .detail(error.to_string())
            .hint(format!("{KEYS_VARIABLE} replaces the file"))
    }
}

const KEYS_VARIABLE: &str = "TSUGITE_SEAL_KEYS";
const MAKE_KEY: &str = "`openssl rand -hex 32` makes a key";
const MAX_FILE_BYTES: u64 = 4096;
