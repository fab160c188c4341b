//! Environment variables on Windows.

use std::ffi::OsStr;

/// Whether two names are the same variable: the system writes `Path` where others write `PATH`.
pub(in crate::transport::child) fn same_name(one: &OsStr, other: &OsStr) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// The variables that every server inherits: those that the official SDKs pass, and those without which sockets, scripts or
/// temporary files fail.
pub(in crate::transport::child) const DEFAULT_ENV: [&str; 24] = [
    "ALLUSERSPROFILE",
    "APPDATA",
    "COMPUTERNAME",
    "COMSPEC",
    "HOME",
    "HOMEDRIVE",
    "HOMEPATH",
    "LANG",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERDOMAIN",
    "USERNAME",
    "USERPROFILE",
];

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::super::Command;

    #[test]
    fn names_of_variables_are_compared_without_case() {
        let ours = || {
            [("Path", "C:\\bin"), ("SystemRoot", "C:\\Windows"), ("Token", "t"), ("Other", "o")]
                .map(|(name, value)| (OsString::from(name), OsString::from(value)))
        };
        let variables = |command: Command| -> Vec<(String, String)> {
            let all = command.environment(ours()).into_iter();
            all.map(|(name, value)| (name.into_string().unwrap(), value.into_string().unwrap())).collect()
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let (path, root) = (pair("Path", "C:\\bin"), pair("SystemRoot", "C:\\Windows"));
        assert_eq!(variables(Command::new("x")), [path.clone(), root.clone()]);
        assert_eq!(
            variables(Command::new("x").pass_env("TOKEN")),
            [path.clone(), root.clone(), pair("Token", "t")]
        );
        assert_eq!(
            variables(Command::new("x").env("PATH", "D:\\").env("path", "E:\\")),
            [root.clone(), pair("path", "E:\\")]
        );
        assert_eq!(
            variables(Command::new("x").inherit_env().env_remove("other").env_remove("TOKEN")),
            [path, root]
        );
    }
}
