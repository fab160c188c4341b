//! What is wrong, gathered: somebody with three mistakes hears of three.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Error;

/// Mistakes found so far.
#[derive(Default)]
pub(crate) struct Diagnostics(Option<Error>);

impl Diagnostics {
    /// Something is wrong at `place`.
    pub(crate) fn error_at(&mut self, place: impl ToTokens, text: impl Display) {
        self.push(Error::new_spanned(place, text));
    }

    pub(crate) fn push(&mut self, mistake: Error) {
        match &mut self.0 {
            Some(known) => known.combine(mistake),
            None => self.0 = Some(mistake),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// As code that does not compile and says why.
    pub(crate) fn into_compile_errors(self) -> TokenStream {
        self.0.map(Error::into_compile_error).unwrap_or_default()
    }
}

/// Names in backquotes, for a person.
pub(crate) fn join_quoted(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}
