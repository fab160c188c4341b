//! `#[derive(Form)]`: a struct becomes a form, an enum becomes a choice.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, Field, Fields, Item, ItemEnum, ItemStruct, LitStr, Variant};

use crate::case::{self, Case};
use crate::diagnostics::{Diagnostics, join_quoted};
use crate::docs;
use crate::params::span_at;
use crate::settings::{Settings, string_literal};

const FIELD_KEYS: &[&str] = &[
    "title",
    "description",
    "default",
    "min",
    "max",
    "min_length",
    "max_length",
    "format",
    "min_items",
    "max_items",
    "rename",
];
const VARIANT_KEYS: &[&str] = &["title", "rename"];
/// Settings of the struct or enum itself.
const CONTAINER_KEYS: &[&str] = &["rename_all"];

/// Expands `#[derive(Form)]`.
pub(crate) fn expand(item: TokenStream) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let made = match syn::parse2(item) {
        Ok(Item::Struct(item)) => expand_struct(item, &mut diagnostics),
        Ok(Item::Enum(item)) => expand_enum(item, &mut diagnostics),
        Ok(other) => {
            diagnostics.error_at(
                other,
                "`Form` can be derived for structs with named fields and enums without data",
            );
            TokenStream::new()
        }
        Err(error) => {
            diagnostics.push(error);
            TokenStream::new()
        }
    };
    let errors = diagnostics.into_compile_errors();
    quote!(#errors #made)
}

