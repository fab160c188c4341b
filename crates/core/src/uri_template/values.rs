//! The values that go into a template and come out of a URI.

/// The value of one variable.
///
/// Exhaustive: a variable is one text, or the segments of a `{/path*}`; a map could not be matched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TemplateValue {
    /// Text, not percent-encoded.
    Text(String),
    /// The segments for `{/path*}`, not percent-encoded.
    List(Vec<String>),
}

impl TemplateValue {
    /// The text, unless it is a list.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::List(_) => None,
        }
    }

    /// The list, unless it is a text.
    pub fn as_list(&self) -> Option<&[String]> {
        match self {
            Self::Text(_) => None,
            Self::List(list) => Some(list),
        }
    }
}

impl From<&str> for TemplateValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for TemplateValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<S: Into<String>> From<Vec<S>> for TemplateValue {
    fn from(list: Vec<S>) -> Self {
        list.into_iter().collect()
    }
}

impl<S: Into<String>, const N: usize> From<[S; N]> for TemplateValue {
    fn from(list: [S; N]) -> Self {
        list.into_iter().collect()
    }
}

impl<S: Into<String>> FromIterator<S> for TemplateValue {
    fn from_iter<I: IntoIterator<Item = S>>(list: I) -> Self {
        Self::List(list.into_iter().map(Into::into).collect())
    }
}

/// The values of a matched URI, in the order of the template. Missing parameters are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(Vec<(String, TemplateValue)>);

impl Variables {
    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&TemplateValue> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The value of a text variable: any except `{/path*}`.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(TemplateValue::as_text)
    }

    /// The segments of a `{/path*}`.
    pub fn list(&self, name: &str) -> Option<&[String]> {
        self.get(name).and_then(TemplateValue::as_list)
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &TemplateValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, TemplateValue)> for Variables {
    fn from_iter<I: IntoIterator<Item = (String, TemplateValue)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl IntoIterator for Variables {
    type Item = (String, TemplateValue);
    type IntoIter = std::vec::IntoIter<(String, TemplateValue)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
