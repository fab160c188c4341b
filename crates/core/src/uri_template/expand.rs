//! Expands a template into a URI: RFC 6570, section 3.

use super::grammar::{Operator, TemplatePart};
use super::percent::{self, AllowedChars};
use super::{ExpandError, TemplateValue};

/// Writes the URI, calling `lookup` once for each variable, from left to right.
pub(super) fn expand(
    parts: &[TemplatePart],
    mut lookup: impl FnMut(&str) -> Option<TemplateValue>,
) -> Result<String, ExpandError> {
    let mut uri = String::new();
    for part in parts {
        let (operator, variables) = match part {
            TemplatePart::Literal(literal) => {
                percent::encode(literal, AllowedChars::Reserved, &mut uri);
                continue;
            }
            TemplatePart::Expression(operator, variables) => (*operator, variables),
        };
        let (first, between) = operator.separators();
        let mut mark = first;
        for variable in variables {
            let value = lookup(&variable.name);
            let items = match &value {
                None => &[],
                Some(TemplateValue::Text(text)) => std::slice::from_ref(text),
                Some(TemplateValue::List(list)) if variable.explode => list,
                Some(TemplateValue::List(_)) => {
                    return Err(ExpandError::UnexpectedList { variable: variable.name.to_string() });
                }
            };
            for item in items {
                uri.push_str(mark);
                mark = between;
                push_item(&variable.name, item, operator, &mut uri);
            }
        }
    }
    Ok(uri)
}

fn push_item(name: &str, item: &str, operator: Operator, uri: &mut String) {
    if operator.is_named() {
        uri.push_str(name);
        // `;name` but `?name=` when the value is empty (section 3.2.7).
        if !item.is_empty() || operator != Operator::Parameter {
            uri.push('=');
        }
    }
    percent::encode(item, operator.allowed_chars(), uri);
}

#[cfg(test)]
mod tests {
    use super::super::{UriTemplate, expand};
    use super::*;

    /// The variables of RFC 6570, sections 1.2 and 3.2.
    fn rfc_variable(name: &str) -> Option<TemplateValue> {
        Some(match name {
            "count" => ["one", "two", "three"].into(),
            "dom" => ["example", "com"].into(),
            "dub" => "me/too".into(),
            "hello" => "Hello World!".into(),
            "half" => "50%".into(),
            "var" => "value".into(),
            "who" => "fred".into(),
            "base" => "http://example.com/home/".into(),
            "path" => "/foo/bar".into(),
            "list" => ["red", "green", "blue"].into(),
            "v" => "6".into(),
            "x" => "1024".into(),
            "y" => "768".into(),
            "empty" => "".into(),
            "empty_list" => TemplateValue::List(Vec::new()),
            _ => return None,
        })
    }

    fn assert_expansions(examples: &[(&str, &str)]) {
        for (source, uri) in examples {
            assert_eq!(expand(source, rfc_variable).as_deref(), Ok(*uri), "{source}");
            // A template that can be registered expands the same.
            if let Ok(template) = UriTemplate::parse(source) {
                assert_eq!(template.expand(rfc_variable).as_deref(), Ok(*uri), "{source}");
            }
        }
    }

    #[test]
    fn examples_of_rfc_6570_section_1_2_expand() {
        assert_expansions(&[
            ("{var}", "value"),
            ("{hello}", "Hello%20World%21"),
            ("{+var}", "value"),
            ("{+hello}", "Hello%20World!"),
            ("{+path}/here", "/foo/bar/here"),
            ("here?ref={+path}", "here?ref=/foo/bar"),
            ("X{#var}", "X#value"),
            ("X{#hello}", "X#Hello%20World!"),
            ("map?{x,y}", "map?1024,768"),
            ("{x,hello,y}", "1024,Hello%20World%21,768"),
            ("{+x,hello,y}", "1024,Hello%20World!,768"),
            ("{+path,x}/here", "/foo/bar,1024/here"),
            ("{#x,hello,y}", "#1024,Hello%20World!,768"),
            ("{#path,x}/here", "#/foo/bar,1024/here"),
            ("X{.var}", "X.value"),
            ("X{.x,y}", "X.1024.768"),
            ("{/var}", "/value"),
            ("{/var,x}/here", "/value/1024/here"),
            ("{;x,y}", ";x=1024;y=768"),
            ("{;x,y,empty}", ";x=1024;y=768;empty"),
            ("{?x,y}", "?x=1024&y=768"),
            ("{?x,y,empty}", "?x=1024&y=768&empty="),
            ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
            ("{&x,y,empty}", "&x=1024&y=768&empty="),
        ]);
    }

