//! Decodes the bytes of a terminal into keys.

/// A key press.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// Typed or pasted text.
    Text(String),
    Enter,
    Tab,
    Backspace,
    Delete,
    Left,
    Right,
    WordLeft,
    WordRight,
    Home,
    End,
    Up,
    Down,
    KillToEnd,
    KillToStart,
    KillWord,
    Yank,
    ClearScreen,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D: end of input on an empty line, otherwise delete.
    EndOrDelete,
    /// A key without a function.
    Other,
}

/// Decodes keys from a stream of bytes. It also buffers what was typed ahead.
#[derive(Default)]
pub(super) struct KeyDecoder {
    bytes: Vec<u8>,
}

impl KeyDecoder {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next key; `None` if more bytes are needed.
    pub(super) fn next(&mut self) -> Option<Key> {
        let (key, length) = decode_key(&self.bytes)?;
        self.bytes.drain(..length);
        Some(key)
    }

    /// Whether an incomplete key is buffered: Escape, or the beginning of a sequence.
    pub(super) fn has_partial_key(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Discards an incomplete key after a timeout. An incomplete paste is kept.
    pub(super) fn discard_partial_key(&mut self) {
        if !self.bytes.starts_with(PASTE_START) {
            self.bytes.clear();
        }
    }
}

/// Decodes the first key, and returns its length in bytes.
fn decode_key(bytes: &[u8]) -> Option<(Key, usize)> {
    let key = match bytes.first()? {
        0x1b => return decode_escape(bytes),
        b'\r' | b'\n' => Key::Enter,
        b'\t' => Key::Tab,
        0x7f | 0x08 => Key::Backspace,
        0x01 => Key::Home,
        0x02 => Key::Left,
        0x03 => Key::Interrupt,
        0x04 => Key::EndOrDelete,
        0x05 => Key::End,
        0x06 => Key::Right,
        0x0b => Key::KillToEnd,
        0x0c => Key::ClearScreen,
        0x0e => Key::Down,
        0x10 => Key::Up,
        0x15 => Key::KillToStart,
        0x17 => Key::KillWord,
        0x19 => Key::Yank,
        0x00..=0x1f => Key::Other,
        _ => return decode_text(bytes),
    };
    Some((key, 1))
}

/// Decodes all text up to the next control character.
fn decode_text(bytes: &[u8]) -> Option<(Key, usize)> {
    let end = bytes.iter().position(|byte| *byte < b' ' || *byte == 0x7f).unwrap_or(bytes.len());
    let bytes = bytes.get(..end)?;
    let whole = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(wrong) => match (wrong.valid_up_to(), wrong.error_len()) {
            // The character is incomplete.
            (0, None) if end < 4 => return None,
            (0, length) => return Some((Key::Other, length.unwrap_or(end))),
            (valid, _) => std::str::from_utf8(bytes.get(..valid)?).ok()?,
        },
    };
    // Drop C1 control characters.
    let text: String = whole.chars().filter(|letter| !letter.is_control()).collect();
    Some((if text.is_empty() { Key::Other } else { Key::Text(text) }, whole.len()))
}

fn decode_escape(bytes: &[u8]) -> Option<(Key, usize)> {
    if let Some(pasted) = bytes.strip_prefix(PASTE_START) {
        let length = pasted.windows(PASTE_END.len()).position(|window| window == PASTE_END)?;
        let text = String::from_utf8_lossy(pasted.get(..length)?);
        // Join the lines, so that a paste never runs a command by itself.
        let text: String = text
            .replace("\r\n", " ")
            .chars()
            .map(|letter| if matches!(letter, '\n' | '\r' | '\t') { ' ' } else { letter })
            .filter(|letter| !letter.is_control())
            .collect();
        return Some((Key::Text(text), PASTE_START.len() + length + PASTE_END.len()));
    }
    let key = match bytes.get(1)? {
        b'[' => return decode_csi(bytes),
        b'O' => {
            let key = csi_key(*bytes.get(2)?, "");
            return Some((key, 3));
        }
        b'b' => Key::WordLeft,
        b'f' => Key::WordRight,
        0x7f => Key::KillWord,
        // Escape, followed by another sequence.
        0x1b => return Some((Key::Other, 1)),
        _ => Key::Other,
    };
    Some((key, 2))
}

