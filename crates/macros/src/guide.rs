//! The guides of `docs/` as documentation of modules: links between the files become links between the modules.

use std::fs;
use std::path::Path;

use proc_macro2::TokenStream;
use quote::quote;
use syn::LitStr;

/// Expands to the text of `guide/<name>.md` of the crate that is compiled.
pub(crate) fn expand(name: TokenStream) -> TokenStream {
    read(name).unwrap_or_else(|error| error.to_compile_error())
}

fn read(name: TokenStream) -> syn::Result<TokenStream> {
    let name: LitStr = syn::parse2(name)?;
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let file = |name: &str| Path::new(&folder).join("guide").join(format!("{name}.md"));
    let path = file(&name.value());
    let text = fs::read_to_string(&path)
        .map_err(|error| syn::Error::new(name.span(), format!("{}: {error}", path.display())))?;
    let text = convert_links(&text, |guide| file(guide).exists());
    Ok(quote! { #text })
}

/// Converts links to files, outside of code. A guide becomes its module. Other files of the repository are not part of the
/// documentation, so a link to one leads to the list of guides, which says where they are.
fn convert_links(text: &str, is_guide: impl Fn(&str) -> bool) -> String {
    let mut converted = String::with_capacity(text.len());
    let mut in_code = false;
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        if in_code || is_fence {
            converted.push_str(line);
            continue;
        }
        let mut rest = line;
        while let Some((before, (target, after))) =
            rest.split_once("](").and_then(|(before, after)| Some((before, after.split_once(')')?)))
        {
            converted.push_str(before);
            converted.push_str("](");
            converted.push_str(&convert_target(target, &is_guide));
            converted.push(')');
            rest = after;
        }
        converted.push_str(rest);
    }
    converted
}

fn convert_target(target: &str, is_guide: impl Fn(&str) -> bool) -> String {
    if target.starts_with('#') || target.contains("://") {
        return target.to_owned();
    }
    let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
    let name =
        path.rsplit('/').next().and_then(|file| file.strip_suffix(".md")).unwrap_or_default().to_lowercase();
    match (is_guide(&name), fragment) {
        (true, "") => format!("crate::guide::{name}"),
        (true, fragment) => format!("crate::guide::{name}#{fragment}"),
        (false, _) => "crate::guide#files-of-the-repository".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(text: &str) -> String {
        convert_links(text, |name| matches!(name, "tools" | "security"))
    }

    #[test]
    fn link_to_a_guide_becomes_a_link_to_its_module() {
        assert_eq!(
            converted("see [a](tools.md) and [b](tools.md#x)."),
            "see [a](crate::guide::tools) and [b](crate::guide::tools#x)."
        );
        assert_eq!(converted("[limits](../SECURITY.md#limits)"), "[limits](crate::guide::security#limits)");
    }

    #[test]
    fn link_to_another_file_becomes_a_link_to_the_list() {
        assert_eq!(converted("[a\nb](../README.md#x)\n"), "[a\nb](crate::guide#files-of-the-repository)\n");
        assert_eq!(converted("[`x`](../crates/x.rs)"), "[`x`](crate::guide#files-of-the-repository)");
    }

    #[test]
    fn other_links_and_code_stay() {
        for text in [
            "[a](#here)",
            "[a](https://a.example/b.md)",
            "```rust\nlet x = [1](tools.md);\n```\n",
            "[a](",
            "a](b",
        ] {
            assert_eq!(converted(text), text);
        }
    }
}
