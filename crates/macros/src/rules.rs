//! Rules for a parameter of a tool: `#[schemars(length(min = 1))]` and whatever else schemars accepts on a field.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::{Attribute, Meta, Type};

use crate::diagnostics::Diagnostics;

/// The `#[schemars(…)]` attributes of a parameter.
#[derive(Default)]
pub(crate) struct Rules(Vec<Attribute>);

impl Rules {
    /// Removes the attributes from a parameter, where rustc would reject them.
    pub(crate) fn take(attrs: &mut Vec<Attribute>) -> Self {
        Self(attrs.extract_if(.., |attr| attr.path().is_ident("schemars")).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the function that generates the schema of a field with these attributes; `None` without attributes.
    pub(crate) fn schema(&self, ty: &Type) -> Option<TokenStream> {
        let attrs = &self.0;
        (!self.is_empty()).then(|| {
            quote!(|__generator| {
                #[derive(::tsugite::schemars::JsonSchema)]
                #[schemars(crate = "::tsugite::schemars")]
                #[allow(dead_code)]
                struct __Argument {
                    #(#attrs)*
                    value: #ty,
                }
                <__Argument as ::tsugite::schemars::JsonSchema>::json_schema(__generator)
            })
        })
    }

    /// Whether a rule is one that only the full validator enforces. Bounds and texts need none.
    pub(crate) fn need_validator(&self) -> bool {
        self.0.iter().flat_map(keys).any(|key| !WITHOUT_VALIDATOR.contains(&key.as_str()))
    }

    /// Reports the attributes on a parameter of a `noun`, whose arguments have no schema.
    pub(crate) fn reject(&self, noun: &str, diagnostics: &mut Diagnostics) {
        for attr in &self.0 {
            diagnostics.error_at(
                attr,
                format!(
                    "`#[schemars]` works on parameters of a tool: the arguments of a {noun} have no schema"
                ),
            );
        }
    }
}

/// Returns the words at the start of each setting of an attribute.
fn keys(attr: &Attribute) -> Vec<String> {
    match &attr.meta {
        Meta::List(list) => setting_keys(list.tokens.clone()),
        _ => Vec::new(),
    }
}

/// Returns the words at the start of each setting. `inner(…)` holds settings of its own.
fn setting_keys(tokens: TokenStream) -> Vec<String> {
    let mut keys = Vec::new();
    let (mut at_start, mut in_inner) = (true, false);
    for token in tokens {
        match &token {
            TokenTree::Ident(word) if at_start => {
                in_inner = word == "inner";
                keys.push(word.to_string());
            }
            TokenTree::Group(group) if in_inner => keys.extend(setting_keys(group.stream())),
            _ => {}
        }
        at_start = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ',');
    }
    keys
}

const WITHOUT_VALIDATOR: &[&str] =
    &["length", "range", "inner", "title", "description", "example", "examples", "deprecated", "required"];
