// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a plan's text to the [`Plan`], or an error that names the line.

use super::reading::{self, Table};
use super::{
    CommandLine, Extraction, Plan, PlannedMetric, PlannedVariant, PlannedWorkload, ReadyPlan, RunPlan,
    ServerPlan, Source, VERSION, WorkloadKind,
};
use crate::data::{Direction, Factor, Probe};
use sediment::error::{Error, Result};
use std::collections::BTreeSet;

/// Most variants, levels, workloads: beyond, a plan is a mistake.
const MANY: usize = 1000;

/// Seconds that nothing here can reasonably exceed.
const LONGEST: f64 = 1e7;

/// Reads a plan.
///
/// # Errors
/// With the line: TOML that is none, a version that is not known, unknown keys (with those that are known), values that make
/// no sense.
pub fn read(text: &str) -> Result<Plan> {
    let document = reading::parse(text)?;
    check_version(text, document.get_ref())?;
    let top = Table::top(text, document.get_ref())?;
    let workloads = workloads(&top)?;
    let imports_only = workloads.iter().all(|w| matches!(w.kind, WorkloadKind::Import(_)));
    let build = top.table("build", "build")?;
    let mut variants = variants(&top, build.as_ref(), imports_only)?;
    let baseline = baseline(&top, &variants)?;
    check_imports(&top, &workloads, &variants)?;
    if top.truth("noise-floor", true)? && !imports_only {
        add_probes(&mut variants, baseline);
    }
    let limit = |key| build.as_ref().map_or(Ok(None), |build| build.number(key, 0.1, LONGEST));
    let section = build.as_ref().map_or(Ok(None), |build| build.text("section"))?;
    Ok(Plan {
        text: text.to_owned(),
        name: top.text("name")?.unwrap_or_default(),
        baseline,
        metrics: metrics(&top)?,
        primary: top.text("primary")?,
        margin: top.share("margin")?.unwrap_or(0.01),
        confidence: top.number("confidence", 0.5, 0.9999)?.unwrap_or(0.95),
        run: run(top.table("run", "run")?.as_ref())?,
        build_time_limit: limit("time-limit")?.unwrap_or(7200.0),
        padding_section: section.unwrap_or_else(|| ".text.sediment_eval_padding".to_owned()),
        variants,
        workloads,
    })
}

/// The version comes first: a newer plan may have keys that are unknown here.
fn check_version(text: &str, entries: &toml::de::DeTable<'_>) -> Result<()> {
    let key = "sediment-eval";
    let at = entries.iter().find(|(name, _)| name.get_ref() == key);
    let Some((name, value)) = at else {
        return Err(Error::at_line(1, "this is no plan: it has no line sediment-eval = 1"));
    };
    let line = 1 + text.as_bytes()[..name.span().start].iter().filter(|b| **b == b'\n').count() as u64;
    match value.get_ref().as_integer().and_then(|number| number.as_str().parse::<u64>().ok()) {
        Some(VERSION) => Ok(()),
        Some(newer) if newer > VERSION => Err(Error::at_line(
            line,
            format!("this plan has version {newer}, and this program reads version {VERSION}"),
        )
        .with_hint("a newer sediment reads it")),
        _ => Err(Error::at_line(line, format!("sediment-eval is the plan's version: {VERSION}"))),
    }
}

