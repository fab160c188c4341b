//! Splits an object or array into its parts, each as it was written.

use std::borrow::Cow;

use super::raw::Raw;
use super::scan::{JsonSyntaxError, decode_string};

/// A member of an object: the quoted name, and the value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawMember<'a, V = &'a str> {
    /// The name, quoted.
    pub(crate) quoted_name: &'a str,
    /// The value.
    pub(crate) value: V,
}

/// Members that are being edited.
pub(crate) type EditableMembers<'a> = Vec<RawMember<'a, Cow<'a, str>>>;

impl<'a, V> RawMember<'a, V> {
    /// The decoded name; `None` if it has a lone surrogate, which no protocol name has.
    pub(crate) fn name(&self) -> Option<Cow<'a, str>> {
        decode_string(self.quoted_name)
    }

    /// Whether this is its name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        let written = self.quoted_name.get(1..self.quoted_name.len() - 1).unwrap_or_default();
        // A name with an escape is longer than its decoded form.
        written == name || written.len() > name.len() && self.name().as_deref() == Some(name)
    }

    /// The same member with another value.
    pub(crate) fn with_value<W>(&self, value: W) -> RawMember<'a, W> {
        RawMember { quoted_name: self.quoted_name, value }
    }
}

impl<'a> Raw<'a> {
    /// The members of an object in order, duplicates included; `None` if it is not an object.
    ///
    /// Inside a value only brackets are counted, so its depth does not matter.
    pub(crate) fn members(self) -> Option<Vec<RawMember<'a>>> {
        self.split(b'{', b'}', |scanner| {
            let quoted = scanner.validated_value()?;
            scanner.expect(b':')?;
            Ok(RawMember { quoted_name: quoted, value: scanner.validated_value()? })
        })
    }

    /// The items of an array; `None` if it is not an array.
    pub(crate) fn items(self) -> Option<Vec<&'a str>> {
        self.split(b'[', b']', |scanner| scanner.validated_value())
    }

    fn split<T>(
        self,
        open: u8,
        close: u8,
        mut part: impl FnMut(&mut super::Scanner<'a>) -> Result<T, JsonSyntaxError>,
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

/// Copies members for editing.
pub(crate) fn to_editable<'a>(members: &[RawMember<'a>]) -> EditableMembers<'a> {
    members.iter().map(|member| member.with_value(Cow::Borrowed(member.value))).collect()
}

/// Builds an object from members.
pub(crate) fn build_object<V: AsRef<str>>(members: &[RawMember<'_, V>]) -> String {
    let length = members
        .iter()
        .map(|member| member.quoted_name.len() + member.value.as_ref().len() + 2)
        .sum::<usize>();
    // Each member has a colon, and all but the last a comma.
    let mut text = String::with_capacity(length.max(1) + 1);
    text.push('{');
    for (place, RawMember { quoted_name: quoted, value }) in members.iter().enumerate() {
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

/// Builds an array from items.
pub(crate) fn build_array<'a>(items: impl IntoIterator<Item = Cow<'a, str>>) -> String {
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
    fn parts_are_joined_as_they_were_written() {
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        let text = format!(r#"{{"a\u0062":1.0e+2,"":{{"x":[]}},"a":"}}","a":{deep}}}"#);
        let members = Raw::from_validated(&text).members().unwrap();
        assert_eq!(members.len(), 4);
        assert!(members[0].has_name("ab") && members[1].has_name("") && members[3].has_name("a"));
        assert_eq!(members[0].value, "1.0e+2");
        assert_eq!(build_object(&members), text);
        let spaced = Raw::from_validated(" [ 1 , \"]\",{} ] ").items().unwrap();
        assert_eq!(spaced, ["1", "\"]\"", "{}"]);
        assert_eq!(build_array(spaced.into_iter().map(Cow::Borrowed)), "[1,\"]\",{}]");
        assert!(
            Raw::from_validated("{}").members().unwrap().is_empty()
                && Raw::from_validated("[]").items().unwrap().is_empty()
        );
        assert!(Raw::from_validated("[]").members().is_none() && Raw::from_validated("{}").items().is_none());
        assert_eq!(Raw::from_validated(r#"{"\ud800":1}"#).members().unwrap()[0].name(), None);
    }
}
