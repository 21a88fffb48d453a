// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a [`Plan`] from its text; errors name the line.

use super::file::{
    self, BuildTable, FactorTable, MetricTable, PlanTable, VariantTable, WorkTable, WorkloadTable,
};
use super::{
    CommandLine, Extraction, Plan, PlannedMetric, PlannedVariant, PlannedWorkload, ProgramSource, RunPlan,
    ServerPlan, WorkloadKind,
};
use crate::data::{Factor, LEAST_LINKS, Probe};
use sediment_core::error::Result;
use sediment_measure::METERS;
use sediment_measure::perf_stat::EVENTS;
use std::collections::BTreeSet;

/// Largest number of variants, levels and workloads. A plan with more is considered a mistake.
const MANY: usize = 1000;

/// Names of the repeated baseline.
const PROBES: [(&str, Probe); 2] = [("A/A", Probe::SameFile), ("A/A′", Probe::Relinked)];

/// A deserialized table with the positions of its keys.
type LocatedTable<'a, T> = (&'a T, PlanTable<'a>);

/// Reads a plan.
///
/// # Errors
/// With the line: for invalid TOML, an unknown version, unknown keys (with the known ones), and values that make no
/// sense.
pub fn read(text: &str) -> Result<Plan> {
    let document = file::parse(text)?;
    let top = PlanTable::top(text, document.get_ref());
    let mut file = file::read(text, &document)?;
    check_run(&top, &mut file.run)?;
    let workloads = workloads(&top, &file.workload)?;
    let imports_only = workloads.iter().all(|w| matches!(w.kind, WorkloadKind::Import(_)));
    let build = file.build.as_ref().zip(top.tables("build").pop());
    let mut variants =
        variants(&top, &CommonSettings { build, factors: &file.factor, imports_only }, &file.variant)?;
    let baseline = baseline(&top, file.baseline.as_deref(), &variants)?;
    check_imports(&top, &workloads, &variants)?;
    if file.noise_floor.unwrap_or(true) && !imports_only {
        add_probes(&mut variants, baseline);
    }
    let build = file.build.unwrap_or_default();
    Ok(Plan {
        text: text.to_owned(),
        name: file.name,
        baseline,
        metrics: file.metric.into_iter().zip(top.tables("metric")).map(metric).collect::<Result<_>>()?,
        primary: file.primary,
        margin: file.margin.unwrap_or(0.01),
        confidence: file.confidence.unwrap_or(0.95),
        run: file.run,
        build_time_limit: build.time_limit.unwrap_or(7200.0),
        padding_section: build.section.unwrap_or_else(|| ".text.sediment_eval_padding".to_owned()),
        variants,
        workloads,
    })
}

fn baseline(top: &PlanTable<'_>, name: Option<&str>, variants: &[PlannedVariant]) -> Result<usize> {
    let Some(name) = name else { return Ok(0) };
    variants.iter().position(|variant| variant.name == name).ok_or_else(|| {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        top.error("baseline", format!("unknown variant {name}"))
            .with_hint(format!("available: {}", names.join(", ")))
    })
}

fn required(at: &PlanTable<'_>, key: &str, value: &str) -> Result<String> {
    if value.is_empty() {
        Err(at.error(key, format!("{key} is missing or empty")))
    } else {
        Ok(value.to_owned())
    }
}

