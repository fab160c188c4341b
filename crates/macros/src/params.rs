//! The parameters of a function, their attributes, and the code that reads them from a call.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, FnArg, LitStr, Member, Meta, Pat, PatIdent, Signature, Type};

use crate::diagnostics::Diagnostics;
use crate::docs;
use crate::rules::Rules;
use crate::settings::{Settings, string_literal};

/// The limit of parameters: tuples are implemented up to this length.
const MAX_PARAMS: usize = 16;

/// The parameters after `self`.
pub(crate) struct Params(Vec<Param>);

struct Param {
    /// The name of the argument; `None` for a destructuring pattern, which must be a part of the call.
    name: Option<TokenStream>,
    ty: Type,
    /// The condition of `#[cfg]`.
    cfg: Option<TokenStream>,
    description: Option<TokenStream>,
    default: Option<DefaultValue>,
    header: Option<Expr>,
    complete: Option<Expr>,
    rules: Rules,
    /// Whether it has an `#[arg]` or rules, and so must be an argument.
    marked: bool,
}

/// The default value of an argument.
enum DefaultValue {
    /// The default of its type.
    TypeDefault,
    Value(Expr),
}

impl Params {
    /// Reads the parameters of `sig`, and removes the attributes that rustc would reject.
    pub(crate) fn read(sig: &mut Signature, keys: &[&str], diagnostics: &mut Diagnostics) -> Self {
        let mut params = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for input in &mut sig.inputs {
            let FnArg::Typed(input) = input else { continue };
            let settings = Settings::take(&mut input.attrs, "arg", keys, diagnostics);
            let rules = Rules::take(&mut input.attrs);
            let param = Param::read(settings, rules, &input.attrs, &input.pat, &input.ty, diagnostics);
            input.attrs.retain(|attr| !docs::is_doc(attr));
            if let Some(name) = param.literal_name() {
                if names.contains(&name) {
                    diagnostics.error_at(&input.pat, format!("two parameters are named `{name}`"));
                }
                names.push(name);
            }
            if params.len() == MAX_PARAMS {
                let text = format!(
                    "more than {MAX_PARAMS} parameters: put the arguments in a struct and take `Args<T>`"
                );
                diagnostics.error_at(&input.pat, text);
            }
            params.push(param);
        }
        Self(params)
    }

    /// Whether a variable of a template is a parameter, or may be in a parameter that holds several.
    pub(crate) fn may_contain(&self, variable: &str) -> bool {
        self.0.iter().any(|param| param.literal_name().is_none_or(|name| name == variable))
    }

