//! Seal keys as text: in hexadecimal, newest first, separated by commas.

use std::env::{self, VarError};
use std::fmt;
use std::str::FromStr;

use super::seal::{SealKey, SealKeys};

impl SealKeys {
    /// Reads keys from an environment variable: 32 bytes each in hexadecimal, newest first, separated by commas. Spaces and
    /// line breaks around a key do not count.
    ///
    /// Fails if the variable is not set, is empty, or has a part that is not a key. The error contains the name of the
    /// variable and nothing of its value.
    pub fn from_env(name: &str) -> Result<Self, SealKeysError> {
        let fails = |reason| Err(SealKeysError { variable: Some(name.to_owned()), reason });
        match env::var(name) {
            Ok(text) => parse(&text).or_else(fails),
            Err(VarError::NotPresent) => fails(Reason::NotSet),
            Err(VarError::NotUnicode(_)) => fails(Reason::NotUnicode),
        }
    }
}

/// Reads keys from text of the same form as [`SealKeys::from_env`], such as the contents of a file.
impl FromStr for SealKeys {
    type Err = SealKeysError;

    fn from_str(text: &str) -> Result<Self, SealKeysError> {
        parse(text).map_err(|reason| SealKeysError { variable: None, reason })
    }
}

/// The reason why text does not hold seal keys. It contains nothing of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealKeysError {
    /// The environment variable that the text is from.
    variable: Option<String>,
    reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reason {
    NotSet,
    NotUnicode,
    Empty,
    WrongLength { number: usize, digits: usize },
    NotHex { number: usize },
}

impl fmt::Display for SealKeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.variable {
            Some(name) => write!(f, "the environment variable {name} ")?,
            None => f.write_str("the text ")?,
        }
        match self.reason {
            Reason::NotSet => f.write_str("is not set")?,
            Reason::NotUnicode => f.write_str("is not text")?,
            Reason::Empty => f.write_str("holds no key")?,
            Reason::WrongLength { number, digits } => {
                write!(f, "holds a key (number {number}) of {digits} characters")?;
            }
            Reason::NotHex { number } => {
                write!(f, "holds a key (number {number}) with a character that is not a hexadecimal digit")?;
            }
        }
        f.write_str("; expected keys of 64 hexadecimal digits each, newest first, separated by commas")
    }
}

impl std::error::Error for SealKeysError {}

fn parse(text: &str) -> Result<SealKeys, Reason> {
    if text.trim().is_empty() {
        return Err(Reason::Empty);
    }
    let mut keys: Option<SealKeys> = None;
    for (index, digits) in text.split(',').enumerate() {
        let key = parse_key(index + 1, digits.trim())?;
        keys = Some(match keys {
            Some(keys) => keys.older(key),
            None => SealKeys::new(key),
        });
    }
    keys.ok_or(Reason::Empty)
}

fn parse_key(number: usize, digits: &str) -> Result<SealKey, Reason> {
    let length = digits.chars().count();
    if length != 2 * KEY_LEN {
        return Err(Reason::WrongLength { number, digits: length });
    }
    let mut bytes = [0; KEY_LEN];
    let mut values = digits.chars().map(|digit| digit.to_digit(16));
    for byte in &mut bytes {
        let (Some(Some(high)), Some(Some(low))) = (values.next(), values.next()) else {
            return Err(Reason::NotHex { number });
        };
        // Two digits are at most 255.
        *byte = (high << 4 | low) as u8;
    }
    Ok(SealKey::new(bytes))
}

const KEY_LEN: usize = 32;

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn hex(byte: u8) -> String {
        format!("{byte:02x}").repeat(KEY_LEN)
    }

    #[test]
    fn first_key_seals_and_all_open() {
        // M-12
        let text = format!(" {},\n{}, {}\n", hex(0xa1), hex(2).to_uppercase(), hex(3));
        let keys: SealKeys = text.parse().unwrap();
        let expires = UNIX_EPOCH + Duration::from_secs(60);
        let sealed_by = |byte| SealKeys::new(SealKey::new([byte; KEY_LEN])).seal(b"x", &[], expires).unwrap();
        for byte in [0xa1, 2, 3] {
            assert_eq!(keys.open(&sealed_by(byte), &[], UNIX_EPOCH, 4096).as_deref(), Ok(&b"x"[..]));
        }
        assert!(keys.open(&sealed_by(4), &[], UNIX_EPOCH, 4096).is_err());
        let newest = SealKeys::new(SealKey::new([0xa1; KEY_LEN]));
        let sealed = keys.seal(b"x", &[], expires).unwrap();
        assert!(newest.open(&sealed, &[], UNIX_EPOCH, 4096).is_ok());
    }

    #[test]
    fn wrong_text_is_refused_without_showing_it() {
        let cases = [
            (String::new(), "holds no key"),
            (" \n".to_owned(), "holds no key"),
            ("5ec2e7".to_owned(), "(number 1) of 6 characters"),
            (format!("{},", hex(1)), "(number 2) of 0 characters"),
            (format!("{}{}", hex(1), hex(2)), "(number 1) of 128 characters"),
            (format!("{},{}", hex(1), "5ec2e7zz".repeat(8)), "(number 2) with a character"),
            ("5ec2e7é_".repeat(8), "(number 1) with a character"),
            ("５".repeat(64), "(number 1) with a character"),
        ];
        for (text, expected) in cases {
            let error = text.parse::<SealKeys>().unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!format!("{error} {error:?}").contains("5ec2e7"), "{error:?}");
        }
    }

    #[test]
    fn missing_variable_is_named() {
        let error = SealKeys::from_env("TSUGITE_NO_SUCH_VARIABLE").unwrap_err();
        assert!(
            error.to_string().starts_with("the environment variable TSUGITE_NO_SUCH_VARIABLE is not set;")
        );
        // A variable that is always set, and is no key.
        let error = SealKeys::from_env("CARGO_MANIFEST_DIR").unwrap_err();
        assert!(error.to_string().starts_with("the environment variable CARGO_MANIFEST_DIR holds a key"));
    }
}
