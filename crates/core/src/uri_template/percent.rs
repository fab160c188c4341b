//! The characters of a URI, and percent-encoding and -decoding.

use std::borrow::Cow;

/// The characters that expansion does not encode (RFC 6570, section 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowedChars {
    /// "U": unreserved characters.
    Unreserved,
    /// "U+R": also reserved characters and existing percent-triplets.
    Reserved,
}

/// Appends `text`, percent-encoding the characters that are not allowed.
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

/// The form in which template and URI are compared: ASCII only, `%2F` rather than `%2f`.
///
/// Characters that are invalid in a URI stay as they are; [`decode`] rejects them.
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

/// Decodes a canonical piece of a URI; `None` if it is not valid in a URI or not UTF-8.
///
/// Raw control characters and `\` pass, though they are invalid in a URI: the value check reports them more precisely.
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

/// The byte of a leading `%XX`.
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
    fn canonical_form_is_ascii_with_uppercase_triplets() {
        assert_eq!(canonicalize("a%2fb"), "a%2Fb");
        assert_eq!(canonicalize("café"), "caf%C3%A9");
        assert_eq!(canonicalize("%zz%4"), "%zz%4");
        assert!(matches!(canonicalize("plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn text_is_decoded_once() {
        assert_eq!(decode("%252e").as_deref(), Some("%2e"));
        assert_eq!(decode("caf%C3%A9").as_deref(), Some("café"));
    }

    #[test]
    fn invalid_uri_characters_are_not_decoded() {
        for text in ["%", "%4", "%zz", "%FF", "%C3", "a b", "{id}", "<", "`"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
