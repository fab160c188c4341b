//! `#[prompt]`: the parameters are the arguments of the prompt.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};

use crate::diagnostics::Diagnostics;
use crate::item::{ParsedFunction, import_kind_traits};
use crate::params::span_at;
use crate::settings::Settings;

const KEYS: &[&str] = &["name", "title", "description", "icons", "tags", "scopes"];

/// The settings of `#[arg]`.
pub(crate) const ARG_KEYS: &[&str] = &["name", "description", "default", "complete"];

/// Returns the expression of type `Prompt`.
pub(crate) fn expression(
    attr: TokenStream,
    function: &ParsedFunction,
    diagnostics: &mut Diagnostics,
) -> TokenStream {
    let mut settings = Settings::read(attr, KEYS, diagnostics);
    let name = settings
        .text("name", diagnostics)
        .map_or_else(|| function.name.to_token_stream(), ToTokens::into_token_stream);
    let calls = function.common_setters(&mut settings, diagnostics);
    let output = &function.output;
    let result = quote!(::tsugite::protocol::prompts::GetResult);
    let convert =
        quote_spanned!(span_at(output)=> <#output as ::tsugite::server::IntoOutput<#result>>::into_output);
    let (schema, handler, completed) =
        (function.params.schema(), function.handler(&convert), function.completer_statements(diagnostics));
    let traits = import_kind_traits();
    quote!({
        #traits
        let __it = ::tsugite::server::Prompt::new(#name) #calls .function(#schema, #handler);
        #completed
        __it
    })
}