fn check_run(top: &PlanTable<'_>, run: &mut RunPlan) -> Result<()> {
    run.pilot = run.pilot.min(run.blocks);
    let Some(at) = top.tables("run").pop() else { return Ok(()) };
    let meters = METERS.iter().map(|meter| meter.name).filter(|name| *name != "rusage").collect::<Vec<_>>();
    let counters = EVENTS.iter().map(|event| event.metric).collect::<Vec<_>>();
    for (key, asked, known, message) in [
        ("meters", Some(&run.meters), meters, "unknown meter"),
        ("counters", run.counters.as_ref(), counters, "unknown counter"),
    ] {
        if let Some(unknown) = asked.into_iter().flatten().find(|name| !known.contains(&name.as_str())) {
            return Err(at
                .error(key, message)
                .with_found(unknown.as_bytes())
                .with_hint(format!("available: {}", known.join(", "))));
        }
    }
    if run.cold && run.fresh_copies {
        return Err(at
            .error("fresh-copies", "cold and fresh-copies cannot be combined")
            .with_hint("a file that was just copied is in the page cache"));
    }
    match run.pin.iter().find(|processor| **processor > 1 << 20) {
        Some(_) => Err(at.error("pin", "pin is a list of whole numbers from 0 to 1048576")),
        None => Ok(()),
    }
}

fn check_factors(tables: &[LocatedTable<'_, FactorTable>]) -> Result<()> {
    let mut names = BTreeSet::new();
    for (factor, at) in tables {
        let name = required(at, "name", &factor.name)?;
        let count = factor.levels.len();
        if count < 2 || factor.levels.iter().collect::<BTreeSet<_>>().len() != count {
            let message = format!("the factor {name} needs at least two different levels");
            return Err(at.error("levels", message));
        }
        if let Some(flags) = factor.flags.as_ref().filter(|flags| flags.len() != count) {
            let message = format!("{} flags for {count} levels: give one for each level", flags.len());
            return Err(at.error("flags", message));
        }
        if !names.insert(&factor.name) {
            return Err(at.error("name", format!("two factors {name}")));
        }
    }
    Ok(())
}

/// Settings common to all variants.
struct CommonSettings<'a> {
    build: Option<LocatedTable<'a, BuildTable>>,
    factors: &'a [FactorTable],
    imports_only: bool,
}

fn variants(
    top: &PlanTable<'_>,
    common: &CommonSettings<'_>,
    tables: &[VariantTable],
) -> Result<Vec<PlannedVariant>> {
    check_factors(&common.factors.iter().zip(top.tables("factor")).collect::<Vec<_>>())?;
    let positions = top.tables("variant");
    let variants: Vec<PlannedVariant> = if tables.is_empty() && !common.factors.is_empty() {
        combinations(top, common)?
    } else {
        let one = |(table, at): LocatedTable<'_, VariantTable>| {
            let levels = table.factors.iter().map(|(factor, level)| (factor.as_str(), level.as_str()));
            common.variant(table, &at, levels)
        };
        tables.iter().zip(positions.iter().copied()).map(one).collect::<Result<_>>()?
    };
    // The links of a single variant show how much layouts differ by luck.
    let is_alone = matches!(&variants[..], [only] if only.replicas < LEAST_LINKS || common.imports_only);
    if variants.is_empty() || is_alone || variants.len() > MANY {
        let message = format!("a plan compares two or more variants; this one has {}", variants.len());
        return Err(top.error("variant", message).with_hint(format!(
            "a variant is a table [[variant]], or a combination of [[factor]]s; a single variant needs {LEAST_LINKS} links"
        )));
    }
    let mut names = BTreeSet::new();
    for (index, variant) in variants.iter().enumerate() {
        if !names.insert(&variant.name) || PROBES.iter().any(|(name, _)| *name == variant.name) {
            let at = positions.get(index).unwrap_or(top);
            return Err(at.error("name", format!("the name {} is taken", variant.name)));
        }
    }
    Ok(variants)
}

