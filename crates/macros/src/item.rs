//! From a marked function to something that can be offered: what tools, resources and prompts have in common.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{Attribute, LitStr, Meta};

use crate::diagnostics::Diagnostics;
use crate::function::{Function, has_function, strip_param_attributes};
use crate::params::Params;
use crate::settings::Settings;
use crate::{docs, prompt, resource, tool};

/// Said to whoever marks a function twice.
pub(crate) const MULTIPLE_MARKS_ERROR: &str = "a function is one of `#[tool]`, `#[resource]` and `#[prompt]`";

/// What a function becomes.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ItemKind {
    Tool,
    Resource,
    Prompt,
}

/// A function that was read, and how it is called.
pub(crate) struct ParsedFunction {
    /// The name of the function.
    pub(crate) name: LitStr,
    /// Its doc comments.
    pub(crate) docs: Option<TokenStream>,
    pub(crate) params: Params,
    /// What it returns.
    pub(crate) output: TokenStream,
    /// Its path.
    callee: TokenStream,
    /// Whether it takes `&self`, which is `__this` outside of the handler.
    takes_self: bool,
    is_async: bool,
}

/// `#[find_tool]`, `#[resource]` and `#[prompt]` on a function that stands alone.
pub(crate) fn expand(kind: ItemKind, attr: TokenStream, item: TokenStream) -> TokenStream {
    let mut function: Function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(_) if has_function(&item) => return strip_param_attributes(item),
        Err(_) => {
            let mut mistakes = Diagnostics::default();
            mistakes.error_at(&item, format!("`#[{}]` goes on a function", kind.noun()));
            let errors = mistakes.into_compile_errors();
            return quote!(#errors #item);
        }
    };
    let mut mistakes = Diagnostics::default();
    if let Some(receiver) = function.receiver() {
        mistakes.error_at(receiver, "for methods, put `#[handlers]` on the `impl` block");
        let errors = mistakes.into_compile_errors();
        let function = strip_param_attributes(function.to_token_stream());
        return quote!(#errors #function);
    }
    if let Some(second) =
        function.attrs.extract_if(.., |attr| ItemKind::from_attribute(attr).is_some()).next()
    {
        mistakes.error_at(second, MULTIPLE_MARKS_ERROR);
    }
    let ident = function.sig.ident.clone();
    let made = kind.expression(attr, &mut function, quote!(#ident::call), &mut mistakes);
    let ty = kind.type_path();
    let wrong = !mistakes.is_empty();
    let errors = mistakes.into_compile_errors();
    // So that nothing else fails for want of it.
    let made = if wrong { quote!(<#ty>::new("")) } else { made };

    let Function { attrs, vis, mut sig, body } = function;
    sig.ident = format_ident!("call", span = ident.span());
    let (docs, attrs): (Vec<_>, Vec<_>) = attrs.into_iter().partition(docs::is_doc);
    quote! {
        #errors

        #(#docs)*
        #[allow(non_camel_case_types)]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
        #vis struct #ident;

        const _: () = {
            // No variable may have the name of a unit struct. Beneath this it is the name of a function, so parameters
            // and variables of the body may.
            #[allow(dead_code, non_snake_case)]
            fn #ident() {}

            impl #ident {
                #[doc = "The function itself."]
                #[allow(dead_code, clippy::too_many_arguments)]
                #(#attrs)*
                #vis #sig #body
            }

            #[automatically_derived]
            impl ::core::convert::From<#ident> for #ty {
                fn from(_: #ident) -> Self {
                    #made
                }
            }

            #[automatically_derived]
            impl ::core::convert::From<#ident> for ::tsugite::server::Registration {
                fn from(it: #ident) -> Self {
                    ::core::convert::From::from(<#ty as ::core::convert::From<#ident>>::from(it))
                }
            }
        };
    }
}

impl ItemKind {
    /// Which mark an attribute is, if it is one.
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

    /// An expression that makes it, of a function found at `callee`. What is only for us is taken off the function.
    pub(crate) fn expression(
        self,
        attr: TokenStream,
        function: &mut Function,
        callee: TokenStream,
        mistakes: &mut Diagnostics,
    ) -> TokenStream {
        function.check(self.noun(), mistakes);
        let arg_keys = match self {
            ItemKind::Tool => tool::ARG_KEYS,
            ItemKind::Resource => resource::ARG_KEYS,
            ItemKind::Prompt => prompt::ARG_KEYS,
        };
        let ident = &function.sig.ident;
        let given = ParsedFunction {
            name: LitStr::new(&ident.unraw().to_string(), ident.span()),
            docs: docs::description(&function.attrs),
            params: Params::read(&mut function.sig, arg_keys, mistakes),
            output: function.output(),
            callee,
            takes_self: function.receiver().is_some(),
            is_async: function.sig.asyncness.is_some(),
        };
        match self {
            ItemKind::Tool => tool::expression(attr, &given, mistakes),
            ItemKind::Resource => resource::expression(attr, &given, mistakes),
            ItemKind::Prompt => prompt::expression(attr, &given, mistakes),
        }
    }
}

impl ParsedFunction {
    /// The handler; `convert` is called with what the function returned.
    pub(crate) fn handler(&self, give: &TokenStream) -> TokenStream {
        let Self { params, callee, .. } = self;
        let (reading, passed) = (params.read_statements(), params.call_arguments());
        let (own, receiver) = match self.takes_self {
            true => (quote!(let __this = ::std::sync::Arc::clone(&__this);), quote!(&__this,)),
            false => (quote!(), quote!()),
        };
        let (places, run) = match self.is_async {
            true => (quote!(), quote!(#callee(#receiver #passed))),
            false => (
                quote!(let __places = __call.blocking();),
                quote!(__places.run(move || #callee(#receiver #passed))),
            ),
        };
        quote!({
            #own
            ::tsugite::server::macro_support::handler(move |__call| {
                #reading
                #own
                #places
                ::core::result::Result::Ok(::std::boxed::Box::pin(async move { #give(#run.await) }))
            })
        })
    }

    /// Calls on `__it` for what all three have: `title`, `description`, `icons`, `tags`.
    pub(crate) fn common_setters(&self, settings: &mut Settings, mistakes: &mut Diagnostics) -> TokenStream {
        let mut calls = TokenStream::new();
        if let Some(title) = settings.text("title", mistakes) {
            calls.extend(quote!(.title(#title)));
        }
        let described = settings.text("description", mistakes).map(ToTokens::into_token_stream);
        if let Some(description) = described.or_else(|| self.docs.clone()) {
            calls.extend(quote!(.description(#description)));
        }
        if let Some(icons) = settings.value("icons", "[…]", mistakes) {
            calls.extend(quote!(.icons(#icons)));
        }
        for tag in settings.list("tags", mistakes) {
            calls.extend(quote!(.tag(#tag)));
        }
        calls
    }
}

/// The traits that tell kinds of types apart, for the code that follows.
pub(crate) fn import_kind_traits() -> TokenStream {
    quote! {
        #[allow(unused_imports)]
        use ::tsugite::server::macro_support::{
            IsArgument as _, IsNeither as _, IsOutput as _, IsPart as _, IsResult as _, IsValue as _,
        };
    }
}

/// What stands in the brackets of a mark.
pub(crate) fn attribute_arguments(attr: &Attribute, mistakes: &mut Diagnostics) -> TokenStream {
    match &attr.meta {
        Meta::Path(_) => TokenStream::new(),
        Meta::List(list) => list.tokens.clone(),
        Meta::NameValue(_) => {
            mistakes.error_at(attr, "write the settings in brackets: `(name = \"…\")`");
            TokenStream::new()
        }
    }
}
