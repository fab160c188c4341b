//! The platforms of a release, with the names that each kind of package has for them.

use std::env::consts::{ARCH, OS};

/// A platform.
pub(super) struct Target {
    /// The name of rustc.
    pub(super) triple: &'static str,
    /// `os` and `cpu` in a package of npm.
    pub(super) npm: (&'static str, &'static str),
    /// The name in an image, if there is one for it.
    pub(super) image: Option<&'static str>,
}

impl Target {
    /// The platform of a name of rustc.
    pub(super) fn named(name: &str) -> Result<&'static Self, String> {
        ALL.into_iter().find(|target| target.triple == name).ok_or_else(|| {
            format!("no release for {name}\n  try: {}", ALL.map(|target| target.triple).join(", "))
        })
    }

    /// The platform of this machine.
    pub(super) fn host() -> Result<&'static Self, String> {
        let npm = (
            if OS == "macos" {
                "darwin"
            } else if OS == "windows" {
                "win32"
            } else {
                OS
            },
            if ARCH == "x86_64" {
                "x64"
            } else if ARCH == "aarch64" {
                "arm64"
            } else {
                ARCH
            },
        );
        let found = ALL.into_iter().find(|target| target.npm == npm);
        found.ok_or_else(|| format!("no release for {OS} on {ARCH}"))
    }

    pub(super) fn is_windows(&self) -> bool {
        self.npm.0 == "win32"
    }

    /// The file name of the program.
    pub(super) fn program(&self) -> &'static str {
        if self.is_windows() { "tsugite.exe" } else { "tsugite" }
    }

    /// The name of its package of npm.
    pub(super) fn npm_package(&self) -> String {
        format!("tsugite-{}-{}", self.npm.0, self.npm.1)
    }

    /// The name of its archive without the ending, which is also that of the folder in it.
    pub(super) fn archive_stem(&self, version: &str) -> String {
        format!("tsugite-{version}-{}", self.triple)
    }

    /// The file name of its archive.
    pub(super) fn archive(&self, version: &str) -> String {
        format!("{}.{}", self.archive_stem(version), if self.is_windows() { "zip" } else { "tar.gz" })
    }
}

/// All platforms of a release.
pub(super) const ALL: [&Target; 5] = [
    &Target { triple: "x86_64-unknown-linux-musl", npm: ("linux", "x64"), image: Some("amd64") },
    &Target { triple: "aarch64-unknown-linux-musl", npm: ("linux", "arm64"), image: Some("arm64") },
    &Target { triple: "x86_64-apple-darwin", npm: ("darwin", "x64"), image: None },
    &Target { triple: "aarch64-apple-darwin", npm: ("darwin", "arm64"), image: None },
    &Target { triple: "x86_64-pc-windows-msvc", npm: ("win32", "x64"), image: None },
];
