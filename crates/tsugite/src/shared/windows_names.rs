//! Names of files on Windows, as text, so that other systems can test this too.

/// Whether a name of a path is that of a file or a folder on every version of Windows: no stream of a file (`a:b`), no device
/// (`NUL`, `com1.txt`), no control character, and no dot or blank at the end, which the system drops.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let stem = name.split(['.', ':']).next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let is_numbered = |device: &str| {
        let number = stem.strip_prefix(device).unwrap_or_default();
        number.chars().count() == 1
            && number.contains(|letter: char| letter.is_ascii_digit() || "¹²³".contains(letter))
    };
    let is_device = matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" | "CLOCK$")
        || is_numbered("COM")
        || is_numbered("LPT");
    !is_device
        && !name.contains(|letter: char| letter.is_control() || ":<>\"|?*".contains(letter))
        && !name.ends_with(['.', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_and_streams_are_refused() {
        for name in [
            "NUL",
            "nul.txt",
            "con",
            "COM1",
            "com1.log",
            "LPT²",
            "aux ",
            "a:b",
            "a.txt::$DATA",
            "a.",
            "a ",
            "a?",
            "a\n",
            "a\u{85}b",
        ] {
            assert!(!is_plain_name(name), "{name:?}");
        }
        for name in ["null", "com", "com10", "console.txt", "a.b", "日本", ".a", "lpt-1"] {
            assert!(is_plain_name(name), "{name:?}");
        }
    }
}
