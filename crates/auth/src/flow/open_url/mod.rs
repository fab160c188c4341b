//! The program that opens a URL in the browser, by platform.

#[cfg(target_os = "macos")]
mod macos;
#[cfg(not(any(target_os = "macos", windows)))]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "macos")]
pub(super) use macos::OPENER;
#[cfg(not(any(target_os = "macos", windows)))]
pub(super) use unix::OPENER;
#[cfg(windows)]
pub(super) use windows::OPENER;
