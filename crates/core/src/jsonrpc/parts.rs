//! An object or an array cut into its parts, each as it was written.

use std::borrow::Cow;

use super::raw::Raw;
use super::scan::{NotJson, string};

/// A member of an object: the name in its quotes, and the value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a, V = &'a str> {
    /// The name, quoted.
    pub(crate) quoted: &'a str,
    /// The value.
    pub(crate) value: V,
}

/// Members that are being changed.
pub(crate) type Draft<'a> = Vec<Member<'a, Cow<'a, str>>>;

impl<'a, V> Member<'a, V> {
    /// What the name says; `None` if it has a lone surrogate, which no name of ours has.
    pub(crate) fn name(&self) -> Option<Cow<'a, str>> {
        string(self.quoted)
    }

    /// Whether it has this name.
    pub(crate) fn is(&self, name: &str) -> bool {
        let written = self.quoted.get(1..self.quoted.len() - 1).unwrap_or_default();
        // With an escape in it, it is longer than what it says.
        written == name || written.len() > name.len() && self.name().as_deref() == Some(name)
    }

    /// The same member with another value.
    pub(crate) fn with<W>(&self, value: W) -> Member<'a, W> {
        Member { quoted: self.quoted, value }
    }
}

impl<'a> Raw<'a> {
    /// The members of an object in their order, one that stands there twice too; `None` if it is no object.
    ///
    /// Only brackets are counted inside a value, so that its depth does not matter.
    pub(crate) fn members(self) -> Option<Vec<Member<'a>>> {
        self.parts(b'{', b'}', |scanner| {
            let quoted = scanner.known_value()?;
            scanner.expect(b':')?;
            Ok(Member { quoted, value: scanner.known_value()? })
        })
    }

    /// The items of an array; `None` if it is no array.
    pub(crate) fn items(self) -> Option<Vec<&'a str>> {
        self.parts(b'[', b']', |scanner| scanner.known_value())
    }

    fn parts<T>(
        self,
        open: u8,
        close: u8,
        mut part: impl FnMut(&mut super::Scanner<'a>) -> Result<T, NotJson>,
    ) -> Option<Vec<T>> {
        let mut scanner = self.scanner();
        let mut parts = Vec::new();
        if !scanner.take(open) {
            return None;
        }
        if !scanner.take(close) {
            loop {
                parts.push(part(&mut scanner).ok()?);
                if !scanner.take(b',') {
                    scanner.expect(close).ok()?;
                    break;
                }
            }
        }
        Some(parts)
    }
}

/// The same members, to be changed.
pub(crate) fn draft<'a>(members: &[Member<'a>]) -> Draft<'a> {
    members.iter().map(|member| member.with(Cow::Borrowed(member.value))).collect()
}

/// Puts members together to an object.
pub(crate) fn object<V: AsRef<str>>(members: &[Member<'_, V>]) -> String {
    let length =
        members.iter().map(|member| member.quoted.len() + member.value.as_ref().len() + 2).sum::<usize>();
    // Each has a colon, and all but the last a comma.
    let mut text = String::with_capacity(length.max(1) + 1);
    text.push('{');
    for (place, Member { quoted, value }) in members.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        text.push_str(quoted);
        text.push(':');
        text.push_str(value.as_ref());
    }
    text.push('}');
    text
}

/// Puts items together to an array.
pub(crate) fn array<'a>(items: impl IntoIterator<Item = Cow<'a, str>>) -> String {
    let mut text = String::from("[");
    for (place, item) in items.into_iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        text.push_str(&item);
    }
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_put_together_as_they_were_written() {
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        let text = format!(r#"{{"a\u0062":1.0e+2,"":{{"x":[]}},"a":"}}","a":{deep}}}"#);
        let members = Raw::checked(&text).members().unwrap();
        assert_eq!(members.len(), 4);
        assert!(members[0].is("ab") && members[1].is("") && members[3].is("a"));
        assert_eq!(members[0].value, "1.0e+2");
        assert_eq!(object(&members), text);
        let spaced = Raw::checked(" [ 1 , \"]\",{} ] ").items().unwrap();
        assert_eq!(spaced, ["1", "\"]\"", "{}"]);
        assert_eq!(array(spaced.into_iter().map(Cow::Borrowed)), "[1,\"]\",{}]");
        assert!(
            Raw::checked("{}").members().unwrap().is_empty()
                && Raw::checked("[]").items().unwrap().is_empty()
        );
        assert!(Raw::checked("[]").members().is_none() && Raw::checked("{}").items().is_none());
        assert_eq!(Raw::checked(r#"{"\ud800":1}"#).members().unwrap()[0].name(), None);
    }
}
