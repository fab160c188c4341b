//! Whether two templates fit the same URI.
//!
//! Each template is a small automaton over the bytes of a canonical URI; both walk together, and if both can
//! arrive at their end with the same bytes, such a URI exists. Every pair of states is visited once.

use super::shape::{Class, Group, Slot, Step};

pub(super) fn overlaps(left: &[Step], right: &[Step]) -> bool {
    let (left, right) = (Automaton::new(left), Automaton::new(right));
    let mut seen = Seen { rows: vec![Vec::new(); left.states.len()], width: right.states.len() };
    let mut open = Vec::new();
    seen.visit((0, 0), &mut open);
    while let Some((at, bt)) = open.pop() {
        let (Some(a), Some(b)) = (left.states.get(at), right.states.get(bt)) else { continue };
        if at == left.last && bt == right.last {
            return true;
        }
        a.skips.iter().for_each(|next| seen.visit((*next, bt), &mut open));
        b.skips.iter().for_each(|next| seen.visit((at, *next), &mut open));
        for (symbol, next) in &a.edges {
            for (_, also) in b.edges.iter().filter(|(other, _)| symbol.meets(other)) {
                seen.visit((*next, *also), &mut open);
            }
        }
    }
    false
}

/// The pairs of states visited so far. A row is made when it is needed: templates that differ early stay
/// cheap.
struct Seen {
    rows: Vec<Vec<bool>>,
    width: usize,
}

impl Seen {
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
    skips: Vec<usize>,
}

#[derive(Clone, Copy)]
enum Symbol {
    Byte(u8),
    Any(Class),
    /// A class without the character that separates parameters.
    AnyBut(Class, char),
}

impl Symbol {
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Byte(a), Self::Byte(b)) => a == b,
            (Self::Byte(byte), set) | (set, Self::Byte(byte)) => set.holds(char::from(*byte)),
            // Letters are in every class.
            _ => true,
        }
    }

    fn holds(&self, found: char) -> bool {
        match *self {
            Self::Byte(byte) => char::from(byte) == found,
            Self::Any(class) => class.holds(found),
            Self::AnyBut(class, mark) => class.holds(found) && found != mark,
        }
    }
}

impl Automaton {
    fn new(steps: &[Step]) -> Self {
        let mut automaton = Self { states: vec![State::default()], last: 0 };
        for step in steps {
            match step {
                Step::Text(text) => automaton.text(text),
                Step::Value(slot) => automaton.value(slot),
                Step::Group(group) => automaton.group(group),
            }
        }
        automaton
    }

    fn text(&mut self, text: &str) {
        for byte in text.bytes() {
            let next = self.state();
            self.edge(self.last, Symbol::Byte(byte), next);
            self.last = next;
        }
    }

    fn value(&mut self, slot: &Slot) {
        let (first, more) = (self.last, self.state());
        let one = Symbol::Any(if slot.list { Class::Segment } else { slot.class });
        self.edge(first, one, more);
        self.edge(more, one, more);
        if slot.list {
            self.edge(more, Symbol::Byte(b'/'), first);
        }
        self.last = more;
        self.text(&slot.tail);
    }

    fn group(&mut self, group: &Group) {
        let (start, name) = (self.last, self.state());
        let (named, value, end) = (self.state(), self.state(), self.state());
        self.skip(start, end);
        self.mark(start, group.lead, name);
        for key in &group.keys {
            self.last = name;
            self.text(&key.wire);
            self.skip(self.last, named);
        }
        self.mark(named, '=', value);
        self.edge(value, Symbol::AnyBut(group.class, group.between), value);
        for done in [named, value] {
            self.mark(done, group.between, name);
            self.skip(done, end);
        }
        self.last = end;
    }

    fn state(&mut self) -> usize {
        self.states.push(State::default());
        self.states.len() - 1
    }

    fn mark(&mut self, from: usize, mark: char, to: usize) {
        if let Ok(byte) = u8::try_from(mark) {
            self.edge(from, Symbol::Byte(byte), to);
        }
    }

    fn edge(&mut self, from: usize, symbol: Symbol, to: usize) {
        if let Some(state) = self.states.get_mut(from) {
            state.edges.push((symbol, to));
        }
    }

    fn skip(&mut self, from: usize, to: usize) {
        if let Some(state) = self.states.get_mut(from) {
            state.skips.push(to);
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
    fn templates_that_no_uri_fits_together_do_not_overlap() {
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
    fn long_templates_with_every_way_to_align_them_are_compared() {
        let long = "x".repeat(500);
        assert!(overlaps(&format!("{{+a}}{long}"), &format!("{{/b*}}{long}")));
        assert!(!overlaps(&format!("/{{+a}}{long}y"), &format!("{{/b*}}{long}z")));
    }
}
