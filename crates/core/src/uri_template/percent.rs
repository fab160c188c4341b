//! Which characters a URI may hold, and percent-encoding, there and back.

use std::borrow::Cow;

/// What expansion leaves as it is (RFC 6570, section 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowedChars {
    /// "U": unreserved characters.
    Unreserved,
    /// "U+R": these, reserved characters, and whatever is a percent-triplet already.
    Reserved,
}

/// Appends `text`, percent-encoding what is not kept.
pub(super) fn encode(text: &str, keep: AllowedChars, into: &mut String) {
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let kept = is_unreserved(*byte)
            || keep == AllowedChars::Reserved && (is_reserved(*byte) || decode_triplet(rest).is_some());
        if kept {
            into.push(char::from(*byte));
        } else {
            push_triplet(*byte, into);
        }
        rest = after;
    }
}

/// The spelling in which template and URI are compared: ASCII only, `%2F` rather than `%2f`.
///
/// What no URI may hold stays as it is; [`decode`] stumbles over it.
pub(super) fn canonicalize(text: &str) -> Cow<'_, str> {
    if text.is_ascii() && !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        if let Some(encoded) = decode_triplet(rest) {
            push_triplet(encoded, &mut out);
            rest = after.get(2..).unwrap_or_default();
            continue;
        }
        if byte.is_ascii() {
            out.push(char::from(*byte));
        } else {
            push_triplet(*byte, &mut out);
        }
        rest = after;
    }
    Cow::Owned(out)
}

/// The text that a canonical piece of a URI stands for; `None` when it is no piece of a URI or not UTF-8.
///
/// Raw control characters and `\` pass, though no URI may hold them: the screening has a better word for
/// these.
pub(super) fn decode(canonical: &str) -> Option<String> {
    let mut out = Vec::with_capacity(canonical.len());
    let mut rest = canonical.as_bytes();
    while let [byte, after @ ..] = rest {
        match byte {
            b'%' => {
                out.push(decode_triplet(rest)?);
                rest = after.get(2..)?;
                continue;
            }
            b' ' | b'"' | b'<' | b'>' | b'^' | b'`' | b'{' | b'|' | b'}' => return None,
            _ => out.push(*byte),
        }
        rest = after;
    }
    String::from_utf8(out).ok()
}

/// The byte that a leading `%XX` stands for.
pub(super) fn decode_triplet(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = bytes else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// RFC 3986, section 2.3.
pub(super) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// RFC 3986, section 2.2.
pub(super) fn is_reserved(byte: u8) -> bool {
    matches!(
        byte,
        b':' | b'/' | b'?' | b'#' | b'[' | b']' | b'@' // gen-delims
            | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' // sub-delims
    )
}

fn push_triplet(byte: u8, into: &mut String) {
    let digit = |half: u8| char::from(if half < 10 { b'0' + half } else { b'A' + half - 10 });
    into.extend(['%', digit(byte >> 4), digit(byte & 0xF)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_spelling_has_capital_digits_and_no_raw_letter_beyond_ascii() {
        assert_eq!(canonicalize("a%2fb"), "a%2Fb");
        assert_eq!(canonicalize("café"), "caf%C3%A9");
        assert_eq!(canonicalize("%zz%4"), "%zz%4");
        assert!(matches!(canonicalize("plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn a_text_is_decoded_once() {
        assert_eq!(decode("%252e").as_deref(), Some("%2e"));
        assert_eq!(decode("caf%C3%A9").as_deref(), Some("café"));
    }

    #[test]
    fn what_no_uri_may_hold_is_not_decoded() {
        for text in ["%", "%4", "%zz", "%FF", "%C3", "a b", "{id}", "<", "`"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