/// Returns every combination of levels; the first factor's level changes slowest.
fn combinations(top: &PlanTable<'_>, common: &CommonSettings<'_>) -> Result<Vec<PlannedVariant>> {
    if common.build.is_none() {
        return Err(top.error("factor", "a plan with factors needs a [build] that builds each combination"));
    }
    let count: usize = common.factors.iter().map(|factor| factor.levels.len()).product();
    if count > MANY {
        return Err(top.error("factor", format!("{count} combinations are too many")));
    }
    let mut chosen: Vec<Vec<(&str, &str)>> = vec![Vec::new()];
    for factor in common.factors {
        let levels = |before: Vec<_>| {
            let longer = move |level| [&before[..], &[(factor.name.as_str(), level)]].concat();
            factor.levels.iter().map(String::as_str).map(longer)
        };
        chosen = chosen.into_iter().flat_map(levels).collect();
    }
    let one = |levels: Vec<(&str, &str)>| {
        let names: Vec<String> = levels.iter().map(|(factor, level)| format!("{factor}={level}")).collect();
        let table = VariantTable { name: names.join(" "), ..VariantTable::default() };
        common.variant(&table, top, levels.into_iter())
    };
    chosen.into_iter().map(one).collect()
}

impl CommonSettings<'_> {
    fn variant<'l>(
        &self,
        table: &VariantTable,
        at: &PlanTable<'_>,
        levels: impl Iterator<Item = (&'l str, &'l str)>,
    ) -> Result<PlannedVariant> {
        let name = required(at, "name", &table.name)?;
        let mut flags = vec![self.build.map_or("", |(build, _)| &build.flags)];
        let mut factors = Vec::new();
        for (factor, level) in levels {
            flags.push(self.level_flags(at, factor, level)?);
            factors.push(Factor { name: factor.to_owned(), level: level.to_owned() });
        }
        factors.sort();
        flags.push(&table.flags);
        flags.retain(|flags| !flags.is_empty());
        let prebuilt = match (&table.program, &table.programs) {
            (Some(_), Some(_)) => return Err(at.error("programs", "program and programs cannot be combined")),
            (Some(program), None) => std::slice::from_ref(program),
            (None, programs) => programs.as_deref().unwrap_or_default(),
        };
        let source = if prebuilt.is_empty() {
            self.source(table)?
        } else if let Some(key) = ["command", "link", "flags"].into_iter().find(|key| at.has(key)) {
            return Err(at.error(key, format!("{name} is built already; {key} has no effect on it")));
        } else {
            ProgramSource::Prebuilt(prebuilt.to_vec())
        };
        if matches!(source, ProgramSource::None) && !self.imports_only {
            return Err(at
                .error("name", format!("no source for the programs of {name}"))
                .with_hint("program = \"path\" names an existing one; [build] command = ... builds it"));
        }
        let (flags, arguments) = (flags.join(" "), table.arguments.clone());
        Ok(PlannedVariant {
            name,
            factors,
            flags,
            arguments,
            replicas: self.replicas(&source)?,
            source,
            probe: None,
        })
    }

    /// Flags that a level adds. If the plan declares no factors, variants may name any levels.
    fn level_flags(&self, at: &PlanTable<'_>, factor: &str, level: &str) -> Result<&str> {
        let Some(planned) = self.factors.iter().find(|planned| planned.name == factor) else {
            return match self.factors {
                [] => Ok(""),
                _ => Err(at.error("factors", format!("unknown factor {factor}"))),
            };
        };
        match planned.levels.iter().position(|name| name == level) {
            Some(index) => Ok(planned.flags.as_ref().map_or("", |flags| &flags[index])),
            None => Err(at.error("factors", format!("the factor {factor} has no level {level}"))),
        }
    }

    /// Build commands of a variant; its own settings take precedence over those for all.
    fn source(&self, variant: &VariantTable) -> Result<ProgramSource> {
        let build = self.build.filter(|_| !self.imports_only);
        let for_all =
            |of: fn(&BuildTable) -> &Option<CommandLine>| build.and_then(|(table, _)| of(table).clone());
        let command = variant.command.clone().or_else(|| for_all(|build| &build.command));
        let link = variant.link.clone().or_else(|| for_all(|build| &build.link));
        match build {
            _ if command.is_some() || link.is_some() => {
                let folder = build.map(|(build, _)| build.folder.clone()).unwrap_or_default();
                Ok(ProgramSource::Built { command, link, folder })
            }
            None => Ok(ProgramSource::None),
            Some((build, at)) => match &build.spec {
                Some(spec) => Ok(ProgramSource::Spec {
                    spec: spec.clone(),
                    program: required(&at, "program", &build.program)?,
                }),
                None => Err(at.error("command", "[build] needs a command, a link command or a spec")),
            },
        }
    }

    fn replicas(&self, source: &ProgramSource) -> Result<u32> {
        let asked = self.build.and_then(|(build, at)| Some((build.replicas? as u32, at)));
        match (source, asked) {
            (ProgramSource::Prebuilt(programs), _) => Ok(programs.len() as u32),
            (_, None | Some((1, _))) => Ok(1),
            (source, Some((asked, _))) if source.relinks() => Ok(asked),
            (ProgramSource::Built { .. }, Some((_, at))) => Err(at
                .error(
                    "replicas",
                    "all replicas would be the same: the link command has neither {seed} nor {padding_object}",
                )
                .with_hint(
                    "link with {padding_object} first among the objects, or pass {seed} to the linker",
                )),
            (_, Some((_, at))) => Err(at.error("replicas", "only a link command can make replicas")),
        }
    }
}