    #[test]
    fn simple_and_reserved_examples_of_section_3_2_expand() {
        assert_expansions(&[
            ("{half}", "50%25"),
            ("O{empty}X", "OX"),
            ("O{undef}X", "OX"),
            ("{x,y}", "1024,768"),
            ("?{x,empty}", "?1024,"),
            ("?{x,undef}", "?1024"),
            ("?{undef,y}", "?768"),
            ("{+half}", "50%25"),
            ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
            ("{+base}index", "http://example.com/home/index"),
            ("O{+empty}X", "OX"),
            ("O{+undef}X", "OX"),
            ("up{+path}{var}/here", "up/foo/barvalue/here"),
        ]);
    }

    #[test]
    fn the_prefixed_examples_of_section_3_2_expand_as_printed() {
        assert_expansions(&[
            ("{#var}", "#value"),
            ("{#hello}", "#Hello%20World!"),
            ("{#half}", "#50%25"),
            ("foo{#empty}", "foo#"),
            ("foo{#undef}", "foo"),
            ("{.who}", ".fred"),
            ("{.who,who}", ".fred.fred"),
            ("{.half,who}", ".50%25.fred"),
            ("X{.empty}", "X."),
            ("X{.undef}", "X"),
            ("{/who}", "/fred"),
            ("{/who,who}", "/fred/fred"),
            ("{/half,who}", "/50%25/fred"),
            ("{/who,dub}", "/fred/me%2Ftoo"),
            ("{/var,empty}", "/value/"),
            ("{/var,undef}", "/value"),
            ("{/list*}", "/red/green/blue"),
            ("{/count*}", "/one/two/three"),
            ("{/var*}", "/value"),
            ("X{/empty_list*}", "X"),
            ("X{/undef*}", "X"),
        ]);
    }

    #[test]
    fn the_named_examples_of_section_3_2_expand_as_printed() {
        assert_expansions(&[
            ("{;who}", ";who=fred"),
            ("{;half}", ";half=50%25"),
            ("{;empty}", ";empty"),
            ("{;v,empty,who}", ";v=6;empty;who=fred"),
            ("{;v,bar,who}", ";v=6;who=fred"),
            ("{;x,y,undef}", ";x=1024;y=768"),
            ("{?who}", "?who=fred"),
            ("{?half}", "?half=50%25"),
            ("{?x,y,undef}", "?x=1024&y=768"),
            ("{&who}", "&who=fred"),
            ("{&half}", "&half=50%25"),
            ("{&x,y,undef}", "&x=1024&y=768"),
        ]);
    }

    #[test]
    fn non_ascii_literal_is_encoded_and_triplet_is_copied() {
        assert_expansions(&[("café'%2f{var}", "caf%C3%A9'%2fvalue")]);
    }

    #[test]
    fn reserved_expansion_keeps_triplets_and_encodes_a_lone_percent() {
        let uri = expand("{+a}", |_| Some("%41%4%é".into()));
        assert_eq!(uri.as_deref(), Ok("%41%254%25%C3%A9"));
        let uri = expand("{a}", |_| Some("%41".into()));
        assert_eq!(uri.as_deref(), Ok("%2541"));
    }

    #[test]
    fn list_for_a_text_variable_is_an_error() {
        for source in ["{list}", "{+list}", "{#list}", "{.list}", "{/list}", "{;list}", "{?list}", "{&list}"]
        {
            let error = expand(source, rfc_variable).expect_err(source);
            assert_eq!(error, ExpandError::UnexpectedList { variable: "list".into() });
        }
    }
}
