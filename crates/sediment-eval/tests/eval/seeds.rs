// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of four published comparisons of builds, as printed and as experiments. Only facts are taken from them.
//!
//! 1. LTO and inlining by hand, 50 trials each, seconds: a mailing list post on a messaging library.
//! 2. -O2 and -Os, `perf stat` of three runs each: a post to the Linux kernel mailing list, December 2012.
//! 3. `always_inline`, five runs each, Welch's test: an allocator's benchmark index, December 2025.
//! 4. PostgreSQL in link order and reordered, means of six runs of 300 seconds: "principles of operation" of upstream
//!    sediment, Fedora 41 and Fedora 18.

use sediment_eval::{
    Direction, Experiment, Factor, GroupSummary, Metric, MetricKind, SampleSummary, Variant, Workload,
};
use std::collections::BTreeMap;

/// Returns the value of a printed number, which may have separators and a unit: `127,926ms`, `3.339E+011`, `.466`.
pub fn number(printed: &str) -> f64 {
    printed
        .trim_end_matches("ms")
        .replace(',', "")
        .parse()
        .unwrap_or_else(|error| panic!("{printed}: {error}"))
}

/// Returns half of the last digit of a printed number, which is its largest rounding error.
pub fn half_digit(printed: &str) -> f64 {
    let plain = printed.trim_end_matches(['%', 's', 'm']).replace(',', "");
    let (digits, power) = plain.split_once('E').unwrap_or((&plain, "0"));
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
    0.5 * 10.0_f64.powi(power.parse::<i32>().unwrap() - decimals)
}

fn metric(name: &str, unit: &str, direction: Direction) -> Metric {
    Metric { name: name.to_owned(), unit: unit.to_owned(), direction, kind: MetricKind::Measured }
}

fn experiment(variants: Vec<Variant>, workloads: &[&str], metrics: Vec<Metric>, primary: &str) -> Experiment {
    Experiment {
        variants,
        baseline: 0,
        workloads: workloads.iter().map(|name| Workload { name: (*name).to_owned(), work: None }).collect(),
        metrics,
        primary: primary.to_owned(),
        margin: 0.01,
        confidence: 0.95,
        precision: 0.005,
        observations: Vec::new(),
        summaries: Vec::new(),
        absent: BTreeMap::new(),
        facts: Vec::new(),
        seed: 0,
    }
}

fn build(name: &str, factors: &[(&str, &str)]) -> Variant {
    let factors = factors
        .iter()
        .map(|(name, level)| Factor { name: (*name).to_owned(), level: (*level).to_owned() })
        .collect();
    Variant { name: name.to_owned(), factors, replicas: 1, probe: None }
}

fn group(
    experiment: &mut Experiment,
    at: (usize, usize),
    metric: &str,
    count: u64,
    mean: f64,
    deviation: Option<f64>,
) {
    let summary = SampleSummary { count, mean, deviation };
    experiment.summaries.push(GroupSummary {
        workload: at.0,
        variant: at.1,
        metric: metric.to_owned(),
        summary,
    });
}

/// Name, mean, sigma, and the printed improvement.
pub const LTO: &[(&str, &str, &str, Option<&str>)] = &[
    ("base", "41.267825", "0.834826", None),
    ("LTO", "40.073661", "1.108513", Some("2.9%")),
    ("inlining", "39.011794", "1.056831", Some("5.5%")),
    ("LTO plus inlining", "39.211283", "1.041303", Some("5.0%")),
];

/// Returns the first comparison, a factorial of two factors.
pub fn lto() -> Experiment {
    let levels = [("off", "off"), ("on", "off"), ("off", "on"), ("on", "on")];
    let builds = LTO
        .iter()
        .zip(levels)
        .map(|((name, ..), (lto, inline))| build(name, &[("inlining", inline), ("lto", lto)]))
        .collect();
    let mut found = experiment(
        builds,
        &["5 million messages"],
        vec![metric("elapsed", "s", Direction::LowerIsBetter)],
        "elapsed",
    );
    for (variant, (_, mean, sigma, _)) in LTO.iter().enumerate() {
        group(&mut found, (0, variant), "elapsed", 50, number(mean), Some(number(sigma)));
    }
    found
}

