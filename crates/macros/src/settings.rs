//! What stands in the brackets of an attribute: `name = "add", read_only`.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Lit, Meta, Token};

use crate::diagnostics::{Diagnostics, join_quoted};

/// Settings that were not taken yet.
#[derive(Default)]
pub(crate) struct Settings(Vec<Setting>);

struct Setting {
    key: Ident,
    value: Option<Expr>,
}

impl Settings {
    /// Reads settings of which each is `known` and given once.
    pub(crate) fn read(tokens: TokenStream, known: &[&str], mistakes: &mut Diagnostics) -> Self {
        let mut settings = Self::default();
        settings.read_more(tokens, known, mistakes);
        settings
    }

    /// Takes the attributes called `name` and reads them.
    pub(crate) fn take(
        attrs: &mut Vec<Attribute>,
        name: &str,
        known: &[&str],
        mistakes: &mut Diagnostics,
    ) -> Option<Self> {
        let mut settings = None;
        attrs.retain(|attr| {
            if !attr.path().is_ident(name) {
                return true;
            }
            let settings = settings.get_or_insert_with(Self::default);
            match &attr.meta {
                Meta::List(list) => settings.read_more(list.tokens.clone(), known, mistakes),
                _ => {
                    mistakes.error_at(attr, format!("write `#[{name}(…)]`; known are {}", join_quoted(known)))
                }
            }
            false
        });
        settings
    }

    fn read_more(&mut self, tokens: TokenStream, known: &[&str], mistakes: &mut Diagnostics) {
        let read = match Punctuated::<Setting, Token![,]>::parse_terminated.parse2(tokens) {
            Ok(read) => read,
            Err(error) => return mistakes.push(error),
        };
        for setting in read {
            let key = setting.key.unraw().to_string();
            if !known.contains(&key.as_str()) {
                mistakes.error_at(&setting.key, format!("unknown `{key}`; known are {}", join_quoted(known)));
            } else if self.0.iter().any(|other| other.key.unraw() == key) {
                mistakes.error_at(&setting.key, format!("`{key}` is given twice"));
            } else {
                self.0.push(setting);
            }
        }
    }

    /// A text, or an expression that gives one.
    pub(crate) fn text(&mut self, key: &str, mistakes: &mut Diagnostics) -> Option<Expr> {
        let value = self.value(key, "\"…\"", mistakes)?;
        if literal(&value).is_none_or(|literal| matches!(literal, Lit::Str(_))) {
            return Some(value);
        }
        mistakes.error_at(&value, format!("`{key}` is a string: `{key} = \"…\"`"));
        None
    }

    /// Yes if it is only named; no if it is not.
    pub(crate) fn flag(&mut self, key: &str, mistakes: &mut Diagnostics) -> Option<TokenStream> {
        let Setting { value, .. } = self.setting(key)?;
        let Some(value) = value else { return Some(quote!(true)) };
        if literal(&value).is_none_or(|literal| matches!(literal, Lit::Bool(_))) {
            return Some(value.into_token_stream());
        }
        mistakes.error_at(&value, format!("`{key}` is yes or no: `{key}` or `{key} = false`"));
        None
    }

    /// An expression of any kind; `example` is for whoever left it out.
    pub(crate) fn value(&mut self, key: &str, example: &str, mistakes: &mut Diagnostics) -> Option<Expr> {
        let Setting { key: place, value } = self.setting(key)?;
        if value.is_none() {
            mistakes.error_at(place, format!("`{key}` needs a value: `{key} = {example}`"));
        }
        value
    }

    /// `tags = ["a", "b"]`.
    pub(crate) fn list(&mut self, key: &str, mistakes: &mut Diagnostics) -> Vec<Expr> {
        let example = "[\"a\", \"b\"]";
        match self.value(key, example, mistakes) {
            None => Vec::new(),
            Some(Expr::Array(list)) => list.elems.into_iter().collect(),
            Some(other) => {
                mistakes.error_at(other, format!("`{key}` is a list: `{key} = {example}`"));
                Vec::new()
            }
        }
    }

    /// What may stand with or without a value.
    pub(crate) fn optional_value(&mut self, key: &str) -> Option<Option<Expr>> {
        self.setting(key).map(|setting| setting.value)
    }

    /// The key as it was written, if it was.
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

/// The literal that an expression is.
pub(crate) fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        _ => None,
    }
}

/// The text that an expression is, if it is written out.
pub(crate) fn string_literal(value: &Expr) -> Option<String> {
    match literal(value)? {
        Lit::Str(text) => Some(text.value()),
        _ => None,
    }
}
