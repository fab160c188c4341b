//! Turns doc comments into descriptions.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Meta};

use crate::settings::{literal, string_literal};

/// Returns the doc comments among `attrs` as an expression of type `String`, unless they are empty.
pub(crate) fn description(attrs: &[Attribute]) -> Option<TokenStream> {
    let comments =
        attrs.iter().filter(|attr| attr.path().is_ident("doc")).filter_map(|attr| match &attr.meta {
            Meta::NameValue(comment) => Some(&comment.value),
            // `#[doc(hidden)]`
            _ => None,
        });
    // An expression such as `concat!(…)` is evaluated later, so count it as text.
    let comments: Vec<_> = comments.collect();
    let has_text = |comment| {
        literal(comment).is_none() || string_literal(comment).is_some_and(|text| !text.trim().is_empty())
    };
    let is_described = comments.iter().any(|comment| has_text(comment));
    is_described.then(|| quote!(::tsugite::server::macro_support::docs(&[#(#comments),*])))
}

/// Whether an attribute is a doc comment.
pub(crate) fn is_doc(attr: &Attribute) -> bool {
    attr.path().is_ident("doc")
}

/// Returns the given text, or else the doc comments among `attrs`.
pub(crate) fn text_or_description(given: Option<impl ToTokens>, attrs: &[Attribute]) -> Option<TokenStream> {
    match given {
        Some(text) => Some(quote!(::std::string::String::from(#text))),
        None => description(attrs),
    }
}
