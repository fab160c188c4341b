//! `#[prompt]`: the parameters are the prompt's arguments.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};

use crate::diagnostics::Diagnostics;
use crate::item::{ParsedFunction, import_kind_traits};
use crate::params::span_at;
use crate::settings::Settings;

const KEYS: &[&str] = &["name", "title", "description", "icons", "tags"];

/// What `#[arg]` may say of a parameter.
pub(crate) const ARG_KEYS: &[&str] = &["name", "description", "default", "complete"];

/// An expression of type `Prompt`.
pub(crate) fn expression(
    attr: TokenStream,
    given: &ParsedFunction,
    mistakes: &mut Diagnostics,
) -> TokenStream {
    let mut settings = Settings::read(attr, KEYS, mistakes);
    let name = settings
        .text("name", mistakes)
        .map_or_else(|| given.name.to_token_stream(), ToTokens::into_token_stream);
    let calls = given.common_setters(&mut settings, mistakes);
    let output = &given.output;
    let result = quote!(::tsugite::protocol::prompts::GetResult);
    let give =
        quote_spanned!(span_at(output)=> <#output as ::tsugite::server::IntoOutput<#result>>::into_output);
    let (schema, handler, completed) =
        (given.params.schema(), given.handler(&give), given.params.completer_statements());
    let traits = import_kind_traits();
    quote!({
        #traits
        let __it = ::tsugite::server::Prompt::new(#name) #calls .function(#schema, #handler);
        #completed
        __it
    })
}
