//! Parses a function. The body is kept as tokens: parsing it would report each of its errors twice.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, FnArg, Receiver, ReceiverKind, ReturnType, Safety, Signature, Type, Visibility};

use crate::diagnostics::Diagnostics;

/// A function whose body is not parsed.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: TokenTree,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (attrs, vis, sig) = (Attribute::parse_outer(input)?, input.parse()?, input.parse()?);
        let body: TokenTree = input.parse()?;
        match &body {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                Ok(Self { attrs, vis, sig, body })
            }
            other => Err(Error::new_spanned(other, "expected a function body")),
        }
    }
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { attrs, vis, sig, body } = self;
        tokens.extend(quote!(#(#attrs)* #vis #sig #body));
    }
}

impl Function {
    /// Returns the `self` parameter.
    pub(crate) fn receiver(&self) -> Option<&Receiver> {
        self.sig.receiver()
    }

    /// Returns the return type.
    pub(crate) fn output(&self) -> TokenStream {
        match &self.sig.output {
            ReturnType::Default => quote!(()),
            ReturnType::Type(_, ty) => ty.into_token_stream(),
        }
    }

    /// Reports why the function cannot be a `noun`: a tool, a resource or a prompt.
    pub(crate) fn check(&self, noun: &str, diagnostics: &mut Diagnostics) {
        let sig = &self.sig;
        if let Some(word) = &sig.constness {
            diagnostics.error_at(word, format!("a {noun} cannot be `const`: write `fn` or `async fn`"));
        }
        if let Safety::Unsafe(word) = &sig.safety {
            diagnostics.error_at(word, format!("a {noun} cannot be `unsafe`: any client may call it"));
        }
        if let Some(abi) = &sig.abi {
            diagnostics.error_at(abi, format!("a {noun} cannot be `extern`: write `fn` or `async fn`"));
        }
        if !sig.generics.params.is_empty() {
            diagnostics.error_at(&sig.generics, format!("a {noun} cannot be generic: use concrete types"));
        }
        if let ReturnType::Type(_, ty) = &sig.output {
            match &**ty {
                ty if contains_impl_trait(ty.to_token_stream()) => {
                    diagnostics
                        .error_at(ty, format!("a {noun} cannot return `impl Trait`: use a concrete type"));
                }
                Type::Reference(reference)
                    if reference.lifetime.as_ref().is_none_or(|lifetime| lifetime.ident != "static") =>
                {
                    diagnostics.error_at(
                        ty,
                        format!("a {noun} must return an owned type: `String` instead of `&str`"),
                    );
                }
                _ => {}
            }
        }
        for input in &sig.inputs {
            match input {
                FnArg::Typed(input) if contains_impl_trait(input.ty.to_token_stream()) => {
                    diagnostics.error_at(
                        &input.ty,
                        format!("a {noun} cannot take `impl Trait`: use a concrete type"),
                    );
                }
                FnArg::Receiver(receiver) if !is_shared_ref(receiver) => {
                    diagnostics.error_at(receiver, "calls run concurrently: take `&self`");
                }
                _ => {}
            }
        }
    }
}

/// Whether it is `&self`.
fn is_shared_ref(receiver: &Receiver) -> bool {
    matches!(receiver.kind, ReceiverKind::Reference(_, _, None))
}

fn contains_impl_trait(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "impl",
        TokenTree::Group(group) => contains_impl_trait(group.stream()),
        _ => false,
    })
}

/// Whether the tokens contain a function.
pub(crate) fn has_function(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|token| matches!(token, TokenTree::Ident(word) if word == "fn"))
}

/// Removes our attributes from the parameters of a function that does not parse, so that rustc reports the error.
pub(crate) fn strip_param_attributes(tokens: TokenStream) -> TokenStream {
    let mut in_head = false;
    let tokens = tokens.into_iter().map(|token| match token {
        TokenTree::Ident(word) => {
            in_head |= word == "fn";
            TokenTree::Ident(word)
        }
        TokenTree::Group(group) if in_head && group.delimiter() == Delimiter::Parenthesis => {
            in_head = false;
            with_stream(&group, remove_attributes(group.stream(), &["doc", "arg"]))
        }
        other => other,
    });
    tokens.collect()
}

/// Does the same for an `impl` block.
pub(crate) fn strip_block_attributes(tokens: TokenStream) -> TokenStream {
    let tokens = tokens.into_iter().map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => with_stream(
            &group,
            strip_param_attributes(remove_attributes(group.stream(), &["tool", "resource", "prompt"])),
        ),
        other => other,
    });
    tokens.collect()
}

fn with_stream(group: &Group, stream: TokenStream) -> TokenTree {
    let mut new = Group::new(group.delimiter(), stream);
    new.set_span(group.span());
    TokenTree::Group(new)
}

/// Removes the attributes with these names.
fn remove_attributes(tokens: TokenStream, names: &[&str]) -> TokenStream {
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let opens = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#');
        if opens && tokens.peek().is_some_and(|next| is_attribute(next, names)) {
            tokens.next();
        } else {
            kept.push(token);
        }
    }
    kept.into_iter().collect()
}

fn is_attribute(token: &TokenTree, names: &[&str]) -> bool {
    let TokenTree::Group(group) = token else { return false };
    // `tool`, and also `tsugite::tool`.
    let path = group.stream().into_iter().take_while(|token| match token {
        TokenTree::Ident(_) => true,
        TokenTree::Punct(punct) => punct.as_char() == ':',
        _ => false,
    });
    let last =
        path.filter_map(|token| if let TokenTree::Ident(word) = token { Some(word) } else { None }).last();
    group.delimiter() == Delimiter::Bracket && last.is_some_and(|last| names.iter().any(|name| last == name))
}
