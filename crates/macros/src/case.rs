//! The cases for names on the wire, named as in serde.

use proc_macro2::Ident;
use syn::ext::IdentExt;

/// A case for names.
#[derive(Clone, Copy)]
pub(crate) enum Case {
    Lower,
    Upper,
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Kebab,
}

impl Case {
    /// All cases, with their names in serde.
    pub(crate) const ALL: [(&'static str, Self); 7] = [
        ("lowercase", Case::Lower),
        ("UPPERCASE", Case::Upper),
        ("PascalCase", Case::Pascal),
        ("camelCase", Case::Camel),
        ("snake_case", Case::Snake),
        ("SCREAMING_SNAKE_CASE", Case::ScreamingSnake),
        ("kebab-case", Case::Kebab),
    ];

    pub(crate) fn from_name(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(word, _)| *word == text).map(|(_, case)| case)
    }

    /// Joins lowercase words into a name.
    fn write(self, words: &[String]) -> String {
        let capitals = || words.iter().map(|word| capitalize(word));
        match self {
            Case::Lower => words.concat(),
            Case::Upper => words.concat().to_uppercase(),
            Case::Pascal => capitals().collect(),
            Case::Camel => words.iter().take(1).cloned().chain(capitals().skip(1)).collect(),
            Case::Snake => words.join("_"),
            Case::ScreamingSnake => words.join("_").to_uppercase(),
            Case::Kebab => words.join("-"),
        }
    }
}

/// Returns the name of a field, in the given case if there is one.
pub(crate) fn field(ident: &Ident, case: Option<Case>) -> String {
    let name = ident.unraw().to_string();
    match case {
        None => name,
        Some(case) => case.write(&name.split('_').map(str::to_lowercase).collect::<Vec<_>>()),
    }
}

/// Returns the name of a variant in the given case.
pub(crate) fn variant(ident: &Ident, case: Case) -> String {
    let mut words: Vec<String> = Vec::new();
    for letter in ident.unraw().to_string().chars() {
        match words.last_mut() {
            Some(word) if !letter.is_uppercase() => word.push(letter),
            _ => words.push(letter.to_lowercase().collect()),
        }
    }
    case.write(&words)
}

fn capitalize(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[test]
fn names_are_written_in_every_case() {
    let ident = |name| Ident::new(name, proc_macro2::Span::call_site());
    let written =
        Case::ALL.map(|(_, case)| (field(&ident("max_age"), Some(case)), variant(&ident("MaxAge"), case)));
    let expected = ["maxage", "MAXAGE", "MaxAge", "maxAge", "max_age", "MAX_AGE", "max-age"];
    assert_eq!(written, expected.map(|name| (name.to_owned(), name.to_owned())));
    assert_eq!(field(&ident("_x"), None), "_x");
}
