//! The item that a request names, as the log names it.

use std::borrow::Cow;
use std::fmt;

use tsugite_core::protocol::{Method, prompts, resources, tools};

/// The tool, resource, prompt or argument that a request is about.
#[derive(Clone)]
pub(crate) struct Subject<'a> {
    pub(crate) kind: &'static str,
    /// The name of the tool or prompt, or the URI of the resource; the method of a request that names none.
    pub(crate) name: Cow<'a, str>,
    /// The argument that is completed.
    argument: Option<Cow<'a, str>>,
    /// The template that the URI matches.
    template: Option<Cow<'a, str>>,
}

impl<'a> Subject<'a> {
    pub(crate) fn tool(name: &'a str) -> Self {
        Self::new("tool", name)
    }

    pub(crate) fn prompt(name: &'a str) -> Self {
        Self::new("prompt", name)
    }

    /// A resource, and the template that its URI matches, if it is one of many.
    pub(crate) fn resource(uri: &'a str, template: Option<&'a str>) -> Self {
        Self { template: template.map(Cow::Borrowed), ..Self::new("resource", uri) }
    }

    /// The completion of an argument of a prompt or a resource template.
    pub(crate) fn completion(name: &'a str, argument: &'a str) -> Self {
        Self { argument: Some(argument.into()), ..Self::new("completion", name) }
    }

    /// The subject of a request of which only the method and the name that it contains are known.
    pub(crate) fn from_request(method: &'a str, name: Option<&'a str>) -> Self {
        match (method, name) {
            (tools::Call::NAME, Some(name)) => Self::tool(name),
            (resources::Read::NAME, Some(uri)) => Self::resource(uri, None),
            (prompts::Get::NAME, Some(name)) => Self::prompt(name),
            (_, Some(id)) => Self::new("task", id),
            (method, None) => Self::new(REQUEST, method),
        }
    }

    fn new(kind: &'static str, name: &'a str) -> Self {
        Self { kind, name: name.into(), argument: None, template: None }
    }

    /// The name in the request; `None` if it contains none.
    pub(crate) fn requested_name(&self) -> Option<&str> {
        (self.kind != REQUEST).then_some(&*self.name)
    }

    /// The name that it was registered under: the template of a resource that matches one.
    pub(crate) fn registered_name(&self) -> &str {
        self.template.as_deref().unwrap_or(&self.name)
    }

    pub(crate) fn into_owned(self) -> Subject<'static> {
        let owned = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        Subject {
            kind: self.kind,
            name: owned(self.name),
            argument: self.argument.map(owned),
            template: self.template.map(owned),
        }
    }
}

/// The kind, as a sentence begins with it.
impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.argument {
            Some(argument) => write!(f, "{} of the argument {argument:?}", self.kind),
            None => f.write_str(self.kind),
        }
    }
}

/// The kind of a request that names no item.
const REQUEST: &str = "request";
