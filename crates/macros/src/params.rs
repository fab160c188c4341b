//! The parameters of a function: what is said of each, and the code that reads them from a call.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprUnary, FnArg, Lit, LitStr, Meta, Pat, PatIdent, Signature, Type, UnOp};

use crate::diagnostics::Diagnostics;
use crate::docs;
use crate::settings::{Settings, literal, string_literal};

/// As many as there are tuples for.
const MAX_PARAMS: usize = 16;

/// The parameters after `self`.
pub(crate) struct Params(Vec<Param>);

struct Param {
    /// What it is called by; nothing if it is taken apart by a pattern, and so must be a part of the call.
    name: Option<TokenStream>,
    ty: Type,
    /// What `#[cfg]` says.
    cfg: Option<TokenStream>,
    description: Option<TokenStream>,
    default: Option<DefaultValue>,
    header: Option<Expr>,
    complete: Option<Expr>,
    /// Whether it has an `#[arg]`.
    marked: bool,
}

/// What an argument is if it is not given.
enum DefaultValue {
    /// The default of its type.
    TypeDefault,
    Value(Expr),
}

impl Params {
    /// Reads what `sig` says of its parameters, and takes away what rustc would not like to see there.
    pub(crate) fn read(sig: &mut Signature, keys: &[&str], mistakes: &mut Diagnostics) -> Self {
        let mut params = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for input in &mut sig.inputs {
            let FnArg::Typed(input) = input else { continue };
            let settings = Settings::take(&mut input.attrs, "arg", keys, mistakes);
            let param = Param::read(settings, &input.attrs, &input.pat, &input.ty, mistakes);
            input.attrs.retain(|attr| !docs::is_doc(attr));
            if let Some(name) = param.literal_name() {
                if names.contains(&name) {
                    mistakes.error_at(&input.pat, format!("two parameters are called `{name}`"));
                }
                names.push(name);
            }
            if params.len() == MAX_PARAMS {
                let text = format!(
                    "more than {MAX_PARAMS} parameters: put arguments into a struct and take `Args<T>`"
                );
                mistakes.error_at(&input.pat, text);
            }
            params.push(param);
        }
        Self(params)
    }

    /// Whether a variable of a template is a parameter, or could be in one that holds several.
    pub(crate) fn may_contain(&self, variable: &str) -> bool {
        self.0.iter().any(|param| param.literal_name().is_none_or(|name| name == variable))
    }