fn run(table: Option<&Table<'_>>) -> Result<RunPlan> {
    let whole = |key, least, most, default| match table {
        Some(table) => Ok(table.whole(key, least, most)?.unwrap_or(default)),
        None => Ok::<u64, Error>(default),
    };
    let number = |key, least, most| table.map_or(Ok(None), |table| table.number(key, least, most));
    let texts = |key| table.map_or(Ok(None), |table| table.texts(key));
    let blocks = whole("blocks", 1, 100_000, 40)? as u32;
    let meters = texts("meters")?.unwrap_or_default();
    if let (Some(table), Some(unknown)) = (
        table,
        meters.iter().find(|name| crate::measure::meter(name).is_none_or(|meter| meter.name == "rusage")),
    ) {
        let known: Vec<&str> =
            crate::measure::METERS.iter().map(|meter| meter.name).filter(|name| *name != "rusage").collect();
        return Err(table
            .error("meters", "there is no such meter to run apart")
            .with_found(unknown.as_bytes())
            .with_hint(format!("there are: {}", known.join(", "))));
    }
    let counters = texts("counters")?;
    let unknown = counters
        .iter()
        .flatten()
        .find(|name| !crate::measure::perf_stat::EVENTS.iter().any(|event| event.metric == name.as_str()));
    if let (Some(table), Some(unknown)) = (table, unknown) {
        let known: Vec<&str> = crate::measure::perf_stat::EVENTS.iter().map(|event| event.metric).collect();
        return Err(table
            .error("counters", "there is no such counter")
            .with_found(unknown.as_bytes())
            .with_hint(format!("there are: {}", known.join(", "))));
    }
    Ok(RunPlan {
        blocks,
        pilot: (whole("pilot", 1, 1000, 7)? as u32).min(blocks),
        time: number("time", 0.0, LONGEST)?,
        precision: table.map_or(Ok(None), |table| table.share("precision"))?.unwrap_or(0.005),
        warm_ups: whole("warm-ups", 0, 1000, 1)? as u32,
        seed: table.map_or(Ok(None), |table| table.whole("seed", 0, i64::MAX as u64))?,
        cold: table.map_or(Ok(false), |table| table.truth("cold", false))?,
        pin: table.map_or(Ok(Vec::new()), |table| table.wholes("pin"))?,
        padding: whole("padding", 0, 100_000, 4096)?,
        time_limit: number("time-limit", 0.01, LONGEST)?.unwrap_or(600.0),
        counters,
        meters,
        meter_blocks: whole("meter-blocks", 0, 100_000, 3)? as u32,
    })
}

/// A factor, its levels, and what each adds to the flags.
struct FactorPlan {
    name: String,
    levels: Vec<(String, String)>,
}

fn factors(top: &Table<'_>) -> Result<Vec<FactorPlan>> {
    let mut factors: Vec<FactorPlan> = Vec::new();
    for table in top.tables("factor")? {
        let name = table.required_text("name")?;
        if factors.iter().any(|other| other.name == name) {
            return Err(table.error("name", format!("there are two factors {name}")));
        }
        let levels = table.texts("levels")?.unwrap_or_default();
        let distinct: BTreeSet<&String> = levels.iter().collect();
        if levels.len() < 2 || distinct.len() != levels.len() {
            return Err(
                table.error("levels", format!("the factor {name} needs two or more levels, each once"))
            );
        }
        let flags = table.texts("flags")?.unwrap_or_else(|| vec![String::new(); levels.len()]);
        if flags.len() != levels.len() {
            let message =
                format!("{} flags for {} levels: one for each is needed", flags.len(), levels.len());
            return Err(table.error("flags", message));
        }
        factors.push(FactorPlan { name, levels: levels.into_iter().zip(flags).collect() });
    }
    Ok(factors)
}

fn variants(top: &Table<'_>, build: Option<&Table<'_>>, imports_only: bool) -> Result<Vec<PlannedVariant>> {
    let factors = factors(top)?;
    let tables = top.tables("variant")?;
    let variants = if tables.is_empty() && !factors.is_empty() {
        combinations(top, build, &factors)?
    } else {
        tables.iter().map(|table| variant(table, build, &factors, imports_only)).collect::<Result<_>>()?
    };
    if variants.len() < 2 || variants.len() > MANY {
        let message = format!("a plan compares two or more variants; this one has {}", variants.len());
        return Err(top
            .error("variant", message)
            .with_hint("each is a table [[variant]], or a combination of [[factor]]s"));
    }
    let mut names = BTreeSet::new();
    for (index, variant) in variants.iter().enumerate() {
        if !names.insert(&variant.name) || PROBES.iter().any(|(name, _)| *name == variant.name) {
            let at = tables.get(index).unwrap_or(top);
            return Err(at.error("name", format!("the name {} is taken", variant.name)));
        }
    }
    Ok(variants)
}

/// Names of the baseline once more.
const PROBES: [(&str, Probe); 2] = [("A/A", Probe::SameFile), ("A/A′", Probe::Relinked)];