fn expand_struct(mut item: ItemStruct, diagnostics: &mut Diagnostics) -> TokenStream {
    let settings = Settings::take(&mut item.attrs, "form", CONTAINER_KEYS, diagnostics);
    let case = rename_all(settings, diagnostics);
    let mut named = Vec::new();
    match item.fields {
        Fields::Named(fields) => named.extend(fields.named),
        Fields::Unnamed(fields) => {
            diagnostics.error_at(fields, "a form needs named fields: `struct Name { field: Type }`");
        }
        Fields::Unit => {
            diagnostics.error_at(&item.ident, "a form needs fields: `struct Name { field: Type }`")
        }
    }
    let fields: Vec<_> = named.into_iter().filter_map(|field| form_field(field, case, diagnostics)).collect();
    check_unique(fields.iter().map(|field| &field.name), "fields", diagnostics);
    let described = fields.iter().map(|field| &field.schema_tokens);
    let read = fields.iter().map(|field| &field.read_tokens);
    let read = match diagnostics.is_empty() {
        true => quote!(::core::result::Result::Ok(Self { #(#read,)* })),
        false => quote!(::core::result::Result::Err(::std::string::String::new())),
    };
    let (generics, names, bounds) = item.generics.split_for_impl();
    let ident = &item.ident;
    quote! {
        #[automatically_derived]
        impl #generics ::tsugite::server::Form for #ident #names #bounds {
            fn schema() -> ::tsugite::protocol::form::FormSchema {
                let __form = ::tsugite::protocol::form::FormSchema::new();
                #(#described)*
                __form
            }

            fn read(
                __content: &::tsugite::protocol::OrderedMap<::tsugite::server::FieldValue>,
            ) -> ::core::result::Result<Self, ::std::string::String> {
                #read
            }
        }
    }
}

/// A field of a form.
struct FormField {
    name: TokenStream,
    /// The statements that add the field to `__form`.
    schema_tokens: TokenStream,
    /// The name of the field and the expression that reads it from `__content`.
    read_tokens: TokenStream,
}

fn form_field(mut field: Field, case: Option<Case>, diagnostics: &mut Diagnostics) -> Option<FormField> {
    let mut settings = Settings::take(&mut field.attrs, "form", FIELD_KEYS, diagnostics).unwrap_or_default();
    let (ident, ty) = (field.ident.as_ref()?, &field.ty);
    let name = settings.text("rename", diagnostics).map(ToTokens::into_token_stream);
    let name = name.unwrap_or_else(|| name_literal(&case::field(ident, case), ident));
    let mut calls = TokenStream::new();
    if let Some(title) = settings.text("title", diagnostics) {
        calls.extend(quote!(let __field = __field.title(#title);));
    }
    let described = settings.text("description", diagnostics);
    if let Some(description) = docs::text_or_description(described, &field.attrs) {
        calls.extend(quote!(let __field = __field.description(#description);));
    }
    let limits = [
        ("min", "0"),
        ("max", "100"),
        ("min_length", "1"),
        ("max_length", "100"),
        ("min_items", "1"),
        ("max_items", "3"),
    ];
    for (key, example) in limits {
        let Some(setter) = settings.key(key).cloned() else { continue };
        if let Some(value) = settings.value(key, example, diagnostics) {
            // The bounds of the function check the type of the field.
            let types = match key {
                "min" | "max" => quote_spanned!(span_at(&value)=> #ty, _),
                _ => quote!(#ty),
            };
            let call =
                quote_spanned!(span_at(&setter)=> ::tsugite::server::macro_support::form::#setter::<#types>);
            calls.extend(quote!(let __field = #call(__field, #value);));
        }
    }
    if let Some(setter) = settings.key("format").cloned()
        && let Some(format) = settings.value("format", "\"email\"", diagnostics)
    {
        match text_format(&format) {
            Some(format) => {
                let call =
                    quote_spanned!(span_at(&setter)=> ::tsugite::server::macro_support::form::format::<#ty>);
                calls.extend(quote!(let __field = #call(__field, #format);));
            }
            None => diagnostics.error_at(
                format,
                format!("unknown format; expected one of {}", join_quoted(&FORMATS.map(|(word, _)| word))),
            ),
        }
    }

    let span = span_at(ty);
    let field_of = quote_spanned!(span=> <#ty as ::tsugite::server::FormField>);
    let (required, value) = match settings.value("default", "…", diagnostics) {
        Some(value) => {
            let default = quote_spanned!(span_at(&value)=> ::tsugite::server::macro_support::form::default_value::<#ty, _>(#value));
            calls.extend(
                quote!(let __field = ::tsugite::server::macro_support::form::default(__field, #default);),
            );
            (quote!(false), quote!(__content.get(#name).or(::core::option::Option::Some(&#default))))
        }
        None => (quote!(#field_of::REQUIRED), quote!(__content.get(#name))),
    };
    let described = quote! {
        let __field = #field_of::field();
        #calls
        let __form = match #required {
            true => __form.required_field(#name, __field),
            false => __form.field(#name, __field),
        };
    };
    let read = quote!(#ident: #field_of::read(#name, #value)?);
    Some(FormField { name, schema_tokens: described, read_tokens: read })
}

fn expand_enum(mut item: ItemEnum, diagnostics: &mut Diagnostics) -> TokenStream {
    let settings = Settings::take(&mut item.attrs, "form", CONTAINER_KEYS, diagnostics);
    let case = rename_all(settings, diagnostics).unwrap_or(Case::Snake);
    let ident = &item.ident;
    if item.variants.is_empty() {
        diagnostics.error_at(ident, "a choice needs at least one variant");
        return TokenStream::new();
    }
    let choices: Vec<_> =
        item.variants.iter_mut().map(|variant| choice(variant, case, diagnostics)).collect();
    let idents: Vec<_> = item.variants.iter().map(|variant| &variant.ident).collect();
    let values: Vec<_> = choices.iter().map(|choice| &choice.value).collect();
    check_unique(values.iter().copied(), "choices", diagnostics);
    let chosen = diagnostics
        .is_empty()
        .then(|| quote!(#(if __value == #values { return ::core::option::Option::Some(Self::#idents); })*));
    let options = if choices.iter().any(|choice| choice.title.is_some()) {
        let titles = choices.iter().map(|Choice { value, title }| match title {
            Some(title) => title.clone(),
            None => quote!(::std::string::String::from(#value)),
        });
        quote!(Titled(::std::vec![#(::tsugite::protocol::form::TitledOption {
            value: ::std::string::String::from(#values),
            title: #titles,
        }),*]))
    } else {
        quote!(Plain(::std::vec![#(::std::string::String::from(#values)),*]))
    };
    let (generics, names, bounds) = item.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #generics ::tsugite::server::FormChoice for #ident #names #bounds {
            fn options() -> ::tsugite::protocol::form::ChoiceOptions {
                ::tsugite::protocol::form::ChoiceOptions::#options
            }

            fn from_value(__value: &str) -> ::core::option::Option<Self> {
                #chosen
                ::core::option::Option::None
            }
        }

        #[automatically_derived]
        impl #generics ::tsugite::server::FormField for #ident #names #bounds {
            fn field() -> ::tsugite::protocol::form::Field {
                ::tsugite::server::macro_support::choice::<Self>()
            }

            fn read(
                __name: &str,
                __value: ::core::option::Option<&::tsugite::server::FieldValue>,
            ) -> ::core::result::Result<Self, ::std::string::String> {
                ::tsugite::server::macro_support::read_choice(__name, __value)
            }
        }

        #[automatically_derived]
        impl #generics ::tsugite::server::macro_support::form::ChoiceValue for #ident #names #bounds {
            fn value(&self) -> &'static str {
                match self { #(Self::#idents { .. } => #values,)* }
            }
        }
    }
}

/// A variant as a choice.
struct Choice {
    value: TokenStream,
    title: Option<TokenStream>,
}

fn choice(variant: &mut Variant, case: Case, diagnostics: &mut Diagnostics) -> Choice {
    let mut settings =
        Settings::take(&mut variant.attrs, "form", VARIANT_KEYS, diagnostics).unwrap_or_default();
    if !matches!(variant.fields, Fields::Unit) {
        diagnostics.error_at(&variant.fields, "a choice cannot have data, because a form is flat");
    }
    let value = settings.text("rename", diagnostics).map(ToTokens::into_token_stream);
    let value = value.unwrap_or_else(|| name_literal(&case::variant(&variant.ident, case), &variant.ident));
    let title = docs::text_or_description(settings.text("title", diagnostics), &variant.attrs);
    Choice { value, title }
}

fn rename_all(settings: Option<Settings>, diagnostics: &mut Diagnostics) -> Option<Case> {
    let given = settings?.value("rename_all", "\"camelCase\"", diagnostics)?;
    let case = string_literal(&given).and_then(|text| Case::from_name(&text));
    if case.is_none() {
        diagnostics.error_at(
            given,
            format!("unknown case; expected one of {}", join_quoted(&Case::ALL.map(|(word, _)| word))),
        );
    }
    case
}

/// Reports duplicate names.
fn check_unique<'a>(names: impl Iterator<Item = &'a TokenStream>, noun: &str, diagnostics: &mut Diagnostics) {
    let mut known = Vec::new();
    for name in names {
        let text = name.to_string();
        if known.contains(&text) {
            diagnostics.error_at(name, format!("two {noun} are named {text}"));
        }
        known.push(text);
    }
}

/// Returns a name as a literal with the span of `ident`.
fn name_literal(name: &str, ident: &Ident) -> TokenStream {
    LitStr::new(name, ident.span()).into_token_stream()
}

const FORMATS: [(&str, &str); 4] =
    [("email", "Email"), ("uri", "Uri"), ("date", "Date"), ("date-time", "DateTime")];

fn text_format(format: &Expr) -> Option<TokenStream> {
    let text = string_literal(format)?;
    let (_, variant) = FORMATS.into_iter().find(|(word, _)| *word == text)?;
    let variant = Ident::new(variant, proc_macro2::Span::call_site());
    Some(quote!(::tsugite::protocol::form::TextFormat::#variant))
}
