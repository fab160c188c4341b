//! One strict walk over JSON text that finds where values end.
//!
//! It checks the grammar and the nesting as it goes and builds nothing. What it does not judge is what only a
//! reader of the value can: duplicate members and lone surrogates.

use std::borrow::Cow;

use super::escape_scan::unescaped_len;

/// The walk stopped because the text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JsonSyntaxError;

/// A position in JSON text.
///
/// The caller has made sure that the text is UTF-8.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    position: usize,
    max_depth: u32,
    too_deep: bool,
}

impl<'a> Scanner<'a> {
    /// `max_depth` counts every open object and array, the outermost included; [`MAX_DEPTH`] is its ceiling.
    pub(super) fn new(text: &'a str, max_depth: u32) -> Self {
        Self { text, position: 0, max_depth: max_depth.min(MAX_DEPTH), too_deep: false }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    pub(crate) fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.position += 1;
        }
    }

    /// Takes `byte` if it is next, after space.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<(), JsonSyntaxError> {
        if self.take(byte) { Ok(()) } else { Err(JsonSyntaxError) }
    }

    /// Whether something passed since the last time it was asked was nested too deep.
    pub(super) fn take_too_deep(&mut self) -> bool {
        std::mem::take(&mut self.too_deep)
    }

    /// Nothing but space may follow.
    pub(super) fn end(&mut self) -> Result<(), JsonSyntaxError> {
        self.skip_space();
        if self.position == self.text.len() { Ok(()) } else { Err(JsonSyntaxError) }
    }

    /// The next value as text, without the space around it. `outside` is how many containers are already open.
    pub(crate) fn value(&mut self, outside: u32) -> Result<&'a str, JsonSyntaxError> {
        self.skip_space();
        let start = self.position;
        match self.peek() {
            Some(b'"') => drop(self.skip_string()?),
            _ => self.skip_value(outside)?,
        }
        self.text.get(start..self.position).ok_or(JsonSyntaxError)
    }

    /// The next value as text, an object that `member` goes through: it is told each key and must take the value.
    pub(crate) fn object<E: From<JsonSyntaxError>>(
        &mut self,
        mut member: impl FnMut(&mut Self, &str) -> Result<(), E>,
    ) -> Result<&'a str, E> {
        self.members(|scanner, key| member(scanner, key.ok_or(JsonSyntaxError)?))
    }

    /// The same for whoever bears a key whose escapes mean nothing: it has no words.
    pub(crate) fn members<E: From<JsonSyntaxError>>(
        &mut self,
        mut member: impl FnMut(&mut Self, Option<&str>) -> Result<(), E>,
    ) -> Result<&'a str, E> {
        self.skip_space();
        let start = self.position;
        self.expect(b'{')?;
        if !self.take(b'}') {
            loop {
                let key = self.key()?;
                self.expect(b':')?;
                member(self, key.as_deref())?;
                if !self.take(b',') {
                    self.expect(b'}')?;
                    break;
                }
            }
        }
        Ok(self.text.get(start..self.position).ok_or(JsonSyntaxError)?)
    }

    /// Whether so many containers may be open.
    pub(crate) fn allows_depth(&self, open: u32) -> bool {
        open <= self.max_depth
    }

    /// The next value as text, in text that was walked before: how its brackets match is all there is to see.
    pub(crate) fn validated_value(&mut self) -> Result<&'a str, JsonSyntaxError> {
        self.skip_space();
        let start = self.position;
        match self.peek() {
            Some(b'"') => drop(self.skip_string()?),
            Some(b'{' | b'[') => self.skip_brackets(0)?,
            _ => self.skip_value(0)?,
        }
        self.text.get(start..self.position).ok_or(JsonSyntaxError)
    }

    /// The words of a key; none if its escapes mean nothing.
    fn key(&mut self) -> Result<Option<Cow<'a, str>>, JsonSyntaxError> {
        self.skip_space();
        let start = self.position;
        let escaped = self.skip_string()?;
        if escaped {
            return Ok(self.text.get(start..self.position).and_then(decode_escaped));
        }
        Ok(self.text.get(start + 1..self.position - 1).map(Cow::Borrowed))
    }

    fn skip_value(&mut self, outside: u32) -> Result<(), JsonSyntaxError> {
        // One bit for each container opened here: 1 is an object. The ceiling on depth makes it fit.
        let mut kinds: u128 = 0;
        let mut open: u32 = 0;
        loop {
            self.skip_space();
            match self.peek() {
                Some(b'"') => {
                    self.skip_string()?;
                }
                Some(b'-' | b'0'..=b'9') => self.skip_number()?,
                Some(b't') => self.skip_literal(b"true")?,
                Some(b'f') => self.skip_literal(b"false")?,
                Some(b'n') => self.skip_literal(b"null")?,
                Some(bracket @ (b'{' | b'[')) => {
                    if outside + open >= self.max_depth {
                        // The message is refused, but its end must be found: its id may come after.
                        self.too_deep = true;
                        return self.skip_brackets(open);
                    }
                    self.position += 1;
                    open += 1;
                    let object = bracket == b'{';
                    kinds = (kinds << 1) | u128::from(object);
                    if !self.take(if object { b'}' } else { b']' }) {
                        if object {
                            self.skip_key()?;
                        }
                        continue;
                    }
                    open -= 1;
                    kinds >>= 1;
                }
                _ => return Err(JsonSyntaxError),
            }
            // A value has ended: close what ends with it, or go on to the next one.
            loop {
                if open == 0 {
                    return Ok(());
                }
                let object = kinds & 1 == 1;
                self.skip_space();
                match self.peek() {
                    Some(b',') => {
                        self.position += 1;
                        if object {
                            self.skip_key()?;
                        }
                        break;
                    }
                    Some(b'}') if object => {}
                    Some(b']') if !object => {}
                    _ => return Err(JsonSyntaxError),
                }
                self.position += 1;
                open -= 1;
                kinds >>= 1;
            }
        }
    }

    /// Leaves `open` containers and whatever opens meanwhile by their brackets alone; nothing is remembered.
    fn skip_brackets(&mut self, open: u32) -> Result<(), JsonSyntaxError> {
        let mut open = u64::from(open);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.skip_string()?;
                    continue;
                }
                Some(b'{' | b'[') => open += 1,
                Some(b'}' | b']') => open = open.saturating_sub(1),
                Some(_) => {}
                None => return Err(JsonSyntaxError),
            }
            self.position += 1;
            if open == 0 {
                return Ok(());
            }
        }
    }

    fn skip_key(&mut self) -> Result<(), JsonSyntaxError> {
        self.skip_space();
        self.skip_string()?;
        self.expect(b':')
    }

    fn skip_literal(&mut self, word: &[u8]) -> Result<(), JsonSyntaxError> {
        match self.rest().starts_with(word) {
            true => {
                self.position += word.len();
                Ok(())
            }
            false => Err(JsonSyntaxError),
        }
    }

    fn skip_number(&mut self) -> Result<(), JsonSyntaxError> {
        self.position += usize::from(self.peek() == Some(b'-'));
        match self.peek() {
            Some(b'0') => self.position += 1,
            Some(b'1'..=b'9') => self.skip_digits()?,
            _ => return Err(JsonSyntaxError),
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            self.skip_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.position += 1;
            self.position += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.skip_digits()?;
        }
        Ok(())
    }

    fn skip_digits(&mut self) -> Result<(), JsonSyntaxError> {
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.position += digits;
        if digits == 0 { Err(JsonSyntaxError) } else { Ok(()) }
    }

    /// Leaves the position behind the closing quote; tells whether there was an escape.
    fn skip_string(&mut self) -> Result<bool, JsonSyntaxError> {
        let Some((b'"', inside)) = self.rest().split_first() else { return Err(JsonSyntaxError) };
        let length = unescaped_len(inside);
        self.position += 1 + length;
        match inside.get(length) {
            Some(b'"') => {
                self.position += 1;
                Ok(false)
            }
            _ => self.skip_escaped_string(),
        }
    }

    /// The same from the first byte on that is not plain.
    #[inline(never)]
    fn skip_escaped_string(&mut self) -> Result<bool, JsonSyntaxError> {
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.position += 1;
                    return Ok(true);
                }
                Some(b'\\') => self.skip_escape()?,
                _ => return Err(JsonSyntaxError),
            }
            self.position += unescaped_len(self.rest());
        }
    }

    fn skip_escape(&mut self) -> Result<(), JsonSyntaxError> {
        match self.rest() {
            [_, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => self.position += 2,
            [_, b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => {
                self.position += 6;
            }
            _ => return Err(JsonSyntaxError),
        }
        Ok(())
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.position..).unwrap_or_default()
    }
}