/// Every combination of levels, the first factor's level changing slowest.
fn combinations(
    top: &Table<'_>,
    build: Option<&Table<'_>>,
    factors: &[FactorPlan],
) -> Result<Vec<PlannedVariant>> {
    let Some(build) = build else {
        return Err(top.error("factor", "factors alone need a [build] that says how a combination is built"));
    };
    let count: usize = factors.iter().map(|factor| factor.levels.len()).product();
    if count > MANY {
        return Err(top.error("factor", format!("{count} combinations are too many")));
    }
    let mut chosen: Vec<Vec<usize>> = vec![Vec::new()];
    for factor in factors {
        chosen = chosen
            .iter()
            .flat_map(|before| {
                (0..factor.levels.len())
                    .map(|level| before.iter().copied().chain([level]).collect::<Vec<_>>())
            })
            .collect();
    }
    chosen
        .iter()
        .map(|levels| {
            let picked: Vec<(&FactorPlan, &(String, String))> =
                factors.iter().zip(levels).map(|(factor, level)| (factor, &factor.levels[*level])).collect();
            let name: Vec<String> =
                picked.iter().map(|(factor, (level, _))| format!("{}={level}", factor.name)).collect();
            let source = source(build, None, false)?;
            Ok(PlannedVariant {
                name: name.join(" "),
                factors: sorted(
                    picked.iter().map(|(factor, (level, _))| (factor.name.clone(), level.clone())),
                ),
                flags: flags(Some(build), picked.iter().map(|(_, (_, flags))| flags.clone()), None)?,
                arguments: Vec::new(),
                replicas: replicas(Some(build), &source)?,
                source,
                probe: None,
            })
        })
        .collect()
}

fn sorted(levels: impl Iterator<Item = (String, String)>) -> Vec<Factor> {
    let mut all: Vec<Factor> = levels.map(|(name, level)| Factor { name, level }).collect();
    all.sort();
    all
}

fn flags(
    build: Option<&Table<'_>>,
    levels: impl Iterator<Item = String>,
    own: Option<String>,
) -> Result<String> {
    let common = build.map_or(Ok(None), |build| build.text("flags"))?;
    let all: Vec<String> =
        common.into_iter().chain(levels).chain(own).filter(|flags| !flags.is_empty()).collect();
    Ok(all.join(" "))
}

fn variant(
    table: &Table<'_>,
    build: Option<&Table<'_>>,
    factors: &[FactorPlan],
    imports_only: bool,
) -> Result<PlannedVariant> {
    let name = table.required_text("name")?;
    let mut picked = Vec::new();
    let mut level_flags = Vec::new();
    for (factor, level) in table.named_texts("factors")? {
        if let Some(planned) = factors.iter().find(|planned| planned.name == factor) {
            let Some((_, flags)) = planned.levels.iter().find(|(name, _)| *name == level) else {
                return Err(table.error("factors", format!("the factor {factor} has no level {level}")));
            };
            level_flags.push(flags.clone());
        } else if !factors.is_empty() {
            return Err(table.error("factors", format!("there is no factor {factor}")));
        }
        picked.push((factor, level));
    }
    let prebuilt = match (table.text("program")?, table.texts("programs")?) {
        (Some(_), Some(_)) => return Err(table.error("programs", "program and programs exclude each other")),
        (Some(program), None) => vec![program],
        (None, programs) => programs.unwrap_or_default(),
    };
    let source = if !prebuilt.is_empty() {
        if let Some(key) = ["command", "link", "flags"].into_iter().find(|key| table.has(key)) {
            return Err(table.error(key, format!("{name} is built already; {key} has no effect on it")));
        }
        Source::Prebuilt(prebuilt)
    } else {
        source(build.unwrap_or(table), Some(table), imports_only || build.is_none())?
    };
    if matches!(source, Source::None) && !imports_only {
        return Err(table
            .error("name", format!("nothing says where the programs of {name} come from"))
            .with_hint(
                "program = \"path\" names one that is there; [build] command = … says how to make it",
            ));
    }
    Ok(PlannedVariant {
        name,
        factors: sorted(picked.into_iter()),
        flags: flags(build, level_flags.into_iter(), table.text("flags")?)?,
        arguments: table.texts("arguments")?.unwrap_or_default(),
        replicas: replicas(build, &source)?,
        source,
        probe: None,
    })
}

/// How programs are built; what the variant says comes before what is said for all.
fn source(build: &Table<'_>, variant: Option<&Table<'_>>, may_be_none: bool) -> Result<Source> {
    let own = |key| variant.map_or(Ok(None), |table| table.command(key));
    // Without [build], the variant's own table stands for it, which lacks the keys of build alone.
    let for_all = |key| if variant.is_some_and(|_| may_be_none) { Ok(None) } else { build.command(key) };
    let command = own("command")?.map_or_else(|| for_all("command"), |command| Ok(Some(command)))?;
    let link = own("link")?.map_or_else(|| for_all("link"), |link| Ok(Some(link)))?;
    if command.is_some() || link.is_some() {
        let folder = if may_be_none { None } else { build.text("folder")? };
        return Ok(Source::Built { command, link, folder: folder.unwrap_or_default() });
    }
    if may_be_none {
        return Ok(Source::None);
    }
    match build.text("spec")? {
        Some(spec) => Ok(Source::Spec { spec, program: build.required_text("program")? }),
        None => Err(build.error("command", "[build] needs a command, a link command or a spec")),
    }
}

