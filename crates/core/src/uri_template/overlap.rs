//! Checks whether two templates match the same URI.
//!
//! Each template is a small automaton over the bytes of a canonical URI; both are run together, and if both can reach
//! their end with the same bytes, such a URI exists. Every pair of states is visited once.

use super::compile::{CharClass, ParamGroup, Step, ValueStep};

pub(super) fn overlaps(left: &[Step], right: &[Step]) -> bool {
    let (left, right) = (Automaton::new(left), Automaton::new(right));
    let mut seen = VisitedPairs { rows: vec![Vec::new(); left.states.len()], width: right.states.len() };
    let mut open = Vec::new();
    seen.visit((0, 0), &mut open);
    while let Some((at, bt)) = open.pop() {
        let (Some(a), Some(b)) = (left.states.get(at), right.states.get(bt)) else { continue };
        if at == left.last && bt == right.last {
            return true;
        }
        a.epsilons.iter().for_each(|next| seen.visit((*next, bt), &mut open));
        b.epsilons.iter().for_each(|next| seen.visit((at, *next), &mut open));
        for (symbol, next) in &a.edges {
            for (_, also) in b.edges.iter().filter(|(other, _)| symbol.intersects(other)) {
                seen.visit((*next, *also), &mut open);
            }
        }
    }
    false
}

/// The pairs of states visited so far. Rows are allocated when they are needed: templates that differ early stay cheap.
struct VisitedPairs {
    rows: Vec<Vec<bool>>,
    width: usize,
}

impl VisitedPairs {
    fn visit(&mut self, (a, b): (usize, usize), open: &mut Vec<(usize, usize)>) {
        let Some(row) = self.rows.get_mut(a) else { return };
        if row.is_empty() {
            row.resize(self.width, false);
        }
        if row.get_mut(b).is_some_and(|seen| !std::mem::replace(seen, true)) {
            open.push((a, b));
        }
    }
}

struct Automaton {
    states: Vec<State>,
    last: usize,
}

#[derive(Default)]
struct State {
    edges: Vec<(Symbol, usize)>,
    epsilons: Vec<usize>,
}

#[derive(Clone, Copy)]
enum Symbol {
    Byte(u8),
    Any(CharClass),
    /// A class without the character that separates parameters.
    AnyBut(CharClass, char),
}

impl Symbol {
    fn intersects(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Byte(a), Self::Byte(b)) => a == b,
            (Self::Byte(byte), set) | (set, Self::Byte(byte)) => set.contains(char::from(*byte)),
            // Letters are in every class.
            _ => true,
        }
    }

    fn contains(&self, found: char) -> bool {
        match *self {
            Self::Byte(byte) => char::from(byte) == found,
            Self::Any(class) => class.contains(found),
            Self::AnyBut(class, mark) => class.contains(found) && found != mark,
        }
    }
}

impl Automaton {
    fn new(steps: &[Step]) -> Self {
        let mut automaton = Self { states: vec![State::default()], last: 0 };
        for step in steps {
            match step {
                Step::Text(text) => automaton.add_text(text),
                Step::Value(slot) => automaton.add_value(slot),
                Step::Group(group) => automaton.add_group(group),
            }
        }
        automaton
    }

    fn add_text(&mut self, text: &str) {
        for byte in text.bytes() {
            let next = self.add_state();
            self.add_edge(self.last, Symbol::Byte(byte), next);
            self.last = next;
        }
    }

    fn add_value(&mut self, slot: &ValueStep) {
        let (first, more) = (self.last, self.add_state());
        let one = Symbol::Any(if slot.is_list { CharClass::Segment } else { slot.class });
        self.add_edge(first, one, more);
        self.add_edge(more, one, more);
        if slot.is_list {
            self.add_edge(more, Symbol::Byte(b'/'), first);
        }
        self.last = more;
        self.add_text(&slot.tail);
    }

    fn add_group(&mut self, group: &ParamGroup) {
        let (start, name) = (self.last, self.add_state());
        let (named, value, end) = (self.add_state(), self.add_state(), self.add_state());
        self.add_epsilon(start, end);
        self.add_char_edge(start, group.prefix, name);
        for key in &group.keys {
            self.last = name;
            self.add_text(&key.encoded_name);
            self.add_epsilon(self.last, named);
        }
        self.add_char_edge(named, '=', value);
        self.add_edge(value, Symbol::AnyBut(group.class, group.separator), value);
        for done in [named, value] {
            self.add_char_edge(done, group.separator, name);
            self.add_epsilon(done, end);
        }
        self.last = end;
    }

    fn add_state(&mut self) -> usize {
        self.states.push(State::default());
        self.states.len() - 1
    }

    fn add_char_edge(&mut self, from: usize, mark: char, to: usize) {
        if let Ok(byte) = u8::try_from(mark) {
            self.add_edge(from, Symbol::Byte(byte), to);
        }
    }

    fn add_edge(&mut self, from: usize, symbol: Symbol, to: usize) {
        if let Some(state) = self.states.get_mut(from) {
            state.edges.push((symbol, to));
        }
    }

    fn add_epsilon(&mut self, from: usize, to: usize) {
        if let Some(state) = self.states.get_mut(from) {
            state.epsilons.push(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::UriTemplate;

    fn overlaps(left: &str, right: &str) -> bool {
        let (a, b) = (UriTemplate::parse(left).expect(left), UriTemplate::parse(right).expect(right));
        assert_eq!(a.overlaps(&b), b.overlaps(&a), "{left} {right}");
        a.overlaps(&b)
    }

    #[test]
    fn templates_of_the_same_shape_overlap() {
        for (left, right) in [
            ("x/{a}", "x/{b}"),
            ("x/{a}", "x/y"),
            ("x/{a}/z", "x/y/{b}"),
            ("x/{+a}", "x/{b}/{c}"),
            ("x{/a*}", "x/{b}"),
            ("x{/a*}", "x/{+b}"),
            ("x/{a}y", "x/z{b}"),
            ("x{?a}", "x{?b}"),
            ("x{?a}", "x"),
            ("x{?a,b}", "x?b={c}"),
            ("x{;a}/y", "x/{c}"),
            ("x%2f", "x%2F"),
            ("é", "%c3%a9"),
            ("x{.a}", "{b}"),
            ("{+a}", "{?b}{#c}"),
            ("", ""),
        ] {
            assert!(overlaps(left, right), "{left} {right}");
        }
    }

    #[test]
    fn templates_without_a_common_uri_do_not_overlap() {
        for (left, right) in [
            ("x/{a}", "y/{a}"),
            ("x/{a}", "x/{a}/z"),
            ("x/{a}", "x{/a,b}"),
            ("x/{a}.json", "x/{a}.xml"),
            ("x/{a}", "x{/b,c*}"),
            ("x/{+a}/y", "x/{b}"),
            ("x{#a}", "x{?b}"),
            ("x?a={a}", "x{?b}"),
            ("x?a=1&b=2", "x{?a}"),
            ("x{;a}", "x{;b}/y"),
            ("x/{a}", "x/"),
            ("x{/a*}", "x"),
            ("a://{h}/p", "b://{h}/p"),
            ("", "{a}"),
        ] {
            assert!(!overlaps(left, right), "{left} {right}");
        }
    }

    #[test]
    fn long_templates_are_compared_in_every_alignment() {
        let long = "x".repeat(500);
        assert!(overlaps(&format!("{{+a}}{long}"), &format!("{{/b*}}{long}")));
        assert!(!overlaps(&format!("/{{+a}}{long}y"), &format!("{{/b*}}{long}z")));
    }
}
