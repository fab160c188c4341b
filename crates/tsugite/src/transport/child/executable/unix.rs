//! Executable files on Unix: the mode of a file decides.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

/// Whether a program is named by a path, which is not searched in `PATH`.
pub(in crate::transport::child) fn is_path(program: &OsStr) -> bool {
    program.as_encoded_bytes().contains(&b'/')
}

/// The folder that an entry of `PATH` means. An empty one means the working directory, which is written out: a name without
/// a slash would be searched in `PATH` again.
pub(in crate::transport::child) fn search_folder(entry: PathBuf) -> Option<PathBuf> {
    Some(if entry.as_os_str().is_empty() { PathBuf::from(".") } else { entry })
}

/// The files that a path may mean.
pub(in crate::transport::child) fn candidates(path: &Path, _: Option<&OsStr>) -> [PathBuf; 1] {
    [path.into()]
}

/// Whether we may execute a file.
pub(in crate::transport::child) fn is_executable(file: &Path) -> bool {
    access(file, Access::EXEC_OK).is_ok()
}

/// Whether we may enter a folder.
pub(in crate::transport::child) fn can_enter(folder: &Path) -> bool {
    access(folder, Access::EXEC_OK).is_ok()
}

/// Explains why an executable file could not be started.
pub(in crate::transport::child) fn start_error(file: &Path, error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => match interpreter(file) {
            Some(interpreter) => format!("its interpreter {interpreter:?} does not exist"),
            None => "the loader it needs does not exist, or it was deleted just now".into(),
        },
        Some(Errno::NOEXEC) => {
            "it is not a program for this machine; a script begins with a line such as #!/bin/sh".into()
        }
        Some(Errno::TOOBIG) => "its arguments and its environment are too long".into(),
        _ => error.to_string(),
    }
}

/// Returns the interpreter that the first line of a script names.
fn interpreter(program: &Path) -> Option<String> {
    let mut first = Vec::new();
    File::open(program).ok()?.take(MAX_SHEBANG_BYTES).read_to_end(&mut first).ok()?;
    let line = first.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let name = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// How many bytes of the first line Linux reads.
const MAX_SHEBANG_BYTES: u64 = 256;
