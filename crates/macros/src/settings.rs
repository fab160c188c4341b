//! Parses the settings of an attribute: `name = "add", read_only`.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Lit, Meta, Token};

use crate::diagnostics::{Diagnostics, join_quoted};

/// The settings that have not been used yet.
#[derive(Default)]
pub(crate) struct Settings(Vec<Setting>);

struct Setting {
    key: Ident,
    value: Option<Expr>,
}

impl Settings {
    /// Parses settings. Each must be `known` and given once.
    pub(crate) fn read(tokens: TokenStream, known: &[&str], diagnostics: &mut Diagnostics) -> Self {
        let mut settings = Self::default();
        settings.read_more(tokens, known, diagnostics);
        settings
    }

    /// Removes the attributes named `name` and parses their settings.
    pub(crate) fn take(
        attrs: &mut Vec<Attribute>,
        name: &str,
        known: &[&str],
        diagnostics: &mut Diagnostics,
    ) -> Option<Self> {
        let mut settings = None;
        attrs.retain(|attr| {
            if !attr.path().is_ident(name) {
                return true;
            }
            let settings = settings.get_or_insert_with(Self::default);
            match &attr.meta {
                Meta::List(list) => settings.read_more(list.tokens.clone(), known, diagnostics),
                _ => {
                    diagnostics.error_at(attr, format!("expected `#[{name}(…)]` with {}", join_quoted(known)))
                }
            }
            false
        });
        settings
    }

    fn read_more(&mut self, tokens: TokenStream, known: &[&str], diagnostics: &mut Diagnostics) {
        let read = match Punctuated::<Setting, Token![,]>::parse_terminated.parse2(tokens) {
            Ok(read) => read,
            Err(error) => return diagnostics.push(error),
        };
        for setting in read {
            let key = setting.key.unraw().to_string();
            if !known.contains(&key.as_str()) {
                diagnostics.error_at(
                    &setting.key,
                    format!("unknown setting `{key}`; expected {}", join_quoted(known)),
                );
            } else if self.0.iter().any(|other| other.key.unraw() == key) {
                diagnostics.error_at(&setting.key, format!("`{key}` is given twice"));
            } else {
                self.0.push(setting);
            }
        }
    }

    /// Takes a setting that is a string, or an expression.
    pub(crate) fn text(&mut self, key: &str, diagnostics: &mut Diagnostics) -> Option<Expr> {
        let value = self.value(key, "\"…\"", diagnostics)?;
        if literal(&value).is_none_or(|literal| matches!(literal, Lit::Str(_))) {
            return Some(value);
        }
        diagnostics.error_at(&value, format!("`{key}` must be a string: `{key} = \"…\"`"));
        None
    }

    /// Takes a boolean setting; a key without a value is `true`.
    pub(crate) fn flag(&mut self, key: &str, diagnostics: &mut Diagnostics) -> Option<TokenStream> {
        let Setting { value, .. } = self.setting(key)?;
        let Some(value) = value else { return Some(quote!(true)) };
        if literal(&value).is_none_or(|literal| matches!(literal, Lit::Bool(_))) {
            return Some(value.into_token_stream());
        }
        diagnostics.error_at(&value, format!("`{key}` must be a boolean: `{key}` or `{key} = false`"));
        None
    }

    /// Takes a setting of any type. `example` is shown in the error for a missing value.
    pub(crate) fn value(&mut self, key: &str, example: &str, diagnostics: &mut Diagnostics) -> Option<Expr> {
        let Setting { key: location, value } = self.setting(key)?;
        if value.is_none() {
            diagnostics.error_at(location, format!("`{key}` needs a value: `{key} = {example}`"));
        }
        value
    }

    /// Takes a list, such as `tags = ["a", "b"]`.
    pub(crate) fn list(&mut self, key: &str, diagnostics: &mut Diagnostics) -> Vec<Expr> {
        let example = "[\"a\", \"b\"]";
        match self.value(key, example, diagnostics) {
            None => Vec::new(),
            Some(Expr::Array(list)) => list.elems.into_iter().collect(),
            Some(other) => {
                diagnostics.error_at(other, format!("`{key}` must be a list: `{key} = {example}`"));
                Vec::new()
            }
        }
    }

    /// Takes a setting whose value is optional.
    pub(crate) fn optional_value(&mut self, key: &str) -> Option<Option<Expr>> {
        self.setting(key).map(|setting| setting.value)
    }

    /// Returns the key as written, if it was given.
    pub(crate) fn key(&self, key: &str) -> Option<&Ident> {
        self.0.iter().map(|setting| &setting.key).find(|found| found.unraw() == key)
    }

    fn setting(&mut self, key: &str) -> Option<Setting> {
        let at = self.0.iter().position(|setting| setting.key.unraw() == key)?;
        Some(self.0.remove(at))
    }
}

impl Parse for Setting {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = Ident::parse_any(input)?;
        let value = match input.parse::<Option<Token![=]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        Ok(Self { key, value })
    }
}

/// Returns the literal, if the expression is one.
pub(crate) fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        _ => None,
    }
}

/// Returns the string, if the expression is a string literal.
pub(crate) fn string_literal(value: &Expr) -> Option<String> {
    match literal(value)? {
        Lit::Str(text) => Some(text.value()),
        _ => None,
    }
}
