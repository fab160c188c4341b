//! Base64 (RFC 4648): padded for blobs and headers, and the URL alphabet without padding.
//!
//! Decoding is strict, so that each value has exactly one encoding: no whitespace, no missing or surplus padding, no
//! surplus bits.

/// Encodes bytes in the standard alphabet, padded.
///
/// ```
/// use tsugite_core::base64;
///
/// assert_eq!(base64::encode("継手".as_bytes()), "57aZ5omL");
/// assert_eq!(base64::decode("57aZ5omL").as_deref(), Some("継手".as_bytes()));
/// ```
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes the output of [`encode`]; `None` if the text is not exactly what `encode` would have written.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    STANDARD.decode(digits)
}

/// Encodes bytes in the URL and file name alphabet, without padding.
pub fn encode_url(bytes: &[u8]) -> String {
    URL.encode(bytes)
}

/// Decodes the output of [`encode_url`]; `None` if the text is not exactly what `encode_url` would have written.
pub fn decode_url(text: &str) -> Option<Vec<u8>> {
    URL.decode(text)
}

static STANDARD: Alphabet =
    Alphabet::new(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", Some(b'='));
static URL: Alphabet =
    Alphabet::new(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", None);

struct Alphabet {
    symbols: [u8; 64],
    /// The value of each byte, or [`INVALID`].
    values: [u8; 256],
    padding: Option<u8>,
}

/// More than six bits, so that it is visible in the union of several values.
const INVALID: u8 = 0xff;

impl Alphabet {
    #[expect(
        clippy::indexing_slicing,
        reason = "runs at compile time, where a panic is an error of the build"
    )]
    const fn new(letters: &[u8; 64], padding: Option<u8>) -> Self {
        let mut values = [INVALID; 256];
        let mut value = 0;
        while value < 64 {
            values[letters[value as usize] as usize] = value;
            value += 1;
        }
        Self { symbols: *letters, values, padding }
    }

    fn encode(&self, bytes: &[u8]) -> String {
        let (groups, rest) = bytes.as_chunks::<3>();
        let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
        // Resized once and then written in place: appending group by group would check the capacity each time.
        out.resize(groups.len() * 4, 0);
        for (group, place) in groups.iter().zip(out.as_chunks_mut::<4>().0) {
            *place = self.encode_group(*group);
        }
        let last = match *rest {
            [a] => Some((self.encode_group([a, 0, 0]), 2)),
            [a, b] => Some((self.encode_group([a, b, 0]), 3)),
            _ => None,
        };
        if let Some((letters, count)) = last {
            out.extend(letters.iter().take(count));
        }
        if let Some(padding) = self.padding {
            out.resize(out.len().next_multiple_of(4), padding);
        }
        // Always ASCII.
        String::from_utf8(out).unwrap_or_default()
    }

    fn encode_group(&self, [a, b, c]: [u8; 3]) -> [u8; 4] {
        let word = u32::from_be_bytes([0, a, b, c]);
        // A six-bit index into 64 symbols: the compiler drops the bounds check.
        [18, 12, 6, 0].map(|shift| self.symbols.get((word >> shift & 63) as usize).copied().unwrap_or(0))
    }

    fn decode(&self, digits: &str) -> Option<Vec<u8>> {
        let (groups, rest) = digits.as_bytes().as_chunks::<4>();
        let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
        out.resize(groups.len() * 3, 0);
        let mut seen = 0;
        for (group, place) in groups.iter().zip(out.as_chunks_mut::<3>().0) {
            let (bytes, values) = self.decode_group(*group);
            *place = bytes;
            seen |= values;
        }
        let (last, count) = match *rest {
            [] => ([b'A'; 4], 0),
            [a, b] => ([a, b, b'A', b'A'], 1),
            [a, b, c] => ([a, b, c, b'A'], 2),
            _ => return None,
        };
        let (bytes, values) = self.decode_group(last);
        let (bytes, unused) = bytes.split_at_checked(count)?;
        if (seen | values) > 63 || unused.iter().any(|byte| *byte != 0) {
            return None;
        }
        out.extend_from_slice(bytes);
        Some(out)
    }

    /// Decodes four symbols into three bytes, and returns the union of their four values.
    fn decode_group(&self, letters: [u8; 4]) -> ([u8; 3], u8) {
        let [a, b, c, d] = letters.map(|letter| self.value(letter));
        let word = [a, b, c, d].iter().fold(0u32, |word, value| word << 6 | u32::from(*value & 63));
        let [_, first, second, third] = word.to_be_bytes();
        ([first, second, third], a | b | c | d)
    }

    fn value(&self, letter: u8) -> u8 {
        self.values.get(usize::from(letter)).copied().unwrap_or(INVALID)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_examples_encode_as_printed() {
        let examples = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, padded) in examples {
            assert_eq!(encode(plain.as_bytes()), padded);
            assert_eq!(decode(padded).as_deref(), Some(plain.as_bytes()));
            let bare = padded.trim_end_matches('=');
            assert_eq!(encode_url(plain.as_bytes()), bare);
            assert_eq!(decode_url(bare).as_deref(), Some(plain.as_bytes()));
        }
    }

    #[test]
    fn every_byte_value_and_length_round_trips() {
        let bytes: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        for start in [0, 1, 2] {
            for end in start..bytes.len() {
                let bytes = &bytes[start..end];
                assert_eq!(decode(&encode(bytes)).as_deref(), Some(bytes));
                assert_eq!(decode_url(&encode_url(bytes)).as_deref(), Some(bytes));
            }
        }
    }

    #[test]
    fn alphabets_differ_in_two_symbols() {
        assert_eq!(encode(&[0xfb, 0xef, 0xff]), "++//");
        assert_eq!(encode_url(&[0xfb, 0xef, 0xff]), "--__");
        assert_eq!(decode("--__"), None);
        assert_eq!(decode_url("++//"), None);
    }

    #[test]
    fn value_has_one_encoding() {
        let bad = [
            "Y", "YQ", "YQ=", "YQ===", "=", "==", "===", "====", "A===", "YWJj====", "YWJj=", "YR==", "YWK=",
            "Y*==", "Y Q=", "YQ==YQ==", " YQ==", "YQ==\n", "YW\0j", "YWé",
        ];
        for text in bad {
            assert_eq!(decode(text), None, "{text:?}");
        }
        for text in ["Y", "YQ=", "YQ==", "YR", "YWK", "YWJjY", "Y*", "Y Q", "YQ\n", "é", "YWJé"] {
            assert_eq!(decode_url(text), None, "{text:?}");
        }
        // Of all pairs of symbols, exactly those without surplus bits decode to a byte.
        let pairs = URL.symbols.iter().flat_map(|a| URL.symbols.iter().map(move |b| [*a, *b]));
        let good = pairs.filter_map(|pair| decode_url(std::str::from_utf8(&pair).unwrap()));
        assert_eq!(good.count(), 256);
    }
}