fn replicas(build: Option<&Table<'_>>, source: &Source) -> Result<u32> {
    let asked = match build {
        Some(build) => build.whole("replicas", 1, 1000)?.unwrap_or(1) as u32,
        None => 1,
    };
    let differs = |command: &CommandLine| command.mentions("seed") || command.mentions("padding_object");
    match (source, build) {
        (Source::Prebuilt(programs), _) => Ok(programs.len() as u32),
        (Source::Built { command, link, .. }, Some(build)) if asked > 1 => {
            if link.as_ref().or(command.as_ref()).is_some_and(differs) {
                Ok(asked)
            } else {
                Err(build
                    .error(
                        "replicas",
                        "replicas differ in luck only where the link has {seed} or {padding_object} in it",
                    )
                    .with_hint(
                        "link with {padding_object} first among the objects, or hand {seed} to the linker",
                    ))
            }
        }
        (Source::Built { .. }, _) => Ok(asked),
        (_, Some(build)) if asked > 1 => {
            Err(build.error("replicas", "only a link command can make replicas"))
        }
        _ => Ok(1),
    }
}

fn baseline(top: &Table<'_>, variants: &[PlannedVariant]) -> Result<usize> {
    let Some(name) = top.text("baseline")? else { return Ok(0) };
    variants.iter().position(|variant| variant.name == name).ok_or_else(|| {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        top.error("baseline", format!("there is no variant {name}"))
            .with_hint(format!("there are: {}", names.join(", ")))
    })
}

/// The baseline once more: its file, and where it can be relinked, another link of it.
fn add_probes(variants: &mut Vec<PlannedVariant>, baseline: usize) {
    let of = &variants[baseline];
    let relinks = match &of.source {
        Source::Built { command, link, .. } => link
            .as_ref()
            .or(command.as_ref())
            .is_some_and(|command| command.mentions("seed") || command.mentions("padding_object")),
        _ => false,
    };
    let probe = |(name, probe): (&str, Probe), replica| PlannedVariant {
        name: name.to_owned(),
        // Not a level of any factor: a probe is not part of the factorial.
        factors: Vec::new(),
        flags: of.flags.clone(),
        arguments: of.arguments.clone(),
        source: Source::Baseline(replica),
        replicas: 1,
        probe: Some(probe),
    };
    let mut probes = vec![probe(PROBES[0], 0)];
    if relinks {
        probes.push(probe(PROBES[1], of.replicas));
    }
    variants.extend(probes);
}

fn workloads(top: &Table<'_>) -> Result<Vec<PlannedWorkload>> {
    let tables = top.tables("workload")?;
    if tables.is_empty() || tables.len() > MANY {
        return Err(top.error("workload", "a plan needs a [[workload]]: what the variants are made to do"));
    }
    let mut all: Vec<PlannedWorkload> = Vec::new();
    for table in tables {
        let workload = workload(&table)?;
        if all.iter().any(|other| other.name == workload.name) {
            return Err(table.error("name", format!("there are two workloads {}", workload.name)));
        }
        all.push(workload);
    }
    Ok(all)
}

fn workload(table: &Table<'_>) -> Result<PlannedWorkload> {
    let name = table.required_text("name")?;
    let kinds: Vec<&str> = ["command", "server", "import"].into_iter().filter(|key| table.has(key)).collect();
    let kind = match kinds[..] {
        [kind] => kind,
        [] => {
            let message = format!("the workload {name} needs one of command, server and import");
            return Err(table.error("name", message));
        }
        [_, second, ..] => {
            let count = if kinds.len() == 2 { "two" } else { "three" };
            let message =
                format!("the workload {name} has {count} of command, server and import, and needs one");
            return Err(table.error(second, message));
        }
    };
    for (key, belongs_to) in [
        ("ready", "server"),
        ("drive", "server"),
        ("warm-up", "server"),
        ("stop", "server"),
        ("stop-limit", "server"),
        ("ready-limit", "server"),
        ("input", "command"),
    ] {
        if table.has(key) && kind != belongs_to {
            return Err(table.error(key, format!("{key} belongs to a workload with {belongs_to}")));
        }
    }
    let kind = match kind {
        "command" => WorkloadKind::Command {
            command: required_command(table, "command")?,
            input: table.text("input")?,
        },
        "server" => WorkloadKind::Server(Box::new(server(table)?)),
        _ => WorkloadKind::Import(table.named_lists("import")?.into_iter().collect()),
    };
    let work = match table.table("work", "workload.work")? {
        Some(work) => {
            let known = work.positive("count")?.map(Extraction::Known);
            let counter = match (extraction(&work)?, known) {
                (Some(counter), None) | (None, Some(counter)) => counter,
                (Some(_), Some(_)) => {
                    return Err(work.error("count", "count excludes regex and pointer"));
                }
                (None, None) => {
                    let message = "work needs a regex or a pointer that finds the number, or its count";
                    return Err(work.error("regex", message));
                }
            };
            Some((work.text("name")?.unwrap_or_else(|| "unit of work".to_owned()), counter))
        }
        None => None,
    };
    Ok(PlannedWorkload {
        name,
        kind,
        prepare: table.command("prepare")?,
        environment: table.named_texts("environment")?,
        folder: table.text("folder")?.unwrap_or_default(),
        work,
    })
}

