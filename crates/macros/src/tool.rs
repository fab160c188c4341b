//! `#[tool]`: the parameters give the input schema, the return type gives the output schema.

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
    "scopes",
    "validated",
    "task",
    "restartable",
    "once",
];

/// The settings of `#[arg]`.
pub(crate) const ARG_KEYS: &[&str] = &["name", "description", "default", "header"];

/// Returns the expression of type `Tool`.
pub(crate) fn expression(
    attr: TokenStream,
    function: &ParsedFunction,
    diagnostics: &mut Diagnostics,
) -> TokenStream {
    let mut settings = Settings::read(attr, KEYS, diagnostics);
    let name = settings
        .text("name", diagnostics)
        .map_or_else(|| function.name.to_token_stream(), ToTokens::into_token_stream);
    let mut calls = function.common_setters(&mut settings, diagnostics);
    if function.params.need_validator() {
        calls.extend(quote!(.validated(true)));
    }
    for hint in ["read_only", "destructive", "idempotent", "open_world", "validated", "restartable", "once"] {
        let setter = settings.key(hint).cloned();
        if let (Some(setter), Some(yes)) = (setter, settings.flag(hint, diagnostics)) {
            calls.extend(quote!(.#setter(#yes)));
        }
    }
    if let Some(limit) = settings.value("timeout", "\"30s\"", diagnostics) {
        match duration(&limit) {
            Some(limit) => calls.extend(quote!(.timeout(#limit))),
            None => diagnostics.error_at(
                limit,
                "invalid duration: expected `\"500ms\"`, `\"30s\"`, `\"5m\"` or a `Duration`",
            ),
        }
    }

    if let Some(support) = settings.value("task", "\"optional\"", diagnostics) {
        match task_support(&support) {
            Some(support) => calls.extend(quote!(.task(#support))),
            None => diagnostics.error_at(
                support,
                "unknown task support: expected `\"forbidden\"`, `\"optional\"`, `\"required\"` or a `TaskSupport`",
            ),
        }
    }

    let (schema, handler, traits) =
        (function.params.schema(), function.handler(&quote!(__convert)), import_kind_traits());
    let output = &function.output;
    let span = span_at(output);
    // Evaluated once, so that a type that cannot be returned is reported once.
    let conversion = quote_spanned!(span=> (&&&::tsugite::server::macro_support::ReturnType::<#output>::NEW).kind().conversion());
    quote!({
        #traits
        let __conversion = #conversion;
        let __convert = __conversion.convert;
        ::tsugite::server::Tool::new(#name) #calls .function(#schema, (__conversion.schema)(), #handler)
    })
}

/// Parses whether a tool can run as a task, or returns the expression unchanged.
fn task_support(support: &Expr) -> Option<TokenStream> {
    let text = match literal(support) {
        None => return Some(support.to_token_stream()),
        Some(Lit::Str(text)) => text.value(),
        Some(_) => return None,
    };
    let variant = match text.as_str() {
        "forbidden" => quote!(Forbidden),
        "optional" => quote!(Optional),
        "required" => quote!(Required),
        _ => return None,
    };
    Some(quote!(::tsugite::protocol::TaskSupport::#variant))
}

/// Parses a duration, or returns the expression unchanged.
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
