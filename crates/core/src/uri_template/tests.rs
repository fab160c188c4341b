//! Tests of the module's guarantee with random templates, values and garbage.

use super::percent;
use super::*;

/// xorshift64: the same numbers in every run.
struct Rng(u64);

impl Rng {
    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn pieces(&mut self, most: usize, from: &[&str]) -> String {
        (0..self.below(most + 1)).map(|_| self.pick(from)).collect()
    }

    fn template(&mut self, most: usize, literals: &[&str]) -> String {
        let mut names = ["a", "b.c", "d_1", "%2fe", "f", "g", "h", "i", "j", "k", "l", "m"].into_iter();
        let mut out = String::new();
        for _ in 0..=self.below(most) {
            out += &self.pieces(2, literals);
            let operator = self.pick(&["", "", "+", "#", ".", "/", "/", ";", "?", "&"]);
            let variables: Vec<_> = names
                .by_ref()
                .take(1 + self.below(3) / 2 + self.below(2))
                .map(
                    |name| {
                        if operator == "/" && self.below(3) == 0 { format!("{name}*") } else { name.into() }
                    },
                )
                .collect();
            out += &format!("{{{operator}{}}}", variables.join(","));
        }
        out + &self.pieces(2, literals)
    }
}

const LITERALS: &[&str] =
    &["x", "41", "/", "/x", "x/", ":", "-", ".", ",", ";", "?", "&", "#", "=", "%2f", "%41", "é", "://"];

const VALUES: &[&str] = &[
    "x", "41", "2", "F", "/", "\\", ":", "-", ".", ",", ";", "?", "&", "#", "=", "%", "%2f", " ", "é", "あ",
    "+", "{", "\"", "'", "\u{7f}", "a", "e.c", "i",
];

/// For each variable: its name, whether it is in a group, is a list, lets `%XX` pass.
fn variables(template: &UriTemplate) -> Vec<(String, bool, bool, bool)> {
    let mut out = Vec::new();
    for part in &template.parts {
        let TemplatePart::Expression(operator, variables) = part else { continue };
        let raw = operator.allowed_chars() == percent::AllowedChars::Reserved;
        out.extend(variables.iter().map(|v| (v.name.to_string(), operator.is_named(), v.explode, raw)));
    }
    out
}

#[test]
fn expanded_values_match_unless_empty_or_rejected() {
    let mut dice = Rng(0x9E37_79B9_7F4A_7C15);
    let (mut parsed, mut same, mut none, mut refused) = (0, 0, 0, 0);
    for _ in 0..20_000 {
        let source = dice.template(4, LITERALS);
        let Ok(template) = UriTemplate::parse(&source) else { continue };
        parsed += 1;
        for _ in 0..4 {
            let mut given = Variables::default();
            let (mut expected, mut empty, mut odd) = (Vec::new(), false, false);
            for (name, named, list, raw) in variables(&template) {
                if named && dice.below(3) == 0 {
                    continue;
                }
                let items: Vec<_> =
                    (0..if list { dice.below(4) } else { 1 }).map(|_| dice.pieces(4, VALUES)).collect();
                // The guarantee is about variables that are given, and an empty list counts as absent.
                let items = if items.is_empty() { vec![String::new()] } else { items };
                empty |= !named && items.iter().any(String::is_empty);
                odd |= items
                    .iter()
                    .any(|item| item.contains(['/', '\\', '.', '\u{7f}']) || raw && item.contains('%'));
                let back = |item: &String| {
                    let mut uri = String::new();
                    percent::encode(item, percent::AllowedChars::Reserved, &mut uri);
                    if raw { percent::decode(&uri).unwrap_or_default() } else { item.clone() }
                };
                let value = |items: Vec<String>| match items.as_slice() {
                    [item] if !list => TemplateValue::from(item.clone()),
                    _ => TemplateValue::List(items),
                };
                expected.push((name.clone(), value(items.iter().map(back).collect())));
                given = given.into_iter().chain([(name, value(items))]).collect();
            }
            let uri = template.expand(|name| given.get(name).cloned()).unwrap();
            match template.matches(&uri) {
                Ok(Some(found)) => {
                    same += 1;
                    assert_eq!(found, expected.into_iter().collect(), "{source} {uri}");
                }
                Ok(None) => {
                    none += 1;
                    assert!(empty, "{source} {uri} {given:?}");
                }
                Err(error) => {
                    refused += 1;
                    assert!(odd, "{source} {uri} {error}");
                }
            }
        }
    }
    // Every outcome must have occurred often enough.
    assert!(
        parsed > 3_000 && same > 3_000 && none > 2_000 && refused > 1_000,
        "{parsed} {same} {none} {refused}"
    );
}

