//! Expands a marked function: the parts that tools, resources and prompts have in common.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{Attribute, LitStr, Meta};

use crate::diagnostics::Diagnostics;
use crate::function::{Function, has_function, strip_param_attributes};
use crate::params::Params;
use crate::settings::Settings;
use crate::{docs, prompt, resource, tool};

/// The error for a function with two marks.
pub(crate) const MULTIPLE_MARKS_ERROR: &str =
    "a function can only have one of `#[tool]`, `#[resource]` and `#[prompt]`";

/// The kind of item that a function becomes.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ItemKind {
    Tool,
    Resource,
    Prompt,
}

/// A parsed function, and how to call it.
pub(crate) struct ParsedFunction {
    /// The name of the function.
    pub(crate) name: LitStr,
    /// The doc comments.
    pub(crate) docs: Option<TokenStream>,
    pub(crate) params: Params,
    /// The return type.
    pub(crate) output: TokenStream,
    /// The path of the function.
    callee: TokenStream,
    /// Whether it takes `&self`, which is `__this` outside the handler.
    takes_self: bool,
    is_async: bool,
}

/// Expands `#[tool]`, `#[resource]` or `#[prompt]` on a free function.
pub(crate) fn expand(kind: ItemKind, attr: TokenStream, item: TokenStream) -> TokenStream {
    let mut function: Function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(_) if has_function(&item) => return strip_param_attributes(item),
        Err(_) => {
            let mut diagnostics = Diagnostics::default();
            diagnostics.error_at(&item, format!("`#[{}]` can only be used on a function", kind.noun()));
            let errors = diagnostics.into_compile_errors();
            return quote!(#errors #item);
        }
    };
    let mut diagnostics = Diagnostics::default();
    if let Some(receiver) = function.receiver() {
        diagnostics.error_at(receiver, "for methods, put `#[handlers]` on the `impl` block");
        let errors = diagnostics.into_compile_errors();
        let function = strip_param_attributes(function.to_token_stream());
        return quote!(#errors #function);
    }
    if let Some(second) =
        function.attrs.extract_if(.., |attr| ItemKind::from_attribute(attr).is_some()).next()
    {
        diagnostics.error_at(second, MULTIPLE_MARKS_ERROR);
    }
    let ident = function.sig.ident.clone();
    let expression = kind.expression(attr, &mut function, quote!(#ident::call), &mut diagnostics);
    let ty = kind.type_path();
    let has_errors = !diagnostics.is_empty();
    let errors = diagnostics.into_compile_errors();
    // Generate the item anyway, to avoid errors that only follow from these.
    let expression = if has_errors { quote!(<#ty>::new("")) } else { expression };

    let Function { attrs, vis, mut sig, body } = function;
    sig.ident = format_ident!("call", span = ident.span());
    let (docs, attrs): (Vec<_>, Vec<_>) = attrs.into_iter().partition(docs::is_doc);
    let type_docs = format!("Holds the function of the {} `{}` as `call`.", kind.noun(), ident.unraw());
    quote! {
        #errors

        // A function, which variables and parameters may shadow, and not a unit struct, which they could not.
        #(#docs)*
        #[allow(non_snake_case)]
        #vis fn #ident() -> #ty {
            #expression
        }

        #[doc = #type_docs]
        #[allow(dead_code, non_camel_case_types)]
        #vis enum #ident {}

        impl #ident {
            #[doc = "The function itself."]
            #[allow(dead_code, clippy::too_many_arguments)]
            #(#attrs)*
            #vis #sig #body
        }
    }
}

impl ItemKind {
    /// Returns the kind that an attribute marks, if any.
    pub(crate) fn from_attribute(attr: &Attribute) -> Option<Self> {
        let last = attr.path().segments.last()?;
        [ItemKind::Tool, ItemKind::Resource, ItemKind::Prompt]
            .into_iter()
            .find(|kind| last.ident == kind.noun())
    }

    pub(crate) fn noun(self) -> &'static str {
        match self {
            ItemKind::Tool => "tool",
            ItemKind::Resource => "resource",
            ItemKind::Prompt => "prompt",
        }
    }

    fn type_path(self) -> TokenStream {
        match self {
            ItemKind::Tool => quote!(::tsugite::server::Tool),
            ItemKind::Resource => quote!(::tsugite::server::Resource),
            ItemKind::Prompt => quote!(::tsugite::server::Prompt),
        }
    }

    /// Returns the expression that builds the item. Removes our attributes from the function.
    pub(crate) fn expression(
        self,
        attr: TokenStream,
        function: &mut Function,
        callee: TokenStream,
        diagnostics: &mut Diagnostics,
    ) -> TokenStream {
        function.check(self.noun(), diagnostics);
        let arg_keys = match self {
            ItemKind::Tool => tool::ARG_KEYS,
            ItemKind::Resource => resource::ARG_KEYS,
            ItemKind::Prompt => prompt::ARG_KEYS,
        };
        let ident = &function.sig.ident;
        let function = ParsedFunction {
            name: LitStr::new(&ident.unraw().to_string(), ident.span()),
            docs: docs::description(&function.attrs),
            params: Params::read(&mut function.sig, arg_keys, diagnostics),
            output: function.output(),
            callee,
            takes_self: function.receiver().is_some(),
            is_async: function.sig.asyncness.is_some(),
        };
        if self != ItemKind::Tool {
            function.params.reject_rules(self.noun(), diagnostics);
        }
        match self {
            ItemKind::Tool => tool::expression(attr, &function, diagnostics),
            ItemKind::Resource => resource::expression(attr, &function, diagnostics),
            ItemKind::Prompt => prompt::expression(attr, &function, diagnostics),
        }
    }
}

impl ParsedFunction {
    /// Returns the handler. `convert` converts the return value of the function.
    pub(crate) fn handler(&self, convert: &TokenStream) -> TokenStream {
        let Self { params, callee, .. } = self;
        let (reading, passed) = (params.read_statements(), params.call_arguments());
        let states = params.required_states();
        let (own, receiver) = match self.takes_self {
            true => (quote!(let __this = ::std::sync::Arc::clone(&__this);), quote!(&__this,)),
            false => (quote!(), quote!()),
        };
        let (blocking, run) = match self.is_async {
            true => (quote!(), quote!(#callee(#receiver #passed))),
            false => (
                quote!(let __blocking = __call.blocking();),
                quote!(__blocking.run(move || #callee(#receiver #passed))),
            ),
        };
        quote!({
            #own
            ::tsugite::server::macro_support::handler(#states, move |__call| {
                #reading
                #own
                #blocking
                ::core::result::Result::Ok(::std::boxed::Box::pin(async move { #convert(#run.await) }))
            })
        })
    }

    /// Returns the statements that add completion to `__it`.
    pub(crate) fn completer_statements(&self, diagnostics: &mut Diagnostics) -> TokenStream {
        self.params.completer_statements(self.takes_self, diagnostics)
    }

    /// Returns the setter calls that all three kinds have: `title`, `description`, `icons`, `tags`,
    /// `scopes`.
    pub(crate) fn common_setters(
        &self,
        settings: &mut Settings,
        diagnostics: &mut Diagnostics,
    ) -> TokenStream {
        let mut calls = TokenStream::new();
        if let Some(title) = settings.text("title", diagnostics) {
            calls.extend(quote!(.title(#title)));
        }
        let described = settings.text("description", diagnostics).map(ToTokens::into_token_stream);
        if let Some(description) = described.or_else(|| self.docs.clone()) {
            calls.extend(quote!(.description(#description)));
        }
        if let Some(icons) = settings.value("icons", "[…]", diagnostics) {
            calls.extend(quote!(.icons(#icons)));
        }
        for tag in settings.list("tags", diagnostics) {
            calls.extend(quote!(.tag(#tag)));
        }
        for scope in settings.list("scopes", diagnostics) {
            calls.extend(quote!(.scope(#scope)));
        }
        calls
    }
}

/// Imports the traits that distinguish the kinds of types, for the generated code.
pub(crate) fn import_kind_traits() -> TokenStream {
    quote! {
        #[allow(unused_imports)]
        use ::tsugite::server::macro_support::{
            EnumDefault as _, IsArgument as _, IsNeither as _, IsOutput as _, IsPart as _, IsResult as _, IsValue as _,
            SerializedDefault as _, UnknownDefault as _,
        };
    }
}

/// Returns the settings of a mark.
pub(crate) fn attribute_arguments(attr: &Attribute, diagnostics: &mut Diagnostics) -> TokenStream {
    match &attr.meta {
        Meta::Path(_) => TokenStream::new(),
        Meta::List(list) => list.tokens.clone(),
        Meta::NameValue(_) => {
            diagnostics.error_at(attr, "write the settings in parentheses: `(name = \"…\")`");
            TokenStream::new()
        }
    }
}
