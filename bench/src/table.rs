//! Prints the measurements as markdown.

/// The cost of one burst, as the client reports it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BurstSample {
    pub(crate) calls: f64,
    pub(crate) nanoseconds: f64,
    pub(crate) cpu: f64,
    /// Number of allocations; 0 if they were not counted.
    pub(crate) allocations: f64,
}

impl BurstSample {
    fn rate(&self) -> f64 {
        self.calls / self.nanoseconds * 1e9
    }

    fn cpu_per_call(&self) -> f64 {
        self.cpu / self.calls / 1e3
    }
}

/// One client in one scenario: medians, and ratios to the bare client of the same round.
pub(crate) struct Row {
    client: String,
    rate: f64,
    cpu: f64,
    ratios: Option<(f64, f64)>,
    allocations: f64,
    instructions: Option<f64>,
}

impl Row {
    pub(crate) fn new(
        client: String,
        visits: &[BurstSample],
        bare: Option<&[BurstSample]>,
        instructions: Option<f64>,
    ) -> Self {
        let all = |of: &dyn Fn(&BurstSample) -> f64| median(visits.iter().map(of).collect());
        let ratios = bare.map(|bare| {
            let ratio = |of: &dyn Fn(&BurstSample) -> f64| {
                median(visits.iter().zip(bare).map(|(visit, bare)| of(visit) / of(bare)).collect())
            };
            (ratio(&BurstSample::rate), ratio(&BurstSample::cpu_per_call))
        });
        Self {
            client,
            rate: all(&BurstSample::rate),
            cpu: all(&BurstSample::cpu_per_call),
            ratios,
            allocations: all(&|visit| visit.allocations / visit.calls),
            instructions,
        }
    }
}

pub(crate) fn print_head() {
    println!(
        "| scenario | client | calls/s | × bare | CPU µs per call | × bare | instructions | allocations |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
}

pub(crate) fn print_rows(scenario: &str, rows: &[Row]) {
    for row in rows {
        let (rates, cpus) = match row.ratios {
            Some((rate, cpu)) => (format!("{rate:.2}"), format!("{cpu:.2}")),
            None => ("–".to_owned(), "–".to_owned()),
        };
        let instructions = row.instructions.map_or("–".to_owned(), |count| format!("{count:.0}"));
        let allocations =
            if row.allocations > 0.0 { format!("{:.1}", row.allocations) } else { "–".to_owned() };
        println!(
            "| {scenario} | {} | {:.0} | {rates} | {:.1} | {cpus} | {instructions} | {allocations} |",
            row.client, row.rate, row.cpu
        );
    }
}

pub(crate) fn print_delay_head(delay: &str) {
    println!(
        "\nA server that takes {delay} ms for each response. Sequential calls would take 64 times as long.\n"
    );
    println!("| scenario | client | one call, ms | as many at once, ms | ratio |");
    println!("|---|---|---:|---:|---:|");
}

pub(crate) fn print_delay_row(scenario: &str, who: &str, one: f64, many: f64) {
    println!("| {scenario} | {who} | {one:.1} | {many:.1} | {:.2} |", many / one);
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
