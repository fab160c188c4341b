//! Collects compile errors, so that all of them are reported at once.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Error;

/// The errors found so far.
#[derive(Default)]
pub(crate) struct Diagnostics(Option<Error>);

impl Diagnostics {
    /// Adds an error at the tokens `location`.
    pub(crate) fn error_at(&mut self, location: impl ToTokens, text: impl Display) {
        self.push(Error::new_spanned(location, text));
    }

    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(known) => known.combine(error),
            None => self.0 = Some(error),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Converts the errors to `compile_error!` invocations.
    pub(crate) fn into_compile_errors(self) -> TokenStream {
        self.0.map(Error::into_compile_error).unwrap_or_default()
    }
}

/// Joins names in backquotes: "`a`, `b` and `c`".
pub(crate) fn join_quoted(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}