#[test]
fn templates_that_share_a_uri_overlap() {
    let pieces = ["x", "/", "?a", "&a", ";a", "=", ".", "#"];
    let mut uris = vec![String::new()];
    let mut longest = uris.clone();
    for _ in 0..4 {
        longest = longest.iter().flat_map(|uri| pieces.map(|piece| format!("{uri}{piece}"))).collect();
        uris.extend_from_slice(&longest);
    }
    let mut dice = Rng(0x2545_F491_4F6C_DD1D);
    let mut fits: Vec<(UriTemplate, Vec<bool>)> = Vec::new();
    while fits.len() < 100 {
        let Ok(template) = UriTemplate::parse(&dice.template(2, &["x", "/", "."])) else { continue };
        let row: Vec<_> = uris.iter().map(|uri| matches!(template.matches(uri), Ok(Some(_)))).collect();
        if row.contains(&true) {
            fits.push((template, row));
        }
    }
    let (mut shared, mut apart) = (0, 0);
    for (left, a) in &fits {
        for (right, b) in &fits {
            let both = a.iter().zip(b).position(|(a, b)| *a && *b);
            let overlaps = left.overlaps(right);
            assert!(overlaps || both.is_none(), "{left} {right} {:?}", both.map(|n| &uris[n]));
            shared += usize::from(both.is_some());
            apart += usize::from(!overlaps);
        }
    }
    assert!(shared > 500 && apart > 500, "{shared} {apart}");
}

#[test]
fn garbage_never_panics() {
    let mut dice = Rng(0xD1B5_4A32_D192_ED03);
    let braces: &[&str] =
        &["{", "}", "{+", "{/", "{?", "{;", "{#", "{&", "{.", "*}", ",", ":", "%", "%4", "\0", "é", "a"];
    let pool: Vec<&str> = [LITERALS, VALUES, braces].concat();
    let templates: Vec<_> =
        (0..2_000).filter_map(|_| UriTemplate::parse(&dice.template(4, LITERALS)).ok()).collect();
    for round in 0..20_000 {
        let text = dice.pieces(12, &pool);
        let bytes: Vec<u8> = (0..dice.below(12)).map(|_| dice.below(256) as u8).collect();
        for text in [text.as_str(), &String::from_utf8_lossy(&bytes)] {
            let _ = expand(text, |_| Some(text.into()));
            if let Ok(template) = UriTemplate::parse(text) {
                let _ = template.matches(text);
                let _ = template.overlaps(&templates[round % templates.len()]);
            }
            let _ = templates[round % templates.len()].matches(text);
        }
    }
}

#[test]
fn template_displays_and_equals_its_source() {
    let template: UriTemplate = "x/{a}{?b.c,d}".parse().unwrap();
    assert_eq!(template.to_string(), "x/{a}{?b.c,d}");
    assert_eq!(template.as_str(), "x/{a}{?b.c,d}");
    assert_eq!(format!("{template:?}"), r#"UriTemplate("x/{a}{?b.c,d}")"#);
    assert_eq!(template.variables().collect::<Vec<_>>(), ["a", "b.c", "d"]);
    assert_eq!(template, template.clone());
    assert_ne!(template, UriTemplate::parse("x/{a}").unwrap());
}

#[test]
fn limits_can_be_set() {
    let mut limits = TemplateLimits::default();
    (limits.max_length, limits.max_variables) = (7, 1);
    assert!(UriTemplate::parse_with_limits("x/{abc}", &limits).is_ok());
    assert_eq!(UriTemplate::parse_with_limits("x/{abcd}", &limits), Err(TemplateError::TooLong { limit: 7 }));
    assert_eq!(
        UriTemplate::parse_with_limits("{a,b}", &limits),
        Err(TemplateError::TooManyVariables { limit: 1 })
    );
}
