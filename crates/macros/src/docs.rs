//! Doc comments are descriptions.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Meta};

use crate::settings::{literal, string_literal};

/// The doc comments among `attrs` as an expression of type `String`, if anything stands in them.
pub(crate) fn description(attrs: &[Attribute]) -> Option<TokenStream> {
    let comments =
        attrs.iter().filter(|attr| attr.path().is_ident("doc")).filter_map(|attr| match &attr.meta {
            Meta::NameValue(comment) => Some(&comment.value),
            // `#[doc(hidden)]`
            _ => None,
        });
    // What is not written out, such as `concat!(…)`, is known only later.
    let comments: Vec<_> = comments.collect();
    let says = |comment| {
        literal(comment).is_none() || string_literal(comment).is_some_and(|text| !text.trim().is_empty())
    };
    let said = comments.iter().any(|comment| says(comment));
    said.then(|| quote!(::tsugite::server::macro_support::docs(&[#(#comments),*])))
}

/// Whether it is a doc comment.
pub(crate) fn is_doc(attr: &Attribute) -> bool {
    attr.path().is_ident("doc")
}

/// A given text, or the doc comments among `attrs`.
pub(crate) fn text_or_description(given: Option<impl ToTokens>, attrs: &[Attribute]) -> Option<TokenStream> {
    match given {
        Some(text) => Some(quote!(::std::string::String::from(#text))),
        None => description(attrs),
    }
}