fn required_command(table: &Table<'_>, key: &str) -> Result<CommandLine> {
    table.command(key)?.ok_or_else(|| table.error(key, format!("a server needs {key}")))
}

fn server(table: &Table<'_>) -> Result<ServerPlan> {
    let Some(ready) = table.table("ready", "workload.ready")? else {
        return Err(table
            .error("server", "ready is missing: how to know that the server takes work")
            .with_hint("such as ready = { port = \"127.0.0.1:5432\" }"));
    };
    let ready =
        match (ready.command("command")?, ready.text("port")?, ready.text("socket")?, ready.text("log")?) {
            (Some(command), None, None, None) => ReadyPlan::Command(command),
            (None, Some(port), None, None) => ReadyPlan::Port(port),
            (None, None, Some(socket), None) => ReadyPlan::Socket(socket),
            (None, None, None, Some(log)) if !log.is_empty() => ReadyPlan::Log(log),
            _ => return Err(table.error("ready", "ready is one of command, port, socket and log")),
        };
    let stop = table.text("stop")?.unwrap_or_else(|| "TERM".to_owned());
    sediment_process::background::signal(&stop)
        .map_err(|_| table.error("stop", "there is no such signal").with_found(stop.as_bytes()))?;
    Ok(ServerPlan {
        server: required_command(table, "server")?,
        ready,
        ready_limit: table.number("ready-limit", 0.01, LONGEST)?.unwrap_or(60.0),
        warm_up: table.command("warm-up")?,
        drive: required_command(table, "drive")?,
        stop,
        stop_limit: table.number("stop-limit", 0.01, LONGEST)?.unwrap_or(60.0),
    })
}

fn extraction(table: &Table<'_>) -> Result<Option<Extraction>> {
    let wrong = |key: &'static str| move |error: Error| table.error(key, error.to_string());
    match (table.text("regex")?, table.text("pointer")?) {
        (Some(_), Some(_)) => Err(table.error("pointer", "regex and pointer exclude each other")),
        (Some(regex), None) => Extraction::pattern(&regex).map(Some).map_err(wrong("regex")),
        (None, Some(pointer)) => Extraction::pointer(&pointer).map(Some).map_err(wrong("pointer")),
        (None, None) => Ok(None),
    }
}

fn metrics(top: &Table<'_>) -> Result<Vec<PlannedMetric>> {
    top.tables("metric")?
        .iter()
        .map(|table| {
            let better = match table.text("better")?.as_deref() {
                None => None,
                Some("lower") => Some(Direction::LowerIsBetter),
                Some("higher") => Some(Direction::HigherIsBetter),
                Some(other) => {
                    return Err(table
                        .error("better", "better is lower or higher")
                        .with_found(other.as_bytes()));
                }
            };
            Ok(PlannedMetric {
                name: table.required_text("name")?,
                better,
                unit: table.text("unit")?,
                extraction: extraction(table)?,
            })
        })
        .collect()
}

fn check_imports(top: &Table<'_>, workloads: &[PlannedWorkload], variants: &[PlannedVariant]) -> Result<()> {
    for workload in workloads {
        let WorkloadKind::Import(files) = &workload.kind else { continue };
        if let Some(unknown) =
            files.keys().find(|name| !variants.iter().any(|variant| variant.name == **name))
        {
            let message =
                format!("the workload {} imports for {unknown}, which is no variant", workload.name);
            return Err(top.error("workload", message));
        }
    }
    Ok(())
}