    /// Statements that read each parameter from `__call`, and fail with `?`.
    pub(crate) fn read_statements(&self) -> TokenStream {
        let named: Vec<_> =
            self.enumerate().filter_map(|(at, param)| Some((at, param, param.name.as_ref()?))).collect();
        let names = named.iter().map(|(_, _, name)| name);
        let slots = named.iter().map(|(_, param, _)| param.slot());
        let places: Vec<_> = named.iter().map(|(at, ..)| format_ident!("__slot{at}")).collect();
        let read = (!named.is_empty()).then(|| {
            quote! {
                let (#(#places,)*) = ::tsugite::server::macro_support::read(__call, &[#(#names),*], || (#(#slots,)*))?;
            }
        });
        let taken = self.enumerate().map(|(at, param)| {
            let (cfg, value) = (param.cfg_attr(), arg_ident(at));
            let taking = match &param.name {
                Some(name) => {
                    let place = format_ident!("__slot{at}");
                    quote!(#place.take(#name, __call)?)
                }
                // Without a name it can be nothing but a part of the call.
                None => {
                    let ty = &param.ty;
                    let from = quote_spanned!(span_at(ty)=> <#ty as ::tsugite::server::FromCall>::from_call);
                    quote!(#from(__call)?)
                }
            };
            quote!(#cfg let #value = #taking;)
        });
        quote!(#read #(#taken)*)
    }

    /// What was read, as the arguments of the function.
    pub(crate) fn call_arguments(&self) -> TokenStream {
        let passed = self.enumerate().map(|(at, param)| {
            let (cfg, value) = (param.cfg_attr(), arg_ident(at));
            quote!(#cfg #value,)
        });
        passed.collect()
    }

    /// The schema of the arguments.
    pub(crate) fn schema(&self) -> TokenStream {
        let described = self.0.iter().map(Param::schema_statements);
        quote!({
            #[allow(unused_mut)]
            let mut __schema = ::tsugite::server::macro_support::ArgumentsSchema::new();
            #(#described)*
            __schema.finish()
        })
    }

    /// Statements that tell `__it` what could stand in its arguments.
    pub(crate) fn completer_statements(&self) -> TokenStream {
        let completed = self.0.iter().filter_map(|param| {
            let (cfg, name, values) = (param.cfg_attr(), param.name.as_ref()?, param.complete.as_ref()?);
            Some(quote!(#cfg let __it = __it.complete(#name, #values);))
        });
        completed.collect()
    }

    fn enumerate(&self) -> impl Iterator<Item = (usize, &Param)> {
        self.0.iter().enumerate()
    }
}

impl Param {
    fn read(
        settings: Option<Settings>,
        attrs: &[Attribute],
        pat: &Pat,
        ty: &Type,
        mistakes: &mut Diagnostics,
    ) -> Self {
        let marked = settings.is_some();
        let mut settings = settings.unwrap_or_default();
        let given = settings.text("name", mistakes);
        let name = match (given, pat) {
            (Some(name), _) => Some(name.into_token_stream()),
            (None, Pat::Ident(PatIdent { ident, by_ref: None, subpat: None, .. })) => {
                Some(LitStr::new(&ident.unraw().to_string(), ident.span()).into_token_stream())
            }
            _ => None,
        };
        if marked && name.is_none() {
            mistakes.error_at(pat, "an argument needs a name: `#[arg(name = \"…\")]`");
        }
        if let Type::Reference(_) = ty {
            mistakes.error_at(ty, "a parameter is owned: take `String` for `&str`, `Vec<T>` for `&[T]`");
        }
        let described = settings.text("description", mistakes);
        let default = settings
            .optional_value("default")
            .map(|value| value.map_or(DefaultValue::TypeDefault, DefaultValue::Value));
        Self {
            name,
            ty: ty.clone(),
            cfg: cfg_condition(attrs),
            description: docs::text_or_description(described, attrs),
            default,
            header: settings.text("header", mistakes),
            complete: settings.value("complete", "[\"a\", \"b\"]", mistakes),
            marked,
        }
    }

    /// Its name, where that is known by now.
    fn literal_name(&self) -> Option<String> {
        let name = syn::parse2::<Expr>(self.name.clone()?).ok()?;
        string_literal(&name)
    }

    fn cfg_attr(&self) -> Option<TokenStream> {
        self.cfg.as_ref().map(|cfg| quote!(#[cfg(#cfg)]))
    }

    /// The question what it is. An answer that is an error is shown at the type.
    fn kind(&self) -> TokenStream {
        let ty = &self.ty;
        let span = span_at(ty);
        let marked = self.marked.then(|| quote_spanned!(span=> .marked()));
        quote_spanned!(span=> (&&&::tsugite::server::macro_support::Param::<#ty>::NEW).kind() #marked)
    }

    fn slot(&self) -> TokenStream {
        let kind = self.kind();
        let or = self.default.as_ref().map(|default| {
            let value = default.expression();
            quote!(.or(|| #value))
        });
        let span = span_at(&self.ty);
        let slot = quote_spanned!(span=> #kind.slot() #or);
        match &self.cfg {
            None => slot,
            // A tuple keeps its length.
            Some(cfg) => quote!({
                #[cfg(#cfg)]
                { #slot }
                #[cfg(not(#cfg))]
                { ::tsugite::server::macro_support::AbsentSlot }
            }),
        }
    }

    fn schema_statements(&self) -> TokenStream {
        let (kind, cfg) = (self.kind(), self.cfg_attr());
        let name = self.name.clone().unwrap_or_else(|| quote!(""));
        let optional = self.default.is_some();
        let description = option_tokens(&self.description);
        let default = option_tokens(&self.default.as_ref().and_then(DefaultValue::json));
        let header = option_tokens(&self.header);
        quote! {
            #cfg
            #kind.describe(&mut __schema, ::tsugite::server::macro_support::ArgumentInfo {
                name: #name,
                description: #description,
                default: #default,
                optional: #optional,
                header: #header,
            });
        }
    }
}

impl DefaultValue {
    fn expression(&self) -> TokenStream {
        match self {
            DefaultValue::TypeDefault => quote!(::core::default::Default::default()),
            DefaultValue::Value(value) => into_owned_expr(value),
        }
    }

    /// As JSON, where it is written out.
    fn json(&self) -> Option<TokenStream> {
        let DefaultValue::Value(value) = self else { return None };
        let (number, sign) = match value {
            Expr::Unary(ExprUnary { op: UnOp::Neg(sign), expr, .. }) => (&**expr, Some(sign)),
            other => (other, None),
        };
        let json = match literal(number)? {
            Lit::Int(number) => {
                let digits = number.base10_digits();
                match digits.parse::<i64>() {
                    Ok(number) => quote!(#sign #number),
                    Err(_) => digits.parse::<u64>().ok().filter(|_| sign.is_none())?.into_token_stream(),
                }
            }
            Lit::Float(number) => {
                let number = number.base10_parse::<f64>().ok()?;
                quote!(#sign #number)
            }
            literal @ (Lit::Bool(_) | Lit::Str(_)) => literal.into_token_stream(),
            _ => return None,
        };
        Some(quote!(::core::convert::Into::into(#json)))
    }
}

/// A value as its owner: a text becomes a `String`, an array a `Vec`, if that is wanted.
fn into_owned_expr(value: &Expr) -> TokenStream {
    match value {
        Expr::Array(_) => quote!(::core::convert::Into::into(#value)),
        other if string_literal(other).is_some() => quote!(::core::convert::Into::into(#value)),
        other => other.into_token_stream(),
    }
}

/// An option, as it is written.
fn option_tokens(value: &Option<impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

/// Where `place` stands, for code that nobody wrote.
pub(crate) fn span_at(place: &impl Spanned) -> Span {
    Span::mixed_site().located_at(place.span())
}

/// All that `#[cfg]` asks for.
pub(crate) fn cfg_condition(attrs: &[Attribute]) -> Option<TokenStream> {
    let conditions: Vec<_> = attrs
        .iter()
        .filter(|attr| attr.path().is_ident("cfg"))
        .filter_map(|attr| match &attr.meta {
            Meta::List(list) => Some(&list.tokens),
            _ => None,
        })
        .collect();
    match conditions.as_slice() {
        [] => None,
        [condition] => Some((*condition).clone()),
        conditions => Some(quote!(all(#(#conditions),*))),
    }
}

fn arg_ident(at: usize) -> Ident {
    format_ident!("__arg{at}")
}