/// A counter of `perf stat`: its name, then value and standard error in per cent for -O2 and for -Os.
pub type Counter = (&'static str, &'static str, Option<&'static str>, &'static str, Option<&'static str>);

/// The second comparison, by workload; task-clock in ms, elapsed in s.
pub const PERF_STAT: &[(&str, &[Counter])] = &[
    (
        "netperf",
        &[
            ("task-clock", "5416.157986", Some("0.19"), "5395.386704", Some("0.14")),
            ("context-switches", "348,249", Some("0.17"), "345,880", Some("0.25")),
            ("CPU-migrations", "0", Some("0.00"), "0", Some("0.00")),
            ("page-faults", "353", Some("0.16"), "354", Some("0.00")),
            ("cycles", "13,166,254,384", Some("0.18"), "13,142,706,297", Some("0.23")),
            ("stalled-cycles-frontend", "8,827,499,807", Some("0.29"), "8,379,382,641", Some("0.50")),
            ("stalled-cycles-backend", "5,951,234,060", Some("0.44"), "5,513,722,219", Some("0.71")),
            ("instructions", "8,122,481,914", Some("0.17"), "8,554,202,795", Some("0.25")),
            ("branches", "1,415,864,138", Some("0.17"), "1,530,020,505", Some("0.25")),
            ("branch-misses", "16,975,308", Some("0.61"), "17,710,406", Some("1.00")),
            ("elapsed", "10.007215371", Some("0.03"), "10.004859867", None),
        ],
    ),
    (
        "volano",
        &[
            ("task-clock", "210627.115313", Some("0.92"), "209545.786941", Some("0.66")),
            ("context-switches", "13,812,610", Some("0.17"), "13,864,142", Some("0.29")),
            ("CPU-migrations", "2,352,755", Some("0.84"), "2,326,826", Some("0.83")),
            ("page-faults", "208,333", Some("1.58"), "205,575", Some("2.63")),
            ("cycles", "525,627,073,405", Some("0.96"), "523,366,588,452", Some("0.75")),
            ("stalled-cycles-frontend", "428,177,571,365", Some("1.09"), "419,200,472,430", Some("0.86")),
            ("stalled-cycles-backend", "370,885,224,739", Some("1.18"), "362,044,374,737", Some("0.96")),
            ("instructions", "187,662,577,544", Some("0.31"), "193,274,857,837", Some("0.51")),
            ("branches", "35,684,976,425", Some("0.45"), "37,657,832,686", Some("0.42")),
            ("branch-misses", "1,062,086,942", Some("0.08"), "1,061,005,300", Some("0.86")),
            ("elapsed", "269.764578435", None, "269.410275674", Some("0.06")),
        ],
    ),
    (
        "netperf, Nehalem",
        &[
            ("task-clock", "3779.262214", Some("0.37"), "3793.965782", Some("0.24")),
            ("context-switches", "47,580", Some("0.59"), "59,124", Some("0.02")),
            ("cpu-migrations", "0", None, "0", None),
            ("page-faults", "321", Some("0.18"), "321", Some("0.21")),
            ("cycles", "8,885,976,365", Some("0.37"), "8,878,307,926", Some("0.25")),
            ("stalled-cycles-frontend", "4,572,094,199", Some("1.27"), "4,717,512,228", Some("0.56")),
            ("stalled-cycles-backend", "1,347,935,497", Some("2.02"), "1,612,028,376", Some("0.58")),
            ("instructions", "6,564,928,770", Some("0.33"), "6,273,760,790", Some("0.02")),
            ("branches", "1,196,254,990", Some("0.33"), "1,144,007,254", Some("0.02")),
            ("branch-misses", "6,434,145", Some("0.42"), "11,348,742", Some("0.66")),
            ("elapsed", "10.009993130", Some("0.04"), "10.006341837", Some("0.00")),
        ],
    ),
];

/// Figures that `perf stat` printed after the `#` in the second comparison: workload, build, figures.
pub const PERF_STAT_DERIVED: &[(usize, usize, &[&str])] = &[
    (
        0,
        0,
        &[
            "0.541 CPUs utilized",
            "0.064 M/sec",
            "2.431 GHz",
            "67.05% frontend",
            "45.20% backend",
            "0.62 insns",
            "1.09 stalled",
            "261.415 M/sec",
            "1.20% of all",
        ],
    ),
    (
        0,
        1,
        &[
            "0.539 CPUs utilized",
            "0.064 M/sec",
            "2.436 GHz",
            "63.76% frontend",
            "41.95% backend",
            "0.65 insns",
            "0.98 stalled",
            "283.579 M/sec",
            "1.16% of all",
        ],
    ),
    (
        1,
        0,
        &[
            "0.781 CPUs utilized",
            "0.066 M/sec",
            "0.011 M/sec",
            "2.496 GHz",
            "81.46% frontend",
            "70.56% backend",
            "0.36 insns",
            "2.28 stalled",
            "169.423 M/sec",
            "2.98% of all",
        ],
    ),
    (
        1,
        1,
        &[
            "0.778 CPUs utilized",
            "0.066 M/sec",
            "0.011 M/sec",
            "2.498 GHz",
            "80.10% frontend",
            "69.18% backend",
            "0.37 insns",
            "2.17 stalled",
            "179.712 M/sec",
            "2.82% of all",
        ],
    ),
    (
        2,
        0,
        &[
            "0.378 CPUs utilized",
            "0.085 K/sec",
            "2.351 GHz",
            "51.45% frontend",
            "15.17% backend",
            "0.74 insns",
            "0.70 stalled",
            "316.531 M/sec",
            "0.54% of all",
        ],
    ),
    (
        2,
        1,
        &[
            "0.379 CPUs utilized",
            "0.085 K/sec",
            "2.340 GHz",
            "53.14% frontend",
            "18.16% backend",
            "0.71 insns",
            "0.75 stalled",
            "301.533 M/sec",
            "0.99% of all",
        ],
    ),
];

pub fn perf_stat() -> Experiment {
    let workloads: Vec<&str> = PERF_STAT.iter().map(|(name, _)| *name).collect();
    let mut metrics: Vec<Metric> = Vec::new();
    for (name, ..) in PERF_STAT.iter().flat_map(|(_, counters)| *counters) {
        let name = name.to_lowercase();
        let unit = match name.as_str() {
            "task-clock" => "ms",
            "elapsed" => "s",
            _ => "count",
        };
        if !metrics.iter().any(|metric| metric.name == name) {
            metrics.push(metric(&name, unit, Direction::LowerIsBetter));
        }
    }
    let mut found = experiment(vec![build("O2", &[]), build("Os", &[])], &workloads, metrics, "cycles");
    for (workload, (_, counters)) in PERF_STAT.iter().enumerate() {
        for (name, old, old_error, new, new_error) in *counters {
            for (variant, mean, error) in [(0, old, old_error), (1, new, new_error)] {
                let mean = number(mean);
                // perf prints the standard error of the mean of three runs, in per cent.
                let deviation = error.map(|error| number(error) / 100.0 * mean * 3.0_f64.sqrt());
                group(&mut found, (workload, variant), &name.to_lowercase(), 3, mean, deviation);
            }
        }
    }
    found
}

/// A metric of the third comparison: its name, its values with and without inlining, their CVs in per cent and the
/// change, if printed.
pub type ComparedMetric =
    (&'static str, &'static str, &'static str, Option<(&'static str, &'static str)>, &'static str);

/// The third comparison.
pub const WELCH: &[ComparedMetric] = &[
    ("throughput 1", "1,055,159", "954,265", None, "+10.57%"),
    ("throughput 2", "1,095,292", "1,054,294", Some(("11.26", "19.18")), "+3.89%"),
    ("cycles", "71,522,202", "73,076,160", Some(("0.75", "1.52")), "-2.13%"),
    ("cache-misses", "256,020", "296,074", Some(("4.74", "8.60")), "-13.53%"),
];

/// Returns the third comparison. Its baseline is the build without forced inlining.
pub fn welch() -> Experiment {
    let metrics = WELCH
        .iter()
        .map(|(name, ..)| match name.starts_with("throughput") {
            true => metric(name, "ops/s", Direction::HigherIsBetter),
            false => metric(name, "count", Direction::LowerIsBetter),
        })
        .collect();
    let builds = vec![build("without inlining", &[]), build("with inlining", &[])];
    let mut found = experiment(builds, &["random mixed"], metrics, "cycles");
    for (name, with, without, spread, _) in WELCH {
        let deviation = |mean: f64, cv: Option<&str>| cv.map(|cv| number(cv) / 100.0 * mean);
        let (new, old) = (number(with), number(without));
        group(&mut found, (0, 0), name, 5, old, deviation(old, spread.map(|(_, cv)| cv)));
        group(&mut found, (0, 1), name, 5, new, deviation(new, spread.map(|(cv, _)| cv)));
    }
    found
}

/// A table of the fourth comparison: its name, its builds, and the printed means and changes of each row.
pub struct PublishedTable {
    pub name: &'static str,
    pub builds: &'static [&'static str],
    pub rows: &'static [(&'static str, &'static [&'static str], &'static [&'static str])],
}

