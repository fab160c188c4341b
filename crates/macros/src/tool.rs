//! `#[find_tool]`: the types of the parameters are the input schema, the return type is the output schema.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, Lit};

use crate::diagnostics::Diagnostics;
use crate::item::{ParsedFunction, import_kind_traits};
use crate::params::span_at;
use crate::settings::{Settings, literal};

const KEYS: &[&str] = &[
    "name",
    "title",
    "description",
    "read_only",
    "destructive",
    "idempotent",
    "open_world",
    "icons",
    "timeout",
    "tags",
    "validated",
];

/// What `#[arg]` may say of a parameter.
pub(crate) const ARG_KEYS: &[&str] = &["name", "description", "default", "header"];

/// An expression of type `Tool`.
pub(crate) fn expression(
    attr: TokenStream,
    given: &ParsedFunction,
    mistakes: &mut Diagnostics,
) -> TokenStream {
    let mut settings = Settings::read(attr, KEYS, mistakes);
    let name = settings
        .text("name", mistakes)
        .map_or_else(|| given.name.to_token_stream(), ToTokens::into_token_stream);
    let mut calls = given.common_setters(&mut settings, mistakes);
    for hint in ["read_only", "destructive", "idempotent", "open_world", "validated"] {
        let setter = settings.key(hint).cloned();
        if let (Some(setter), Some(yes)) = (setter, settings.flag(hint, mistakes)) {
            calls.extend(quote!(.#setter(#yes)));
        }
    }
    if let Some(limit) = settings.value("timeout", "\"30s\"", mistakes) {
        match duration(&limit) {
            Some(limit) => calls.extend(quote!(.timeout(#limit))),
            None => mistakes.error_at(limit, "a time is `\"500ms\"`, `\"30s\"`, `\"5m\"` or a `Duration`"),
        }
    }

    let (schema, handler, traits) =
        (given.params.schema(), given.handler(&quote!(__give)), import_kind_traits());
    let output = &given.output;
    let span = span_at(output);
    // Asked once, so that a type that cannot be returned is told once.
    let way = quote_spanned!(span=> (&&&::tsugite::server::macro_support::ReturnType::<#output>::NEW).kind().conversion());
    quote!({
        #traits
        let __conversion = #way;
        let __give = __conversion.convert;
        ::tsugite::server::Tool::new(#name) #calls .function(#schema, (__conversion.schema)(), #handler)
    })
}

/// A time in words, or an expression that gives one.
fn duration(limit: &Expr) -> Option<TokenStream> {
    let text = match literal(limit) {
        None => return Some(limit.to_token_stream()),
        Some(Lit::Str(text)) => text.value(),
        Some(_) => return None,
    };
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match text.strip_prefix(digits)? {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    let milliseconds = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    Some(quote!(::core::time::Duration::from_millis(#milliseconds)))
}
