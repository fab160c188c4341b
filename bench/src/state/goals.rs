//! What was measured, and the goals it is compared with.

use super::{Call, FEW, Store};
use crate::BoxError;
use crate::load::LoadSample;
use crate::table::median;

/// The samples of all servers, in the order of the rounds.
#[derive(Default)]
pub(super) struct Figures(Vec<(Series, Vec<LoadSample>)>);

/// One server, and the calls that it answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Series {
    store: Store,
    is_large: bool,
    call: Call,
}

impl Figures {
    pub(super) fn add(&mut self, store: Store, is_large: bool, call: Call, sample: LoadSample) {
        let series = Series { store, is_large, call };
        match self.0.iter_mut().find(|(known, _)| *known == series) {
            Some((_, samples)) => samples.push(sample),
            None => self.0.push((series, vec![sample])),
        }
    }

    fn samples(&self, series: Series) -> &[LoadSample] {
        self.0.iter().find(|(known, _)| *known == series).map_or(&[], |(_, samples)| samples)
    }

    /// The median of the ratios of two series, round by round.
    fn ratio(&self, one: Series, other: Series, of: fn(&LoadSample) -> f64) -> f64 {
        let pairs = self.samples(one).iter().zip(self.samples(other));
        median(pairs.map(|(one, other)| of(one) / of(other)).collect())
    }

    /// Prints the tables, and fails if a goal is missed.
    pub(super) fn report(&self, many: usize) -> Result<(), BoxError> {
        println!(
            "| call | store | stored sessions | calls/s | CPU µs per call | rate × memory | CPU × memory |"
        );
        println!("|---|---|---:|---:|---:|---:|---:|");
        for (series, samples) in &self.0 {
            let base = Series { store: Store::Memory, ..*series };
            let all = |of: fn(&LoadSample) -> f64| median(samples.iter().map(of).collect());
            println!(
                "| {} | {} | {} | {:.0} | {:.1} | {:.2} | {:.2} |",
                if series.call == Call::Session { "in a session" } else { "stateless" },
                series.store.name(),
                if series.is_large { many } else { FEW },
                all(LoadSample::rate),
                all(LoadSample::cpu_per_call),
                self.ratio(*series, base, LoadSample::rate),
                self.ratio(*series, base, LoadSample::cpu_per_call),
            );
        }
        println!("\n| goal | store | figure | |\n|---|---|---:|---|");
        let mut missed = 0;
        for store in Store::ALL {
            for goal in self.goals(store, many) {
                let (shown, is_met) = (goal.shown(), goal.is_met());
                println!(
                    "| {shown} | {} | {:.2} | {} |",
                    store.name(),
                    goal.figure,
                    if is_met { "met" } else { "missed" }
                );
                missed += usize::from(!is_met);
            }
        }
        match missed {
            0 => Ok(()),
            1 => Err("a goal is missed".into()),
            missed => Err(format!("{missed} goals are missed").into()),
        }
    }

    fn goals(&self, store: Store, many: usize) -> Vec<Goal> {
        let series = |call, is_large| Series { store, is_large, call };
        let session = series(Call::Session, false);
        let stateless = series(Call::Stateless, false);
        let in_memory = |series| Series { store: Store::Memory, ..series };
        let mut goals = Vec::new();
        let mut add = |name: String, limit, figure| goals.push(Goal { name, limit, figure });
        match store {
            Store::Memory => {}
            Store::File => {
                let rate = self.ratio(session, in_memory(session), LoadSample::rate);
                add("a session call that only reads, rate × memory".to_owned(), Limit::Least(0.5), rate);
            }
            Store::Redis(_) => {
                let rate = self.ratio(session, in_memory(session), LoadSample::rate);
                add("a session call, rate × memory".to_owned(), Limit::Least(0.25), rate);
                let cpu = self.ratio(session, in_memory(session), LoadSample::cpu_per_call);
                add("a session call, CPU of the replica × memory".to_owned(), Limit::Most(3.0), cpu);
            }
        }
        if store != Store::Memory {
            let rate = self.ratio(stateless, in_memory(stateless), LoadSample::rate);
            add("a stateless call, rate × memory".to_owned(), Limit::Least(NOISE), rate);
        }
        let flat = self.ratio(series(Call::Session, true), session, LoadSample::cpu_per_call);
        // The caches of the processor hold a smaller part of more sessions.
        add(format!("CPU of a session call with {many} sessions × {FEW}"), Limit::Most(FLAT), flat);
        goals
    }
}

struct Goal {
    name: String,
    limit: Limit,
    figure: f64,
}

enum Limit {
    Least(f64),
    Most(f64),
}

impl Goal {
    fn is_met(&self) -> bool {
        match self.limit {
            Limit::Least(least) => self.figure >= least,
            Limit::Most(most) => self.figure <= most,
        }
    }

    fn shown(&self) -> String {
        match self.limit {
            Limit::Least(least) => format!("{}: at least {least}", self.name),
            Limit::Most(most) => format!("{}: at most {most}", self.name),
        }
    }
}

/// Rates that count as the same: two runs of one server differ by as much.
const NOISE: f64 = 0.93;
/// CPU times that count as flat.
const FLAT: f64 = 1.2;
