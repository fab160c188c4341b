//! A digest of a JSON text that does not depend on how it is written: the order of members, spaces and escapes in
//! strings. A client may write the arguments of a call differently when it calls again.
//!
//! Each byte of the text is read once, whatever the depth: an object or array adds its own digest to the one around it.
//! Numbers count as written, since two numbers that round to the same `f64` are different.

use std::borrow::Cow;

use ring::digest::{Context, SHA256, digest};

/// The digest of a JSON text. A text that is not JSON has the digest of its bytes.
pub(crate) fn json_digest(json: &str) -> Vec<u8> {
    let mut reader = Reader { rest: json.as_bytes(), text: json };
    let value = reader.value(MAX_DEPTH).filter(|_| reader.is_at_end());
    match value {
        Some(value) => {
            let mut context = Context::new(&SHA256);
            value.add_to(&mut context);
            context.finish().as_ref().to_vec()
        }
        None => digest(&SHA256, json.as_bytes()).as_ref().to_vec(),
    }
}

/// The part of a value in the digest around it.
enum Part<'a> {
    /// The contents of a string.
    String(Cow<'a, str>),
    /// A number or a literal as written.
    Plain(&'a str),
    /// The digest of an object or array.
    Container(ring::digest::Digest),
}

impl Part<'_> {
    fn add_to(&self, context: &mut Context) {
        let (kind, bytes) = match self {
            Part::String(text) => (b's', text.as_bytes()),
            Part::Plain(text) => (b'p', text.as_bytes()),
            Part::Container(digest) => (b'c', digest.as_ref()),
        };
        context.update(&[kind]);
        // With the length, so that no two lists of parts are the same bytes.
        context.update(&(bytes.len() as u64).to_be_bytes());
        context.update(bytes);
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Option<Part<'a>> {
        match self.peek()? {
            b'{' => self.object(depth.checked_sub(1)?),
            b'[' => self.array(depth.checked_sub(1)?),
            b'"' => self.string().map(Part::String),
            _ => self.plain(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Part<'a>> {
        let mut members = Vec::new();
        self.skip(1);
        if self.peek()? == b'}' {
            self.skip(1);
        } else {
            loop {
                let name = self.string()?;
                self.expect(b':')?;
                members.push((name, self.value(depth)?));
                if self.next_or_end(b'}')? {
                    break;
                }
            }
        }
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut context = Context::new(&SHA256);
        context.update(b"{");
        for (name, value) in members {
            Part::String(name).add_to(&mut context);
            value.add_to(&mut context);
        }
        Some(Part::Container(context.finish()))
    }

    fn array(&mut self, depth: usize) -> Option<Part<'a>> {
        let mut context = Context::new(&SHA256);
        context.update(b"[");
        self.skip(1);
        if self.peek()? == b']' {
            self.skip(1);
        } else {
            loop {
                self.value(depth)?.add_to(&mut context);
                if self.next_or_end(b']')? {
                    break;
                }
            }
        }
        Some(Part::Container(context.finish()))
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.expect(b'"')?;
        let start = self.position();
        let mut has_escapes = false;
        loop {
            match *self.rest.first()? {
                b'"' => break,
                b'\\' => {
                    has_escapes = true;
                    self.skip(2);
                }
                _ => self.skip(1),
            }
        }
        let inside = self.text.get(start..self.position())?;
        self.skip(1);
        match has_escapes {
            false => Some(Cow::Borrowed(inside)),
            true => serde_json::from_str(&format!("\"{inside}\"")).ok().map(Cow::Owned),
        }
    }

    fn plain(&mut self) -> Option<Part<'a>> {
        let start = self.position();
        while self.rest.first().is_some_and(|byte| !b" \t\r\n,]}".contains(byte)) {
            self.skip(1);
        }
        let text = self.text.get(start..self.position())?;
        (!text.is_empty()).then_some(Part::Plain(text))
    }

    /// Reads a comma, and returns false, or the end of the container, and returns true.
    fn next_or_end(&mut self, end: u8) -> Option<bool> {
        let found = self.peek()?;
        self.skip(1);
        match found {
            b',' => Some(false),
            found => (found == end).then_some(true),
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        let found = self.peek()?;
        self.skip(1);
        (found == byte).then_some(())
    }

    /// The next byte that is not a space.
    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied()
    }

    fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn position(&self) -> usize {
        self.text.len() - self.rest.len()
    }
}

/// The deepest nesting that a message can have.
const MAX_DEPTH: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_does_not_count() {
        let same = [
            r#"{"a":1,"b":[true,null,"x/é"],"c":{"d":{},"e":[]}}"#,
            r#" { "b" : [ true , null , "x/é" ] , "c" : { "e" : [ ] , "d" : { } } , "a" : 1 } "#,
            r#"{"\u0061":1,"b":[true,null,"x\/\u00e9"],"c":{"d":{},"e":[]}}"#,
        ];
        for text in same {
            assert_eq!(json_digest(text), json_digest(same[0]), "{text}");
        }
    }

    #[test]
    fn values_count() {
        let different = [
            "{}",
            "[]",
            r#"{"a":1}"#,
            r#"{"a":1.0}"#,
            r#"{"a":"1"}"#,
            r#"{"a":[1]}"#,
            r#"{"a":[1,1]}"#,
            r#"{"a":{"1":1}}"#,
            r#"{"a":10000000000000000000000001}"#,
            r#"{"a":10000000000000000000000002}"#,
            r#"{"a":null}"#,
            r#"{"a":"null"}"#,
            r#"{"a":"","b":""}"#,
            r#"{"a":"b","":""}"#,
            r#"{"a":1"#,
            r#"{"a":1}}"#,
            "",
        ];
        for (index, one) in different.iter().enumerate() {
            for other in different.iter().skip(index + 1) {
                assert_ne!(json_digest(one), json_digest(other), "{one} and {other}");
            }
        }
    }

    #[test]
    fn order_of_an_array_counts() {
        assert_ne!(json_digest("[1,2]"), json_digest("[2,1]"));
    }
}
