//! `#[resource("…")]`: a resource at one URI, or a template whose variables are the parameters.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::parse::{ParseStream, Parser};
use syn::{LitStr, Token};

use crate::diagnostics::Diagnostics;
use crate::item::{ParsedFunction, import_kind_traits};
use crate::params::span_at;
use crate::settings::Settings;

const KEYS: &[&str] =
    &["name", "title", "description", "mime_type", "size", "icons", "tags", "scopes", "annotations"];

/// The settings of `#[arg]`.
pub(crate) const ARG_KEYS: &[&str] = &["name", "default", "complete"];

/// Returns the expression of type `Resource`.
pub(crate) fn expression(
    attr: TokenStream,
    function: &ParsedFunction,
    diagnostics: &mut Diagnostics,
) -> TokenStream {
    let (uri, rest) = match parse_uri_first.parse2(attr) {
        Ok(read) => read,
        Err(error) => {
            diagnostics.push(error);
            return TokenStream::new();
        }
    };
    for variable in variables(&uri.value()) {
        if !function.params.may_contain(&variable) {
            diagnostics
                .error_at(&uri, format!("no parameter for `{{{variable}}}`: add `{variable}: String`"));
        }
    }
    let mut settings = Settings::read(rest, KEYS, diagnostics);
    // The default name is that of the function.
    let name = settings.text("name", diagnostics);
    let name = name.map_or_else(
        || {
            let name = &function.name;
            quote!(#name)
        },
        |name| quote!(#name),
    );
    let mut calls = function.common_setters(&mut settings, diagnostics);
    if let Some(mime_type) = settings.text("mime_type", diagnostics) {
        calls.extend(quote!(.mime_type(#mime_type)));
    }
    if let Some(size) = settings.value("size", "1024", diagnostics) {
        calls.extend(quote!(.size(#size)));
    }
    if let Some(annotations) = settings.value("annotations", "…", diagnostics) {
        calls.extend(quote!(.annotations(#annotations)));
    }

    let output = &function.output;
    let result = quote!(::tsugite::protocol::resources::ReadResult);
    let convert =
        quote_spanned!(span_at(output)=> <#output as ::tsugite::server::IntoOutput<#result>>::into_output);
    let (handler, completed, traits) =
        (function.handler(&convert), function.completer_statements(diagnostics), import_kind_traits());
    quote!({
        #traits
        let __it = ::tsugite::server::Resource::from_uri_or_template(#uri).name(#name) #calls .function(#handler);
        #completed
        __it
    })
}

/// Parses the URI, and returns the settings after it.
fn parse_uri_first(input: ParseStream<'_>) -> syn::Result<(LitStr, TokenStream)> {
    let example = "a resource needs a URI or a template first: `#[resource(\"notes://{id}\")]`";
    let uri = input.parse().map_err(|error: syn::Error| syn::Error::new(error.span(), example))?;
    if !input.is_empty() {
        input.parse::<Token![,]>()?;
    }
    Ok((uri, input.parse()?))
}

/// Returns the variable names of a template. Its syntax is checked when the server starts.
fn variables(template: &str) -> Vec<String> {
    let expressions =
        template.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(inside, _)| inside);
    let names = expressions
        .flat_map(|inside| inside.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']).split(','));
    let names = names.map(|name| name.split(':').next().unwrap_or_default().trim_end_matches('*'));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn variables_are_found_under_every_operator() {
    assert_eq!(variables("a://{b}/{+c}{/d*,e:3}{?f,g}"), ["b", "c", "d", "e", "f", "g"]);
    assert!(variables("a://b").is_empty());
}
