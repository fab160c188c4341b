//! The Lua scripts, and how they are run.

use std::sync::OnceLock;

use bytes::Bytes;
use redis::Cmd;

pub(crate) static COMMIT: Script = Script::new(include_str!("scripts/commit.lua"));
pub(crate) static LIST: Script = Script::new(include_str!("scripts/list.lua"));
pub(crate) static TAKE: Script = Script::new(include_str!("scripts/take.lua"));
pub(crate) static SPEND: Script = Script::new(include_str!("scripts/spend.lua"));
pub(crate) static READ_LOG: Script = Script::new(include_str!("scripts/read_log.lua"));
pub(crate) static START: Script = Script::new(include_str!("scripts/start.lua"));
pub(crate) static CHECK: Script = Script::new(include_str!("scripts/check.lua"));
pub(crate) static RENEW: Script = Script::new(include_str!("scripts/renew.lua"));
pub(crate) static PERMISSIONS: Script = Script::new(include_str!("scripts/permissions.lua"));

/// A script, and its hash as soon as a server has told it.
pub(crate) struct Script {
    text: &'static str,
    hash: OnceLock<String>,
}

impl Script {
    const fn new(text: &'static str) -> Self {
        Self { text, hash: OnceLock::new() }
    }
}

/// A request to the server: a command, or a script with its keys and arguments.
pub(crate) enum Request {
    Command(Cmd),
    Script(Call),
}

/// A call of a script.
pub(crate) struct Call {
    script: &'static Script,
    keys: Vec<String>,
    args: Vec<Bytes>,
}

impl Call {
    pub(crate) fn new(script: &'static Script) -> Self {
        Self { script, keys: Vec::new(), args: Vec::new() }
    }

    pub(crate) fn key(mut self, key: String) -> Self {
        self.push_key(key);
        self
    }

    pub(crate) fn arg(mut self, arg: impl ToString) -> Self {
        self.push(arg.to_string());
        self
    }

    pub(crate) fn push_key(&mut self, key: String) {
        self.keys.push(key);
    }

    pub(crate) fn push(&mut self, arg: impl Into<Bytes>) {
        self.args.push(arg.into());
    }

    /// The command that runs the script; `None` before its hash is known.
    pub(crate) fn command(&self) -> Option<Cmd> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.script.hash.get()?).arg(self.keys.len()).arg(&self.keys);
        for arg in &self.args {
            command.arg(&**arg);
        }
        Some(command)
    }

    /// The command that loads the script. Its reply is the hash.
    pub(crate) fn load_command(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(self.script.text);
        command
    }

    pub(crate) fn set_hash(&self, hash: String) {
        let _ = self.script.hash.set(hash);
    }
}