impl PublishedTable {
    /// Returns by how many percentage points a row's change may differ from the change of the printed means, because
    /// these were rounded. The first-order error is increased by half for the rest.
    pub fn slack(&self, row: &str, variant: usize) -> f64 {
        let of = |name: &str| {
            let (_, means, _) = self.rows.iter().find(|(row, ..)| *row == name).unwrap();
            [means[0], means[variant]]
                .map(|printed| half_digit(printed) / number(printed) * 100.0)
                .iter()
                .sum::<f64>()
        };
        1.5 * match row {
            "instructions per cycle" => of("instructions") + of("cycles"),
            "instructions per iTLB miss" => of("instructions") + of("iTLB-load-misses"),
            _ => of(row),
        }
    }
}

const PAIR: &[&str] = &["baseline", "reordered"];

/// The metrics have our names; "tps" excludes the time for connecting, as the counted work does.
pub const POSTGRESQL: &[PublishedTable] = &[
    PublishedTable {
        name: "Fedora 41, x86_64",
        builds: PAIR,
        rows: &[
            ("tps", &["318.5", "319.9"], &["0.43%"]),
            ("cycles", &["3.339E+011", "3.236E+011"], &["-3.1%"]),
            ("instructions", &["1.555E+011", "1.567E+011"], &["0.77%"]),
            ("instructions per cycle", &[".466", ".484"], &["4.0%"]),
            ("iTLB-load-misses", &["3.600E+008", "2.461E+008"], &["-31.6%"]),
            ("instructions per iTLB miss", &["432", "637"], &["47.4%"]),
            ("cpu-clock", &["127,926ms", "124,895ms"], &["-2.37%"]),
            ("task-clock", &["130,625ms", "127,596ms"], &["-2.32%"]),
        ],
    },
    PublishedTable {
        name: "Fedora 41, x86_64 guest",
        builds: PAIR,
        rows: &[
            ("tps", &["230.1", "231.5"], &["0.6%"]),
            ("cycles", &["3.0751E+011", "2.9502E+011"], &["-4.1%"]),
            ("instructions", &["1.7732E+011", "1.7604E+011"], &["-0.7%"]),
            ("instructions per cycle", &[".577", ".597"], &["3.3%"]),
            ("iTLB-load-misses", &["4.736E+008", "3.805E+008"], &["-19.7%"]),
            ("instructions per iTLB miss", &["374", "462"], &["23.5%"]),
            ("cpu-clock", &["165,610ms", "160,785ms"], &["-2.9%"]),
            ("task-clock", &["167,212ms", "162,393ms"], &["-2.9%"]),
        ],
    },
    PublishedTable {
        name: "Fedora 41, Cortex-A57",
        builds: PAIR,
        rows: &[
            ("tps", &["53.1", "51.3"], &["-3.3%"]),
            ("cycles", &["1.484E+011", "1.356E+011"], &["-8.6%"]),
            ("instructions", &["3.509E+10", "3.396E+010"], &["-3.2%"]),
            ("instructions per cycle", &[".236", ".250"], &["6.1%"]),
            ("iTLB-load-misses", &["1.495E+008", "1.292E+008"], &["-13.6%"]),
            ("instructions per iTLB miss", &["235", "263"], &["11.2%"]),
            ("cpu-clock", &["205,022ms", "202,764ms"], &["-1.1%"]),
            ("task-clock", &["208,491ms", "206,936ms"], &["-0.7%"]),
        ],
    },
    PublishedTable {
        name: "Fedora 18, x86_64",
        builds: PAIR,
        rows: &[
            ("tps with connecting", &["1,366.59", "1,378.95"], &["0.90%"]),
            ("tps", &["1,365.51", "1,380.06"], &["1.07%"]),
            ("cycles", &["1.20E+012", "1.16E+012"], &["-3.13%"]),
            ("instructions", &["7.06E+011", "7.17E+011"], &["1.56%"]),
            ("instructions per cycle", &[".59", ".62"], &["4.84%"]),
            ("iTLB-load-misses", &["1.24E+009", "9.95E+008"], &["-19.79%"]),
            ("instructions per iTLB miss", &["568.97", "720.40"], &["26.61%"]),
            ("cpu-clock", &["997,897.58", "974,661.58"], &["-2.33%"]),
            ("task-clock", &["1,000,752.83", "977,629.52"], &["-2.31%"]),
        ],
    },
    PublishedTable {
        name: "Fedora 18, kvm guest",
        builds: &["kvm, postgresql", "kvm, postgresql_pgo", "kvm_pgo, postgresql", "kvm_pgo, postgresql_pgo"],
        rows: &[
            ("tps with connecting", &["722.19", "745.67", "720.10", "747.87"], &["3.25%", "", "3.56%"]),
            ("tps", &["722.41", "745.15", "721.37", "749.26"], &["3.15%", "", "3.72%"]),
            ("cycles", &["4.12E+011", "3.99E+011", "4.12E+011", "3.99E+011"], &["-3.11%", "", "-3.12%"]),
            ("instructions", &["2.55E+011", "2.65E+011", "2.54E+011", "2.66E+011"], &["3.78%", "", "4.28%"]),
            ("instructions per cycle", &[".62", ".66", ".62", ".67"], &["7.11%", "", "7.64%"]),
            (
                "iTLB-load-misses",
                &["9.33E+008", "6.65E+008", "9.32E+008", "6.68E+008"],
                &["-28.69%", "", "-28.35%"],
            ),
            (
                "instructions per iTLB miss",
                &["273.22", "397.62", "272.42", "397.67"],
                &["45.53%", "", "45.55%"],
            ),
            (
                "cpu-clock",
                &["177,030.63", "174,455.12", "176,798.16", "173,752.65"],
                &["-1.45%", "", "-1.85%"],
            ),
            (
                "task-clock",
                &["177,174.29", "174,616.27", "176,926.93", "173,901.29"],
                &["-1.44%", "", "-1.85%"],
            ),
        ],
    },
    PublishedTable {
        name: "Fedora 18, armv7",
        builds: PAIR,
        rows: &[
            ("tps with connecting", &["477.46", "491.08"], &["2.85%"]),
            ("tps", &["479.06", "492.34"], &["2.77%"]),
            ("cycles", &["5.22E+011", "5.60E+011"], &["7.30%"]),
            ("instructions", &["1.53E+011", "1.72E+011"], &["12.53%"]),
            ("instructions per cycle", &[".29", ".31"], &["4.88%"]),
            ("iTLB-load-misses", &["1.79E+009", "1.81E+009"], &["0.93%"]),
            ("instructions per iTLB miss", &["85.39", "95.20"], &["11.49%"]),
            ("cpu-clock", &["317,669.31", "343,863.71"], &["8.25%"]),
            ("task-clock", &["319,782.35", "346,122.26"], &["8.24%"]),
        ],
    },
];