impl ProgramSource {
    /// True if another link of the same program can differ.
    fn relinks(&self) -> bool {
        let Self::Built { command, link, .. } = self else { return false };
        let linked_by = link.as_ref().or(command.as_ref());
        linked_by.is_some_and(|command| command.mentions("seed") || command.mentions("padding_object"))
    }
}

/// Adds the baseline again: its file and, if it can be relinked, another link.
fn add_probes(variants: &mut Vec<PlannedVariant>, baseline: usize) {
    let of = &variants[baseline];
    let probe = |(name, probe): (&str, Probe), replica| PlannedVariant {
        name: name.to_owned(),
        // A probe is not part of the factorial, so it has no level of any factor.
        factors: Vec::new(),
        source: ProgramSource::Baseline(replica),
        replicas: 1,
        probe: Some(probe),
        ..of.clone()
    };
    let mut probes = vec![probe(PROBES[0], 0)];
    if of.source.relinks() {
        probes.push(probe(PROBES[1], of.replicas));
    }
    variants.extend(probes);
}

fn workloads(top: &PlanTable<'_>, tables: &[WorkloadTable]) -> Result<Vec<PlannedWorkload>> {
    if tables.is_empty() || tables.len() > MANY {
        return Err(top.error("workload", "a plan needs a [[workload]]: the work that is measured"));
    }
    let mut all: Vec<PlannedWorkload> = Vec::new();
    for (table, at) in tables.iter().zip(top.tables("workload")) {
        let workload = workload(table, &at)?;
        if all.iter().any(|other| other.name == workload.name) {
            return Err(at.error("name", format!("two workloads {}", workload.name)));
        }
        all.push(workload);
    }
    Ok(all)
}

/// Keys that belong to one sort of workload.
const KEYS_OF_KINDS: &[(&str, &[&str])] = &[
    ("server", &["ready", "drive", "warm-up", "stop", "stop-limit", "ready-limit"]),
    ("command", &["input"]),
    ("import", &[]),
];

fn workload(table: &WorkloadTable, at: &PlanTable<'_>) -> Result<PlannedWorkload> {
    let name = required(at, "name", &table.name)?;
    let kinds: Vec<&str> = ["command", "server", "import"].into_iter().filter(|key| at.has(key)).collect();
    let kind = match kinds[..] {
        [kind] => kind,
        [] => {
            let message = format!("the workload {name} needs one of command, server and import");
            return Err(at.error("name", message));
        }
        [_, second, ..] => {
            let count = if kinds.len() == 2 { "two" } else { "three" };
            let message = format!(
                "the workload {name} has {count} of command, server and import; it needs exactly one"
            );
            return Err(at.error(second, message));
        }
    };
    for (owner, keys) in KEYS_OF_KINDS.iter().filter(|(owner, _)| *owner != kind) {
        if let Some(key) = keys.iter().find(|key| at.has(key)) {
            return Err(at.error(key, format!("{key} belongs to a workload with {owner}")));
        }
    }
    let kind = match (&table.command, &table.server) {
        (Some(command), _) => WorkloadKind::Command { command: command.clone(), input: table.input.clone() },
        (_, Some(program)) => WorkloadKind::Server(Box::new(server(program, table, at)?)),
        _ => WorkloadKind::Import(table.import.clone()),
    };
    let work = table.work.as_ref().zip(at.tables("work").pop());
    Ok(PlannedWorkload {
        name,
        kind,
        prepare: table.prepare.clone(),
        environment: table.environment.clone(),
        folder: table.folder.clone(),
        work: work.map(|(table, at)| work_counter(table, &at)).transpose()?,
    })
}

