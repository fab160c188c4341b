//! `#[handlers]`: methods that share a value are offered together.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Generics, ImplItem, Token, Type, Visibility, braced, parse_quote};

use crate::function::{Function, bare_block};
use crate::mistakes::Mistakes;
use crate::offer::{Kind, TWICE, arguments};
use crate::params::cfg_of;

/// `#[handlers]` on an `impl` block.
pub(crate) fn expand(attr: TokenStream, block: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    if !attr.is_empty() {
        mistakes.at(&attr, "`#[handlers]` takes no settings; its methods do");
    }
    let mut block: Block = match syn::parse2(block.clone()) {
        Ok(block) => block,
        Err(_) if block.clone().into_iter().any(|token| token.to_string() == "impl") => {
            return bare_block(block);
        }
        Err(_) => {
            mistakes.at(&block, "`#[handlers]` goes on an `impl` block");
            let errors = mistakes.into_errors();
            return quote!(#errors #block);
        }
    };
    let mut offered = TokenStream::new();
    for item in &mut block.items {
        let Item::Function(function) = item else { continue };
        offered.extend(offer(function, &mut mistakes));
    }
    match &block.of_trait {
        Some(of_trait) => {
            mistakes.at(of_trait, "`#[handlers]` goes on `impl Type { … }`, not on a trait's");
            let errors = mistakes.into_errors();
            return quote!(#errors #block);
        }
        None if offered.is_empty() && mistakes.is_empty() => {
            mistakes
                .at(&block.ty, "nothing to offer: mark methods with `#[tool]`, `#[resource]` or `#[prompt]`");
        }
        None => {}
    }
    let wrong = !mistakes.is_empty();
    let errors = mistakes.into_errors();
    // So that nothing else fails for want of it.
    let offered = if wrong { TokenStream::new() } else { offered };
    let Block { generics, ty, .. } = &block;
    let (generics, _, bounds) = generics.split_for_impl();
    quote! {
        #errors
        #block

        #[automatically_derived]
        impl #generics ::tsugite::server::Handlers for #ty #bounds {
            fn offered(self) -> ::std::vec::Vec<::tsugite::server::Offered> {
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
fn offer(function: &mut Function, mistakes: &mut Mistakes) -> Option<TokenStream> {
    let marks: Vec<_> = function.attrs.extract_if(.., |attr| Kind::of(attr).is_some()).collect();
    if let [_, second, ..] = marks.as_slice() {
        mistakes.at(second, TWICE);
    }
    let mark = marks.first()?;
    function.attrs.push(parse_quote!(#[allow(clippy::too_many_arguments)]));
    let (kind, arguments) = (Kind::of(mark)?, arguments(mark, mistakes));
    let (cfg, ident) = (cfg_of(&function.attrs), function.sig.ident.clone());
    let cfg = cfg.map(|cfg| quote!(#[cfg(#cfg)]));
    let made = kind.expression(arguments, function, quote!(Self::#ident), mistakes);
    Some(quote!(#cfg __offered.push(::core::convert::From::from(#made));))
}

/// An `impl` block whose functions keep their bodies as they are.
struct Block {
    attrs: Vec<Attribute>,
    generics: Generics,
    /// Where a trait is implemented, which is not our business.
    of_trait: Option<TokenStream>,
    ty: Type,
    inner: Vec<Attribute>,
    items: Vec<Item>,
}

enum Item {
    Function(Box<Function>),
    Other(TokenStream),
}

impl Parse for Block {
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
        Ok(Self { attrs, generics, of_trait, ty, inner, items })
    }
}

impl Parse for Item {
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
            true => Ok(Item::Function(Box::new(input.parse()?))),
            false => Ok(Item::Other(input.parse::<ImplItem>()?.into_token_stream())),
        }
    }
}

impl ToTokens for Block {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { attrs, generics, of_trait, ty, inner, items } = self;
        let (generics, _, bounds) = generics.split_for_impl();
        tokens.extend(quote!(#(#attrs)* impl #generics #of_trait #ty #bounds { #(#inner)* #(#items)* }));
    }
}

impl ToTokens for Item {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Item::Function(function) => function.to_tokens(tokens),
            Item::Other(other) => tokens.extend(other.clone()),
        }
    }
}
