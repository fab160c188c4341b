//! `#[handlers]`: registers the marked methods of an `impl` block.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Generics, ImplItem, Token, Type, Visibility, braced, parse_quote};

use crate::diagnostics::Diagnostics;
use crate::function::{Function, strip_block_attributes};
use crate::item::{ItemKind, MULTIPLE_MARKS_ERROR, attribute_arguments};
use crate::params::cfg_condition;

/// Expands `#[handlers]` on an `impl` block.
pub(crate) fn expand(attr: TokenStream, block: TokenStream) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    if !attr.is_empty() {
        diagnostics.error_at(&attr, "`#[handlers]` takes no settings; put them on the methods");
    }
    let mut block: ImplBlock = match syn::parse2(block.clone()) {
        Ok(block) => block,
        Err(_) if block.clone().into_iter().any(|token| token.to_string() == "impl") => {
            return strip_block_attributes(block);
        }
        Err(_) => {
            diagnostics.error_at(&block, "`#[handlers]` can only be used on an `impl` block");
            let errors = diagnostics.into_compile_errors();
            return quote!(#errors #block);
        }
    };
    let mut registrations = TokenStream::new();
    for item in &mut block.items {
        let BlockItem::Function(function) = item else { continue };
        registrations.extend(registration(function, &mut diagnostics));
    }
    match &block.trait_for {
        Some(of_trait) => {
            diagnostics.error_at(
                of_trait,
                "`#[handlers]` cannot be used on the `impl` of a trait: use it on `impl Type { … }`",
            );
            let errors = diagnostics.into_compile_errors();
            return quote!(#errors #block);
        }
        None if registrations.is_empty() && diagnostics.is_empty() => {
            diagnostics.error_at(
                &block.ty,
                "no handlers: mark methods with `#[tool]`, `#[resource]` or `#[prompt]`",
            );
        }
        None => {}
    }
    let has_errors = !diagnostics.is_empty();
    let errors = diagnostics.into_compile_errors();
    // Implement the trait anyway, to avoid errors that only follow from these.
    let registrations = if has_errors { TokenStream::new() } else { registrations };
    let ImplBlock { generics, ty, .. } = &block;
    let (generics, _, bounds) = generics.split_for_impl();
    quote! {
        #errors
        #block

        #[automatically_derived]
        impl #generics ::tsugite::server::Handlers for #ty #bounds {
            fn registrations(self) -> ::std::vec::Vec<::tsugite::server::Registration> {
                let __this = ::std::sync::Arc::new(self);
                #[allow(unused_mut)]
                let mut __registrations = ::std::vec::Vec::new();
                #registrations
                __registrations
            }
        }
    }
}

/// Returns the statement that registers a method; `None` if the method is not marked.
fn registration(function: &mut Function, diagnostics: &mut Diagnostics) -> Option<TokenStream> {
    let marks: Vec<_> =
        function.attrs.extract_if(.., |attr| ItemKind::from_attribute(attr).is_some()).collect();
    if let [_, second, ..] = marks.as_slice() {
        diagnostics.error_at(second, MULTIPLE_MARKS_ERROR);
    }
    let mark = marks.first()?;
    function.attrs.push(parse_quote!(#[allow(clippy::too_many_arguments)]));
    let (kind, arguments) = (ItemKind::from_attribute(mark)?, attribute_arguments(mark, diagnostics));
    let (cfg, ident) = (cfg_condition(&function.attrs), function.sig.ident.clone());
    let cfg = cfg.map(|cfg| quote!(#[cfg(#cfg)]));
    let expression = kind.expression(arguments, function, quote!(Self::#ident), diagnostics);
    Some(quote!(#cfg __registrations.push(::core::convert::From::from(#expression));))
}

/// An `impl` block whose function bodies are not parsed.
struct ImplBlock {
    attrs: Vec<Attribute>,
    generics: Generics,
    /// The `Trait for` part, which is an error.
    trait_for: Option<TokenStream>,
    ty: Type,
    inner_attrs: Vec<Attribute>,
    items: Vec<BlockItem>,
}

enum BlockItem {
    Function(Box<Function>),
    Other(TokenStream),
}

impl Parse for ImplBlock {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = Attribute::parse_outer(input)?;
        input.parse::<Token![impl]>()?;
        let mut generics: Generics = input.parse()?;
        let mut ty: Type = input.parse()?;
        let mut of_trait = None;
        if let Some(word) = input.parse::<Option<Token![for]>>()? {
            of_trait = Some(quote!(#ty #word));
            ty = input.parse()?;
        }
        generics.where_clause = input.parse()?;
        let body;
        braced!(body in input);
        let inner = Attribute::parse_inner(&body)?;
        let mut items = Vec::new();
        while !body.is_empty() {
            items.push(body.parse()?);
        }
        Ok(Self { attrs, generics, trait_for: of_trait, ty, inner_attrs: inner, items })
    }
}

impl Parse for BlockItem {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let ahead = input.fork();
        Attribute::parse_outer(&ahead)?;
        ahead.parse::<Visibility>()?;
        let constant = ahead.peek(Token![const])
            && !(ahead.peek2(Token![fn])
                || ahead.peek2(Token![async])
                || ahead.peek2(Token![unsafe])
                || ahead.peek2(Token![extern]));
        let function = !constant
            && (ahead.peek(Token![const])
                || ahead.peek(Token![async])
                || ahead.peek(Token![unsafe])
                || ahead.peek(Token![extern])
                || ahead.peek(Token![fn]));
        match function {
            true => Ok(BlockItem::Function(Box::new(input.parse()?))),
            false => Ok(BlockItem::Other(input.parse::<ImplItem>()?.into_token_stream())),
        }
    }
}

impl ToTokens for ImplBlock {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { attrs, generics, trait_for: of_trait, ty, inner_attrs: inner, items } = self;
        let (generics, _, bounds) = generics.split_for_impl();
        tokens.extend(quote!(#(#attrs)* impl #generics #of_trait #ty #bounds { #(#inner)* #(#items)* }));
    }
}

impl ToTokens for BlockItem {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            BlockItem::Function(function) => function.to_tokens(tokens),
            BlockItem::Other(other) => tokens.extend(other.clone()),
        }
    }
}