/// True if a row of the fourth comparison follows from others.
pub fn is_derived(row: &str) -> bool {
    row.contains(" per ")
}

/// Returns a table of the fourth comparison, without the rows that follow from others; each run takes 300 seconds.
pub fn postgresql(table: &PublishedTable) -> Experiment {
    let mut metrics: Vec<Metric> = table
        .rows
        .iter()
        .filter(|(name, ..)| !is_derived(name))
        .map(|(name, ..)| match *name {
            "tps" => metric(name, "transaction/s", Direction::HigherIsBetter),
            "tps with connecting" => metric(name, "tps", Direction::HigherIsBetter),
            "cpu-clock" | "task-clock" => metric(name, "ms", Direction::LowerIsBetter),
            _ => metric(name, "count", Direction::LowerIsBetter),
        })
        .collect();
    metrics.push(metric("elapsed", "s", Direction::LowerIsBetter));
    let builds = table.builds.iter().map(|name| build(name, &[])).collect();
    let mut found = experiment(builds, &[table.name], metrics, "cycles");
    found.workloads[0].work = Some("transaction".to_owned());
    for (name, means, _) in table.rows.iter().filter(|(name, ..)| !is_derived(name)) {
        for (variant, mean) in means.iter().enumerate() {
            group(&mut found, (0, variant), name, 6, number(mean), None);
        }
    }
    for variant in 0..table.builds.len() {
        group(&mut found, (0, variant), "elapsed", 6, 300.0, None);
    }
    found
}
