//! The toolchains that `toolchain.sh` makes below the target folder.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::process::{self, ChildProcess};

/// A part that `toolchain.sh` makes.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// Compilers and standard libraries for Windows and macOS. The others need it.
    Check,
    Wine,
    /// Static Linux binaries, and qemu.
    Musl,
}

/// A folder with toolchains.
pub(super) struct Toolchain {
    folder: PathBuf,
}

impl Toolchain {
    /// Makes what is missing of some parts. Fails if that is not possible on this machine or one takes longer than `limit`.
    pub(super) fn make(parts: &[Part], limit: Duration) -> Result<Self, String> {
        let folder = Self::folder()?;
        let script = process::root().join("xtask/src/platforms/toolchain.sh");
        for part in parts {
            let mut command = process::program("bash", []);
            command.arg(&script).arg(&folder).arg(match part {
                Part::Check => "check",
                Part::Wine => "wine",
                Part::Musl => "musl",
            });
            let status = ChildProcess::start_group(command)?.wait_with_timeout(limit)?;
            if !status.success() {
                return Err(format!("toolchain.sh exited with {status}; see above"));
            }
        }
        Ok(Self { folder })
    }

    fn folder() -> Result<PathBuf, String> {
        Ok(process::target_dir()?.join("platforms"))
    }

    /// A path in the folder.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// The type check of everything for a target.
    pub(super) fn check(&self, target: &str) -> Command {
        let args = ["check", "--workspace", "--all-targets", "--all-features", "--locked", "--quiet"];
        self.prepare(process::cargo(args.into_iter().chain(["--target", target])))
    }

    /// Gives a command the compiler, linkers and runners of this folder.
    pub(super) fn prepare(&self, mut command: Command) -> Command {
        let path = env::var_os("PATH").unwrap_or_default();
        let own = ["toolchain/bin", "bin", "system/usr/bin", "zig/bin"].map(|folder| self.path(folder));
        let joined: OsString =
            env::join_paths(own.into_iter().chain(env::split_paths(&path))).unwrap_or(path);
        // `cargo run` puts the libraries of its compiler into `LD_LIBRARY_PATH`, and rustc would take them for its own.
        command.env("PATH", joined).env_remove("RUSTUP_TOOLCHAIN").env_remove("LD_LIBRARY_PATH");
        command
            .env("RUSTC", self.path("toolchain/bin/rustc"))
            .env("RUSTDOC", self.path("toolchain/bin/rustdoc"));
        command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", self.path("bin/in-wine"));
        command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", "x86_64-w64-mingw32-gcc");
        command.env("CC_aarch64_apple_darwin", self.path("bin/zig-cc-macos")).env("SDKROOT", "/");
        command
    }
}