/// What a JSON string says, borrowed unless there is an escape in it. `None` if the value is no string or its escapes
/// mean nothing.
pub(super) fn decode_string(value: &str) -> Option<Cow<'_, str>> {
    let inside = value.strip_prefix('"')?.strip_suffix('"')?;
    match unescaped_len(inside.as_bytes()) == inside.len() {
        true => Some(Cow::Borrowed(inside)),
        false => decode_escaped(value),
    }
}

fn decode_escaped(quoted: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str(quoted).ok().map(Cow::Owned)
}

/// The deepest nesting that can be allowed: what one machine word of bits can remember.
pub(super) const MAX_DEPTH: u32 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str) -> Result<&str, JsonSyntaxError> {
        let mut scanner = Scanner::new(text, 8);
        let value = scanner.value(0)?;
        scanner.end()?;
        Ok(value)
    }

    #[test]
    fn the_walk_accepts_what_serde_json_accepts_and_nothing_else() {
        let pieces = [
            "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\\", "\\u12", "\\ud83d", "0", "1", "-", ".", "e",
            "+", "true", "nul", "null", " ", "\n", "\u{1}", "é",
        ];
        // Every sequence of up to four pieces: short enough to be exhaustive, long enough to meet each rule.
        let mut stack = vec![(String::new(), 0)];
        while let Some((text, length)) = stack.pop() {
            let ours = scan(&text).is_ok();
            let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
            assert_eq!(ours, theirs, "{text:?}");
            if length < 4 {
                stack.extend(pieces.iter().map(|piece| (format!("{text}{piece}"), length + 1)));
            }
        }
    }

    #[test]
    fn strings_are_skipped_to_their_own_quote_at_every_offset() {
        for before in 0..20 {
            for stop in ["\"", "\\n\"", "\\\"\"", "\\u00e9é\""] {
                let text = format!("\"{}{stop}", "x".repeat(before));
                assert_eq!(scan(&text), Ok(text.as_str()));
            }
            let control = format!("\"{}\u{1f}\"", "x".repeat(before));
            assert_eq!(scan(&control), Err(JsonSyntaxError));
        }
    }

    #[test]
    fn nesting_is_counted_and_stops_at_the_limit() {
        assert!(scan(&"[".repeat(8).chars().chain("]".repeat(8).chars()).collect::<String>()).is_ok());
        for (deep, end) in [("[", "]"), ("{\"a\":", "}")] {
            let text = format!("{}0{} \"next\"", deep.repeat(500), end.repeat(500));
            for limit in [8, u32::MAX] {
                let mut scanner = Scanner::new(&text, limit);
                scanner.value(0).unwrap();
                assert!(scanner.take_too_deep());
                assert_eq!(scanner.value(0), Ok("\"next\""));
                assert!(!scanner.take_too_deep());
            }
            assert_eq!(Scanner::new(&deep.repeat(500), 8).value(0), Err(JsonSyntaxError));
        }
    }
}
