//! `#[handlers]`: methods that share a value are offered together.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Generics, ImplItem, Token, Type, Visibility, braced, parse_quote};

use crate::diagnostics::Diagnostics;
use crate::function::{Function, strip_block_attributes};
use crate::item::{ItemKind, MULTIPLE_MARKS_ERROR, attribute_arguments};
use crate::params::cfg_condition;

/// `#[handlers]` on an `impl` block.
pub(crate) fn expand(attr: TokenStream, block: TokenStream) -> TokenStream {
    let mut mistakes = Diagnostics::default();
    if !attr.is_empty() {
        mistakes.error_at(&attr, "`#[handlers]` takes no settings; its methods do");
    }
    let mut block: ImplBlock = match syn::parse2(block.clone()) {
        Ok(block) => block,
        Err(_) if block.clone().into_iter().any(|token| token.to_string() == "impl") => {
            return strip_block_attributes(block);
        }
        Err(_) => {
            mistakes.error_at(&block, "`#[handlers]` goes on an `impl` block");
            let errors = mistakes.into_compile_errors();
            return quote!(#errors #block);
        }
    };
    let mut offered = TokenStream::new();
    for item in &mut block.items {
        let BlockItem::Function(function) = item else { continue };
        offered.extend(registration(function, &mut mistakes));
    }
    match &block.trait_for {
        Some(of_trait) => {
            mistakes.error_at(of_trait, "`#[handlers]` goes on `impl Type { … }`, not on a trait's");
            let errors = mistakes.into_compile_errors();
            return quote!(#errors #block);
        }
        None if offered.is_empty() && mistakes.is_empty() => {
            mistakes.error_at(
                &block.ty,
                "nothing to offer: mark methods with `#[tool]`, `#[resource]` or `#[prompt]`",
            );
        }
        None => {}
    }
    let wrong = !mistakes.is_empty();
    let errors = mistakes.into_compile_errors();
    // So that nothing else fails for want of it.
    let offered = if wrong { TokenStream::new() } else { offered };
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
                let mut __offered = ::std::vec::Vec::new();
                #offered
                __offered
            }
        }
    }
}

/// A statement that puts what a method is marked as with what is offered; nothing if it is not marked.
fn registration(function: &mut Function, mistakes: &mut Diagnostics) -> Option<TokenStream> {
    let marks: Vec<_> =
        function.attrs.extract_if(.., |attr| ItemKind::from_attribute(attr).is_some()).collect();
    if let [_, second, ..] = marks.as_slice() {
        mistakes.error_at(second, MULTIPLE_MARKS_ERROR);
    }
    let mark = marks.first()?;
    function.attrs.push(parse_quote!(#[allow(clippy::too_many_arguments)]));
    let (kind, arguments) = (ItemKind::from_attribute(mark)?, attribute_arguments(mark, mistakes));
    let (cfg, ident) = (cfg_condition(&function.attrs), function.sig.ident.clone());
    let cfg = cfg.map(|cfg| quote!(#[cfg(#cfg)]));
    let made = kind.expression(arguments, function, quote!(Self::#ident), mistakes);
    Some(quote!(#cfg __offered.push(::core::convert::From::from(#made));))
}

/// An `impl` block whose functions keep their bodies as they are.
struct ImplBlock {
    attrs: Vec<Attribute>,
    generics: Generics,
    /// Where a trait is implemented, which is not our business.
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
