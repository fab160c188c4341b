//! Types that cannot be forms.

#![allow(unused)]

use tsugite::prelude::*;

#[derive(Form)]
struct Tuple(String);

#[derive(Form)]
struct Unit;

#[derive(Form)]
enum Data {
    Plain,
    Full(String),
}

#[derive(Form)]
enum Empty {}

#[derive(Form)]
union Bits {
    a: u32,
    b: f32,
}

#[derive(Form)]
#[form(rename_all = "spongebob")]
enum Case {
    One,
}

#[derive(Form)]
struct Settings {
    #[form(length = 3)]
    unknown: String,
    #[form(format = "phone")]
    format: String,
    #[form(rename = "format")]
    again: String,
}

#[derive(Form)]
struct Misfits {
    #[form(min = 1)]
    flag: bool,
    #[form(max_length = 1)]
    number: i64,
    #[form(max_items = 1)]
    text: String,
    #[form(format = "email")]
    choice: Option<Colour>,
    #[form(default = 5)]
    word: String,
    #[form(max = 0.5)]
    whole: Option<u8>,
}

#[derive(Form)]
enum Colour {
    Red,
}

fn main() {}
