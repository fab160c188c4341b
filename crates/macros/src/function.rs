//! A function as it stands in the source. Its body stays what it is: reading it would only tell each mistake in it twice.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, FnArg, Receiver, ReceiverKind, ReturnType, Safety, Signature, Type, Visibility};

use crate::diagnostics::Diagnostics;

/// A function with its body.
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
            other => Err(Error::new_spanned(other, "expected a body")),
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
    /// What it takes as itself.
    pub(crate) fn receiver(&self) -> Option<&Receiver> {
        self.sig.receiver()
    }

    /// What it returns.
    pub(crate) fn output(&self) -> TokenStream {
        match &self.sig.output {
            ReturnType::Default => quote!(()),
            ReturnType::Type(_, ty) => ty.into_token_stream(),
        }
    }

    /// Notes what keeps it from being a `noun`: a tool, a resource, a prompt.
    pub(crate) fn check(&self, noun: &str, mistakes: &mut Diagnostics) {
        let sig = &self.sig;
        if let Some(word) = &sig.constness {
            mistakes.error_at(word, format!("a {noun} cannot be `const`: write `fn` or `async fn`"));
        }
        if let Safety::Unsafe(word) = &sig.safety {
            mistakes.error_at(word, format!("a {noun} cannot be `unsafe`: anybody may call it"));
        }
        if let Some(abi) = &sig.abi {
            mistakes.error_at(abi, format!("a {noun} cannot be `extern`: write `fn` or `async fn`"));
        }
        if !sig.generics.params.is_empty() {
            mistakes.error_at(&sig.generics, format!("a {noun} cannot be generic: name the types"));
        }
        if let ReturnType::Type(_, ty) = &sig.output {
            match &**ty {
                ty if contains_impl_trait(ty.to_token_stream()) => {
                    mistakes.error_at(ty, format!("a {noun} returns one type: name it instead of `impl`"));
                }
                Type::Reference(reference)
                    if reference.lifetime.as_ref().is_none_or(|lifetime| lifetime.ident != "static") =>
                {
                    mistakes.error_at(ty, format!("a {noun} returns what it owns: `String` for `&str`"));
                }
                _ => {}
            }
        }
        for input in &sig.inputs {
            match input {
                FnArg::Typed(input) if contains_impl_trait(input.ty.to_token_stream()) => {
                    mistakes
                        .error_at(&input.ty, format!("a {noun} takes one type: name it instead of `impl`"));
                }
                FnArg::Receiver(receiver) if !is_shared_ref(receiver) => {
                    mistakes.error_at(receiver, "calls run at the same time: take `&self`");
                }
                _ => {}
            }
        }
    }
}

/// `&self`.
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

/// Whether there is a function in it at all.
pub(crate) fn has_function(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|token| matches!(token, TokenTree::Ident(word) if word == "fn"))
}

/// Code that cannot be read, without what only we understand: rustc says better what is wrong with it.
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

/// The same for an `impl` block.
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

/// Without the attributes of these names.
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
    // `find_tool`, and `tsugite::find_tool` too.
    let path = group.stream().into_iter().take_while(|token| match token {
        TokenTree::Ident(_) => true,
        TokenTree::Punct(punct) => punct.as_char() == ':',
        _ => false,
    });
    let last =
        path.filter_map(|token| if let TokenTree::Ident(word) = token { Some(word) } else { None }).last();
    group.delimiter() == Delimiter::Bracket && last.is_some_and(|last| names.iter().any(|name| last == name))
}
