//! Tests of the serializer: the same bytes and the same errors as `serde_json`.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

use super::*;

/// One of each kind of value serde has.
#[derive(Debug, Clone, Serialize)]
enum SerdeShape {
    Unit,
    #[serde(rename = "new\"type\n")]
    Newtype(String),
    Tuple(u8, String, ()),
    #[serde(rename_all = "camelCase")]
    Struct {
        a_name: Option<String>,
        wide: i128,
        wider: u128,
        f: f64,
        g: f32,
    },
    IntegerKeys(BTreeMap<i32, bool>),
    CharKeys(BTreeMap<char, char>),
    BoolKeys(BTreeMap<bool, NewType>),
    StringKeys(BTreeMap<String, Value>),
    UnitStruct(UnitStruct),
    Pair(Pair),
    Raw(Box<RawValue>),
    Tagged(Tagged),
    DisplayText(std::net::Ipv6Addr),
    InvalidKeys(BTreeMap<Option<u8>, BTreeMap<Vec<u8>, u8>>),
}

#[derive(Debug, Clone, Serialize)]
struct UnitStruct;

#[derive(Debug, Clone, Serialize)]
struct NewType(String);

#[derive(Debug, Clone, Serialize)]
struct Pair(String, i64);

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename = "tag\\ged")]
struct Tagged {
    text: String,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

fn assert_same(value: &(impl Serialize + ?Sized)) {
    let mut ours = b"before".to_vec();
    let written = super::write_value(&mut ours, value);
    match serde_json::to_vec(value) {
        Ok(theirs) => {
            assert!(written.is_ok());
            let ours = ours.strip_prefix(b"before").unwrap();
            assert_eq!(ours, theirs, "{} and {}", ours.escape_ascii(), theirs.escape_ascii());
        }
        Err(error) => assert_eq!(written.unwrap_err().to_string(), error.to_string()),
    }
}

/// Text with many characters that need an escape, or only look like it.
fn text() -> impl Strategy<Value = String> {
    let odd = [
        '"',
        '\\',
        '/',
        '\0',
        '\x07',
        '\x08',
        '\t',
        '\n',
        '\x0b',
        '\x0c',
        '\r',
        '\x1f',
        ' ',
        '!',
        '#',
        '[',
        ']',
        '\x7f',
        '\u{80}',
        '\u{a2}',
        '\u{dc}',
        '\u{2028}',
        '\u{2029}',
        '\u{d7ff}',
        '\u{e000}',
        '\u{fffd}',
        '\u{ffff}',
        '\u{10000}',
        '\u{1f600}',
        '\u{10ffff}',
    ];
    let piece = prop_oneof![
        6 => "[a-z ]{0,80}",
        3 => prop::sample::select(odd.to_vec()).prop_map(String::from),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn serde_shape() -> impl Strategy<Value = SerdeShape> {
    let members = || prop::collection::btree_map(text(), json(), 0..3);
    prop_oneof![
        Just(SerdeShape::Unit),
        text().prop_map(SerdeShape::Newtype),
        (any::<u8>(), text()).prop_map(|(a, b)| SerdeShape::Tuple(a, b, ())),
        (prop::option::of(text()), any::<(i128, u128, f64, f32)>())
            .prop_map(|(a_name, (wide, wider, f, g))| SerdeShape::Struct { a_name, wide, wider, f, g }),
        any::<BTreeMap<i32, bool>>().prop_map(SerdeShape::IntegerKeys),
        any::<BTreeMap<char, char>>().prop_map(SerdeShape::CharKeys),
        (any::<bool>(), text()).prop_map(|(a, b)| SerdeShape::BoolKeys([(a, NewType(b))].into())),
        members().prop_map(SerdeShape::StringKeys),
        Just(SerdeShape::UnitStruct(UnitStruct)),
        (text(), any::<i64>()).prop_map(|(a, b)| SerdeShape::Pair(Pair(a, b))),
        json().prop_map(|value| SerdeShape::Raw(RawValue::from_string(format!("{value:#}")).unwrap())),
        (text(), members()).prop_map(|(text, rest)| SerdeShape::Tagged(Tagged { text, rest })),
        any::<u128>().prop_map(|bits| SerdeShape::DisplayText(bits.into())),
        any::<BTreeMap<Option<u8>, BTreeMap<Vec<u8>, u8>>>().prop_map(SerdeShape::InvalidKeys),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn strings_are_written_as_serde_json_writes_them(text in text()) {
        assert_same(&text);
    }

    #[test]
    fn values_are_written_as_serde_json_writes_them(
        kinds in prop::collection::vec(serde_shape(), 0..6),
    ) {
        assert_same(&kinds);
        kinds.iter().for_each(assert_same);
    }
}

#[test]
fn every_character_is_written_like_serde_json() {
    for character in '\0'..='\u{ffff}' {
        assert_same(&format!("seven..{character}"));
    }
}