/// Decodes `ESC [ parameters letter`.
fn decode_csi(bytes: &[u8]) -> Option<(Key, usize)> {
    let parameters = bytes.get(2..)?;
    let length = parameters.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
    let last = *parameters.get(length)?;
    let parameters = std::str::from_utf8(parameters.get(..length)?).unwrap_or_default();
    Some((csi_key(last, parameters), 2 + length + 1))
}

fn csi_key(last: u8, parameters: &str) -> Key {
    // With Ctrl or Alt the cursor moves by a word.
    let by_word = matches!(parameters, "1;5" | "1;3");
    match (last, parameters) {
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'C', _) if by_word => Key::WordRight,
        (b'D', _) if by_word => Key::WordLeft,
        (b'C', _) => Key::Right,
        (b'D', _) => Key::Left,
        (b'H', _) | (b'~', "1" | "7") => Key::Home,
        (b'F', _) | (b'~', "4" | "8") => Key::End,
        (b'~', "3") => Key::Delete,
        _ => Key::Other,
    }
}

/// The markers around pasted text (bracketed paste).
const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        // All at once and byte by byte must give the same keys.
        let mut whole = KeyDecoder::default();
        whole.feed(bytes);
        let whole: Vec<Key> = std::iter::from_fn(|| whole.next()).collect();
        let mut slow = KeyDecoder::default();
        let mut typed = Vec::new();
        for byte in bytes {
            slow.feed(&[*byte]);
            typed.extend(std::iter::from_fn(|| slow.next()));
        }
        let joined = |keys: Vec<Key>| {
            keys.into_iter().fold(Vec::new(), |mut all: Vec<Key>, key| {
                match (all.last_mut(), key) {
                    (Some(Key::Text(before)), Key::Text(text)) => before.push_str(&text),
                    (_, key) => all.push(key),
                }
                all
            })
        };
        let whole = joined(whole);
        assert_eq!(whole, joined(typed), "{bytes:?}");
        whole
    }

    #[test]
    fn text_and_keys_are_decoded() {
        let text = |text: &str| Key::Text(text.to_owned());
        assert_eq!(keys("list\r".as_bytes()), [text("list"), Key::Enter]);
        assert_eq!(keys("継手\t".as_bytes()), [text("継手"), Key::Tab]);
        assert_eq!(keys(b"\x1b[A\x1b[B\x1bOC\x1b[1;5D"), [Key::Up, Key::Down, Key::Right, Key::WordLeft]);
        assert_eq!(keys(b"\x1b[3~\x1b[H\x1b[4~\x7f"), [Key::Delete, Key::Home, Key::End, Key::Backspace]);
        assert_eq!(
            keys(b"\x03\x04a\x1bfb"),
            [Key::Interrupt, Key::EndOrDelete, text("a"), Key::WordRight, text("b")]
        );
        assert_eq!(keys(b"\x1b[99;99;99u\x1b[Zx"), [Key::Other, Key::Other, text("x")]);
    }

    #[test]
    fn pasted_text_is_one_line() {
        let pasted = keys(b"\x1b[200~a\nb\r\nc\td\x1b[2J\x07\x1b[201~!");
        assert_eq!(pasted, [Key::Text("a b c d[2J!".to_owned())]);
    }

    #[test]
    fn invalid_bytes_are_skipped() {
        assert_eq!(
            keys(b"\xffa\xc3\x28"),
            [Key::Other, Key::Text("a".to_owned()), Key::Other, Key::Text("(".to_owned())]
        );
        let mut alone = KeyDecoder::default();
        alone.feed(b"\x1b");
        assert_eq!(alone.next(), None);
        assert!(alone.has_partial_key());
        alone.discard_partial_key();
        alone.feed(b"x");
        assert_eq!(alone.next(), Some(Key::Text("x".to_owned())));
        // An incomplete paste is kept.
        alone.feed(b"\x1b[200~half");
        alone.discard_partial_key();
        alone.feed(b"\x1b[201~");
        assert_eq!(alone.next(), Some(Key::Text("half".to_owned())));
    }
}