    /// Returns the statements that read each parameter from `__call`. They fail with `?`.
    pub(crate) fn read_statements(&self) -> TokenStream {
        let named: Vec<_> =
            self.enumerate().filter_map(|(at, param)| Some((at, param, param.name.as_ref()?))).collect();
        let names = named.iter().map(|(_, _, name)| name);
        let slots = named.iter().map(|(_, param, _)| param.slot());
        let slot_idents: Vec<_> = named.iter().map(|(at, ..)| format_ident!("__slot{at}")).collect();
        let read = (!named.is_empty()).then(|| {
            quote! {
                let (#(#slot_idents,)*) = ::tsugite::server::macro_support::read(__call, &[#(#names),*], || (#(#slots,)*))?;
            }
        });
        let taken = self.enumerate().map(|(at, param)| {
            let (cfg, value) = (param.cfg_attr(), arg_ident(at));
            let taking = match &param.name {
                Some(name) => {
                    let slot = format_ident!("__slot{at}");
                    quote!(#slot.take(#name, __call)?)
                }
                // A parameter without a name must be a part of the call.
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

    /// Returns the arguments for the call of the function.
    pub(crate) fn call_arguments(&self) -> TokenStream {
        let passed = self.enumerate().map(|(at, param)| {
            let (cfg, value) = (param.cfg_attr(), arg_ident(at));
            quote!(#cfg #value,)
        });
        passed.collect()
    }

    /// Returns the expression for the schema of the arguments.
    pub(crate) fn schema(&self) -> TokenStream {
        let described = self.0.iter().map(Param::schema_statements);
        quote!({
            #[allow(unused_mut)]
            let mut __schema = ::tsugite::server::macro_support::ArgumentsSchema::new();
            #(#described)*
            __schema.finish()
        })
    }

    /// Returns the expression for the states that the parameters need.
    pub(crate) fn required_states(&self) -> TokenStream {
        let states = self.0.iter().map(|param| {
            let (cfg, kind) = (param.cfg_attr(), param.unmarked_kind());
            quote!(#cfg __states.extend(#kind.required_state());)
        });
        quote!({
            #[allow(unused_mut)]
            let mut __states = ::std::vec::Vec::new();
            #(#states)*
            __states
        })
    }

    /// Whether a rule of a parameter needs the full validator.
    pub(crate) fn need_validator(&self) -> bool {
        self.0.iter().any(|param| param.rules.need_validator())
    }

    /// Reports rules on the parameters of a `noun` whose arguments have no schema.
    pub(crate) fn reject_rules(&self, noun: &str, diagnostics: &mut Diagnostics) {
        for param in &self.0 {
            param.rules.reject(noun, diagnostics);
        }
    }

    /// Returns the statements that add completion to `__it`. A method completes as `self.method`, where there is a `self`.
    pub(crate) fn completer_statements(&self, has_self: bool, diagnostics: &mut Diagnostics) -> TokenStream {
        let mut statements = TokenStream::new();
        for param in &self.0 {
            let (Some(name), Some(values)) = (&param.name, &param.complete) else { continue };
            let cfg = param.cfg_attr();
            let values = match method_of_self(values) {
                None => values.to_token_stream(),
                Some(method) if has_self => quote!({
                    let __this = ::std::sync::Arc::clone(&__this);
                    move |__request: ::tsugite::server::CompletionRequest| {
                        let __this = ::std::sync::Arc::clone(&__this);
                        async move { __this.#method(__request).await }
                    }
                }),
                Some(_) => {
                    diagnostics
                        .error_at(values, "`self` needs a method: use `#[handlers]`, or name a function");
                    continue;
                }
            };
            statements.extend(quote!(#cfg let __it = __it.complete(#name, #values);));
        }
        statements
    }

    fn enumerate(&self) -> impl Iterator<Item = (usize, &Param)> {
        self.0.iter().enumerate()
    }
}

impl Param {
    fn read(
        settings: Option<Settings>,
        rules: Rules,
        attrs: &[Attribute],
        pat: &Pat,
        ty: &Type,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let marked = settings.is_some() || !rules.is_empty();
        let mut settings = settings.unwrap_or_default();
        let given = settings.text("name", diagnostics);
        let name = match (given, pat) {
            (Some(name), _) => Some(name.into_token_stream()),
            (None, Pat::Ident(PatIdent { ident, by_ref: None, subpat: None, .. })) => {
                Some(LitStr::new(&ident.unraw().to_string(), ident.span()).into_token_stream())
            }
            _ => None,
        };
        if marked && name.is_none() {
            diagnostics.error_at(pat, "an argument needs a name: `#[arg(name = \"…\")]`");
        }
        if let Type::Reference(_) = ty {
            diagnostics.error_at(
                ty,
                "a parameter must be owned: take `String` instead of `&str`, `Vec<T>` instead of `&[T]`",
            );
        }
        let described = settings.text("description", diagnostics);
        let default = settings
            .optional_value("default")
            .map(|value| value.map_or(DefaultValue::TypeDefault, DefaultValue::Value));
        Self {
            name,
            ty: ty.clone(),
            cfg: cfg_condition(attrs),
            description: docs::text_or_description(described, attrs),
            default,
            header: settings.text("header", diagnostics),
            complete: settings.value("complete", "[\"a\", \"b\"]", diagnostics),
            rules,
            marked,
        }
    }

    /// Returns the name, if it is a literal.
    fn literal_name(&self) -> Option<String> {
        let name = syn::parse2::<Expr>(self.name.clone()?).ok()?;
        string_literal(&name)
    }

    fn cfg_attr(&self) -> Option<TokenStream> {
        self.cfg.as_ref().map(|cfg| quote!(#[cfg(#cfg)]))
    }

    /// Returns the expression that selects the kind of parameter. Its errors are reported at the type.
    fn kind(&self) -> TokenStream {
        let (span, kind) = (span_at(&self.ty), self.unmarked_kind());
        let marked = self.marked.then(|| quote_spanned!(span=> .marked()));
        quote_spanned!(span=> #kind #marked)
    }

    /// Returns the same without the check that only an argument has an `#[arg]`.
    fn unmarked_kind(&self) -> TokenStream {
        let ty = &self.ty;
        quote_spanned!(span_at(ty)=> (&&&::tsugite::server::macro_support::Param::<#ty>::NEW).kind())
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
            // The tuple must keep its length.
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
        let default = self.default.as_ref().map(|default| {
            let (ty, value) = (&self.ty, default.expression());
            quote!((&&&::tsugite::server::macro_support::DefaultOf::<#ty>(|| #value)).json())
        });
        let default = default.unwrap_or_else(|| quote!(::core::option::Option::None));
        let rules = option_tokens(&self.rules.schema(&self.ty));
        let header = option_tokens(&self.header);
        quote! {
            #cfg
            #kind.describe(&mut __schema, ::tsugite::server::macro_support::ArgumentInfo {
                name: #name,
                description: #description,
                default: #default,
                optional: #optional,
                header: #header,
                rules: #rules,
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
}

/// Converts a value to an owned type: a string literal to a `String`, an array to a `Vec`.
fn into_owned_expr(value: &Expr) -> TokenStream {
    match value {
        Expr::Array(_) => quote!(::core::convert::Into::into(#value)),
        other if string_literal(other).is_some() => quote!(::core::convert::Into::into(#value)),
        other => other.into_token_stream(),
    }
}

/// Returns the method in `self.method`.
fn method_of_self(value: &Expr) -> Option<&Member> {
    match value {
        Expr::Field(field) if matches!(&*field.base, Expr::Path(base) if base.path.is_ident("self")) => {
            Some(&field.member)
        }
        _ => None,
    }
}

/// Returns the tokens of an `Option`.
fn option_tokens(value: &Option<impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

/// Returns the span of `location` for generated code.
pub(crate) fn span_at(location: &impl Spanned) -> Span {
    Span::mixed_site().located_at(location.span())
}

/// Combines the conditions of all `#[cfg]` attributes.
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