fn work_counter(table: &WorkTable, at: &PlanTable<'_>) -> Result<(String, Extraction)> {
    let counter = match (extraction(at, &table.regex, &table.pointer)?, table.count) {
        (Some(counter), None) => counter,
        (None, Some(count)) => Extraction::Known(count),
        (Some(_), Some(_)) => return Err(at.error("count", "count cannot be combined with regex or pointer")),
        (None, None) => {
            let message = "work needs a regex or pointer that finds the number, or a count";
            return Err(at.error("regex", message));
        }
    };
    Ok((table.name.clone().unwrap_or_else(|| "unit of work".to_owned()), counter))
}

fn server(program: &CommandLine, table: &WorkloadTable, at: &PlanTable<'_>) -> Result<ServerPlan> {
    let Some(ready) = table.ready.clone() else {
        return Err(at
            .error("server", "ready is missing; it describes how to find out that the server accepts work")
            .with_hint("for example ready = { port = \"127.0.0.1:5432\" }"));
    };
    let stop = table.stop.clone().unwrap_or_else(|| "TERM".to_owned());
    sediment_process::background::signal(&stop)
        .map_err(|_| at.error("stop", "unknown signal").with_found(stop.as_bytes()))?;
    Ok(ServerPlan {
        server: program.clone(),
        ready,
        ready_limit: table.ready_limit.unwrap_or(60.0),
        warm_up: table.warm_up.clone(),
        client: table
            .drive
            .clone()
            .ok_or_else(|| at.error("drive", "a server needs `drive`, the command that gives it work"))?,
        stop,
        stop_limit: table.stop_limit.unwrap_or(60.0),
    })
}

fn extraction(
    at: &PlanTable<'_>,
    regex: &Option<String>,
    pointer: &Option<String>,
) -> Result<Option<Extraction>> {
    let (key, read) = match (regex, pointer) {
        (Some(_), Some(_)) => return Err(at.error("pointer", "regex and pointer cannot be combined")),
        (Some(regex), None) => ("regex", Extraction::pattern(regex)),
        (None, Some(pointer)) => ("pointer", Extraction::pointer(pointer)),
        (None, None) => return Ok(None),
    };
    read.map(Some).map_err(|error| at.error(key, error.to_string()))
}

fn metric((table, at): (MetricTable, PlanTable<'_>)) -> Result<PlannedMetric> {
    Ok(PlannedMetric {
        name: required(&at, "name", &table.name)?,
        better: table.better,
        unit: table.unit,
        extraction: extraction(&at, &table.regex, &table.pointer)?,
    })
}

fn check_imports(
    top: &PlanTable<'_>,
    workloads: &[PlannedWorkload],
    variants: &[PlannedVariant],
) -> Result<()> {
    for workload in workloads {
        let WorkloadKind::Import(files) = &workload.kind else { continue };
        if let Some(unknown) =
            files.keys().find(|name| !variants.iter().any(|variant| variant.name == **name))
        {
            let message =
                format!("the workload {} imports for {unknown}, which is not a variant", workload.name);
            return Err(top.error("workload", message));
        }
    }
    Ok(())
}
