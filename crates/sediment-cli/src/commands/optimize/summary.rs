// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of the command: prints the results, as text or JSON, and the lines to add to the build; writes a page for
//! each ordered file with its layout before and after.

use super::OptimizeJob;
use super::entries;
use super::links::{self, LinkedOutput};
use super::measure::SHORTENED;
use super::recipe::Recipe;
use super::result::LaidOut;
use super::ship::{LevelChoice, LevelName, TriedLevel};
use super::verdict::{LevelVerdict, Misses};
use crate::change;
use crate::files;
use sediment_core::plural::{counted, grouped};
use sediment_core::profile::Profile;
use sediment_core::{Error, ErrorCode, Result};
use sediment_process::Command;
use sediment_process::command::run;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit for a report or a verification.
const LIMIT: Duration = Duration::from_secs(3600);
/// Largest size of a verification's JSON, in bytes.
const LONGEST: usize = 1 << 28;
/// Number of outputs that the text names one by one.
const NAMED: usize = 3;

/// Results of a run.
pub(super) struct OptimizeSummary {
    rows: Vec<OrderedFile>,
    linked: usize,
    trainings: usize,
    seconds: [f64; 2],
    /// The profile of the order.
    profile: PathBuf,
    functions: usize,
    /// Folder to which printed paths are relative.
    here: PathBuf,
    /// File of `--keep-profile`.
    kept: Option<PathBuf>,
    /// True if the recorded work was also measured, which flatters an order.
    measures_recorded: bool,
    /// The levels; the order is first.
    levels: Vec<TriedLevel>,
    choice: LevelChoice,
    laid_out: LaidOut,
}

/// An ordered file.
struct OrderedFile {
    name: String,
    /// The shipped file, and the file of the first build, in the folders for users.
    result: Option<PathBuf>,
    before: PathBuf,
    /// The files shown on the page.
    sides: [PathBuf; 2],
    /// Page with its layout before and after.
    report: Option<PathBuf>,
    /// Results of verification, before and after.
    verified: [Value; 2],
    /// Why it was not ordered.
    why: Option<String>,
    /// True if no order is better.
    is_best_as_linked: bool,
}

impl OptimizeSummary {
    /// Verifies the outputs, and writes their pages.
    pub(super) fn new(
        job: &OptimizeJob<'_>,
        outputs: &[LinkedOutput],
        profile: &Profile,
        levels: &[TriedLevel],
        choice: &LevelChoice,
        laid_out: LaidOut,
    ) -> Result<Self> {
        let log = links::read(&job.state.path(entries::LINKS_AFTER));
        let profile_path = job.state.path(entries::PROFILES).join("profile.gv");
        let mut rows = Vec::new();
        for (index, output) in outputs.iter().enumerate() {
            let place = |side: &str| job.state.path(side).join(index.to_string()).join(output.name());
            let [before, after] = [place(entries::BEFORE), place(entries::AFTER)];
            let link = links::of_output(&log, output);
            let why = links::why_not_ordered(link);
            let order = link.and_then(|link| link["order"].as_str()).map(PathBuf::from);
            let verified = match (&order, &why) {
                (Some(order), None) => {
                    [verify(&before, order, &profile_path)?, verify(&after, order, &profile_path)?]
                }
                _ => [Value::Null, Value::Null],
            };
            rows.push(OrderedFile {
                name: files::base_name(output.known_as()),
                result: laid_out.shipped.get(index).cloned(),
                before: laid_out.before.get(index).cloned().unwrap_or_default(),
                sides: [before, after],
                report: None,
                verified,
                why,
                is_best_as_linked: links::is_best_as_linked(link),
            });
        }
        // The heaviest come first.
        rows.sort_by_key(|row| std::cmp::Reverse(number(&row.verified[1]["weight"])));
        let mut summary = Self {
            rows,
            linked: links::outputs(&job.state.path(entries::LINKS_BEFORE), &job.tree, &job.work()).len(),
            trainings: job.arguments.trainings().count(),
            seconds: ["build", "order"].map(|step| job.state.fact(step).as_f64().unwrap_or(0.0)),
            profile: profile_path,
            functions: profile.function_count(),
            here: job.original.clone(),
            kept: job.arguments.keep_profile.clone(),
            measures_recorded: job.arguments.measure.is_empty(),
            levels: levels.to_vec(),
            choice: choice.clone(),
            laid_out,
        };
        let notes = summary.lines();
        let (verdict, why) = summary.verdict();
        // Without a measurement, the forecast says more.
        let verdict =
            (verdict != LevelVerdict::Unknown).then(|| format!("By sediment optimize: {verdict}: {why}."));
        let mut names = BTreeSet::new();
        for (index, row) in summary.rows.iter_mut().enumerate().filter(|(_, row)| row.why.is_none()) {
            let name = sediment_core::escape::file_name(&row.name).unwrap_or_else(|| "output".to_owned());
            let name = if names.contains(&name) { format!("{name}-{index}") } else { name };
            row.report = page(job, row, &name, &notes, verdict.as_deref(), &summary.profile);
            names.insert(name);
        }
        Ok(summary)
    }

    /// The figures, for programs.
    pub(super) fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "name": row.name, "result": row.result, "before": row.before, "report": row.report,
                    "not_ordered": row.why,
                    "weight_placed_percent": row.verified[1]["weight_placed_percent"],
                    "hot_pages_before": row.verified[0]["hot_pages"],
                    "hot_pages_after": row.verified[1]["hot_pages"],
                    "hot_pages_fewest": row.verified[1]["ideal_pages"],
                })
            })
            .collect();
        let (verdict, why) = self.verdict();
        json!({
            "schema": 3, "outputs": rows, "measured": self.measured(), "profile": self.shown_profile(),
            "verdict": { "code": verdict.code(), "why": why },
            "levels": self.levels.iter().map(TriedLevel::json).collect::<Vec<_>>(), "ship": self.choice.json(),
            "recipe": self.laid_out.recipe.as_ref().map(Recipe::json),
            "build_seconds": self.seconds[0], "second_build_seconds": self.seconds[1],
        })
    }

    /// Rows of the measured commands, for the order compared with the first build.
    fn measured(&self) -> &[Value] {
        self.levels.first().map_or(&[], |order| &order.rows)
    }

    /// Returns the profile of the shipped level, otherwise the profile of the order.
    fn shown_profile(&self) -> &Path {
        self.laid_out.profile.as_ref().unwrap_or(&self.profile)
    }

    /// The whole text for people: the lines, and the recipe of the shipped level.
    pub(super) fn text(&self) -> String {
        let mut text = self.lines();
        if let Some(recipe) = &self.laid_out.recipe {
            let _ = write!(text, "{:<11}{}", "recipe", recipe.text());
        }
        text
    }

    /// Writes the README of the working folder, which explains its contents.
    pub(super) fn write_readme(&self, job: &OptimizeJob<'_>) -> Result<()> {
        let mut text = String::from("The working folder of `sediment optimize`. The last run:\n\n");
        text += &self.text();
        text += "\nresult/       the shipped files, and the profile that their build needs; missing if nothing is shipped\n\
                 levels/       the files of the first build (before), and of each other level, with its profile\n\
                 report-*.html layouts before and after\n\
                 tree/         the copy in which everything was built\n\n\
                 Everything else belongs to sediment. `sediment optimize --undo` removes the folder.\n";
        files::write_owned(&job.state.path(entries::README), text.as_bytes())
    }

    /// The figures as text: first the decision, then its evidence.
    fn lines(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<11}{value}");
        };
        let (verdict, why) = self.verdict();
        line("verdict", format!("{verdict}: {why}"));
        line("shipped", self.shipped());
        for measured in self.measured().iter().take(NAMED) {
            line("CPU time", cpu_time(measured));
            let disturbances = measured["cpu_time"]["disturbances"].as_array();
            for disturbance in disturbances.into_iter().flatten().filter_map(Value::as_str) {
                line("", format!("disturbed: {disturbance}"));
            }
            if let Some(why) = measured["not_simulated"].as_str() {
                line("", format!("misses not simulated: {why}"));
            }
        }
        for Misses { name, before, after } in self.levels.first().map(TriedLevel::misses).unwrap_or_default()
        {
            let change = change(before as f64, after as f64);
            let is_short = self.measured().iter().any(|row| row[SHORTENED].is_number());
            let of = if is_short { "simulated for the first 10^9 instructions" } else { "simulated" };
            line(name, format!("{} -> {} misses ({change}), {of}", grouped(before), grouped(after)));
        }
        // Levels that are not built for the same reason share a line.
        let same =
            |one: &TriedLevel, other: &TriedLevel| one.why_not.is_some() && one.why_not == other.why_not;
        let further = self.levels.get(1..).unwrap_or_default();
        for alike in further.chunk_by(same) {
            let names: Vec<&str> = alike.iter().map(|level| level.name.text()).collect();
            line("level", format!("{:<8} {}", names.join(", "), alike[0].in_words()));
        }
        for row in self.rows.iter().take(NAMED) {
            line("ordered", row.in_words());
        }
        if let Some(more) = self.rows.len().checked_sub(NAMED).filter(|more| *more > 0) {
            line("", format!("and {more} more (--json lists all)"));
        }
        let [first, second] = self.seconds;
        let linked = counted(self.linked as u64, "linked file");
        line("built", format!("{linked} in {first:.1} s; linked again in order in {second:.1} s"));
        let trainings = counted(self.trainings as u64, "training command");
        let functions = counted(grouped(self.functions as u128), "function");
        line("recorded", format!("{trainings}; {functions} executed"));
        if let Some(report) = self.rows.first().and_then(|row| row.report.as_ref()) {
            line("report", self.shown(report));
        }
        let others = self.laid_out.others.iter().map(|(_, folder)| self.shown(folder));
        line("others", others.collect::<Vec<_>>().join(" "));
        line("profile", self.kept_profile());
        text
    }

    /// Names the shipped files, or says why there are none.
    fn shipped(&self) -> String {
        let Some(level) = self.choice.level else {
            let is_any_built = self.levels.iter().any(TriedLevel::is_built);
            let anyway = if is_any_built { " (--ship LEVEL ships one anyway)" } else { "" };
            return format!("nothing: {}{anyway}", self.choice.why());
        };
        let mut files: Vec<String> = self
            .rows
            .iter()
            .filter_map(|row| row.result.as_ref())
            .take(NAMED)
            .map(|path| self.shown(path))
            .collect();
        if self.rows.len() > NAMED {
            files.push(format!("and {} more", self.rows.len() - NAMED));
        }
        format!("level {}: {}", level.text(), files.join(", "))
    }

    /// Says where the profile is, and what happened with `--keep-profile`.
    fn kept_profile(&self) -> String {
        let profile = self.shown(self.shown_profile());
        match (&self.kept, self.choice.level) {
            (None, Some(_)) => format!("{profile} (keep it: --keep-profile FILE)"),
            (Some(_), None) => format!("{profile} (for the order; not kept, because nothing is shipped)"),
            (None, None) => format!("{profile} (for the order)"),
            (Some(kept), Some(_)) => files::display(kept),
        }
    }

    /// A path relative to the folder in which the command was started.
    fn shown(&self, path: &Path) -> String {
        files::display(path.strip_prefix(&self.here).unwrap_or(path))
    }

    /// Returns the verdict on the shipped level; without one, on the level about which least is known.
    fn verdict(&self) -> (LevelVerdict, String) {
        if self.rows.iter().all(|row| row.is_best_as_linked) {
            return (LevelVerdict::Nothing, "the recorded starts show no better order".to_owned());
        }
        let pages = [0, 1].map(|side: usize| {
            self.rows.iter().filter_map(|row| row.verified[side]["hot_pages"].as_u64()).sum::<u64>()
        });
        let verdict = |level: &TriedLevel| {
            let is_order = level.name == LevelName::Order;
            let (verdict, why) = level.verdict(if is_order { pages } else { [0, 0] });
            (verdict, if is_order { why } else { format!("level {}: {why}", level.name.text()) })
        };
        let measured: Vec<&TriedLevel> = self.levels.iter().filter(|level| !level.rows.is_empty()).collect();
        let shipped = measured.iter().find(|level| self.choice.level == Some(level.name));
        if let Some((verdict, why)) = shipped.map(|level| verdict(level)) {
            if verdict == LevelVerdict::Gain && self.measures_recorded {
                return (
                    verdict,
                    format!("{why}; measured with the recorded work (--measure COMMAND measures other work)"),
                );
            }
            return (verdict, why);
        }
        let verdicts: Vec<(LevelVerdict, String)> = measured.into_iter().map(verdict).collect();
        let first = [
            LevelVerdict::Unknown,
            LevelVerdict::Gain,
            LevelVerdict::Mixed,
            LevelVerdict::Nothing,
            LevelVerdict::Loss,
        ]
        .into_iter()
        .find_map(|wanted| verdicts.iter().find(|(verdict, _)| *verdict == wanted));
        first.cloned().unwrap_or((LevelVerdict::Unknown, "nothing was measured".to_owned()))
    }
}

impl OrderedFile {
    fn in_words(&self) -> String {
        if let Some(why) = &self.why {
            return format!("{}: not ordered: {why}", self.name);
        }
        let [before, after] = &self.verified;
        format!(
            "{}: {:.2} % of the weight placed; executed functions on {}, before {} (fewest {})",
            self.name,
            after["weight_placed_percent"].as_f64().unwrap_or(0.0),
            counted(&after["hot_pages"], "page"),
            before["hot_pages"],
            after["ideal_pages"],
        )
    }
}

fn cpu_time(measured: &Value) -> String {
    let cpu = &measured["cpu_time"];
    let command: String = measured["command"].as_str().unwrap_or_default().chars().take(40).collect();
    let said = cpu["in_words"].as_str().or(cpu["not_judged"].as_str()).unwrap_or("not measured");
    match (cpu["rounds"].as_u64(), cpu["layouts"].as_u64()) {
        (Some(rounds), Some(layouts)) => {
            let rounds = counted(rounds, "round");
            format!("{said} ({rounds} of {layouts} layouts): {command}")
        }
        _ => format!("{said}: {command}"),
    }
}

fn number(value: &Value) -> u128 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A change in per cent.
fn change(before: f64, after: f64) -> String {
    if before > 0.0 { change::in_percent(after / before, 1) } else { "none".to_owned() }
}

/// Makes a command of sediment itself.
fn own_command(words: &[&Path]) -> Result<Command> {
    let arguments = words.iter().map(|word| word.as_os_str().to_owned());
    Ok(Command::new(files::own_program()?, "/", LIMIT).with_arguments(arguments))
}

fn verify(file: &Path, order: &Path, profile: &Path) -> Result<Value> {
    let word = Path::new;
    let command = own_command(&[
        word("verify"),
        file,
        word("--order"),
        order,
        word("--profile"),
        profile,
        word("--json"),
        word("--min-coverage"),
        word("0"),
    ])?;
    let ended = run(&command, LONGEST)?.successful(&command)?;
    serde_json::from_slice(&ended.output)
        .map_err(|error| Error::new(ErrorCode::Internal, format!("verify printed no JSON: {error}")))
}

/// Writes the page of an output, linked below the lines of the summary. If this is impossible, a note says why.
fn page(
    job: &OptimizeJob<'_>,
    row: &OrderedFile,
    name: &str,
    notes: &str,
    verdict: Option<&str>,
    profile: &Path,
) -> Option<PathBuf> {
    let path = job.state.path(&format!("report-{name}.html"));
    let word = Path::new;
    let mut words = vec![
        word("report"),
        profile,
        word("--binary"),
        &row.sides[0],
        word("--after"),
        &row.sides[1],
        word("-o"),
        &path,
    ];
    if let Some(verdict) = verdict {
        words.extend([word("--verdict"), word(verdict)]);
    }
    for note in notes.lines() {
        words.extend([word("--note"), word(note)]);
    }
    let done = own_command(&words).and_then(|command| run(&command, 0)?.successful(&command));
    if let Err(error) = &done {
        job.ui.note(&format!("no report of {name}: {error}"));
    }
    done.is_ok().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: usize, is_best_as_linked: bool) -> OrderedFile {
        let verified =
            |pages: u64| json!({ "weight_placed_percent": 99.5, "hot_pages": pages, "ideal_pages": 1 });
        let why = is_best_as_linked.then(|| "the linker's own layout starts best".to_owned());
        OrderedFile {
            name: format!("out{number}"),
            result: Some(format!("/here/.sediment/result/out{number}").into()),
            before: format!("/here/.sediment/levels/before/out{number}").into(),
            sides: [PathBuf::new(), PathBuf::new()],
            report: None,
            verified: if why.is_some() { [Value::Null, Value::Null] } else { [verified(9), verified(2)] },
            why,
            is_best_as_linked,
        }
    }

    fn summary(rows: Vec<OrderedFile>, measured: Vec<Value>) -> OptimizeSummary {
        let trainings = measured.len();
        let order =
            TriedLevel { why_not: None, rows: measured, ..TriedLevel::not(LevelName::Order, String::new()) };
        let levels = vec![order];
        let choice = crate::commands::optimize::ship::choose(&levels, None);
        OptimizeSummary {
            linked: rows.len(),
            rows,
            trainings,
            seconds: [1.0, 2.0],
            profile: "/here/.sediment/profiles/profile.gv".into(),
            functions: 12,
            here: "/here".into(),
            kept: None,
            measures_recorded: false,
            levels,
            choice,
            laid_out: LaidOut {
                shipped: Vec::new(),
                others: vec![("before", "/here/.sediment/levels/before".into())],
                before: Vec::new(),
                profile: None,
                recipe: None,
            },
        }
    }

    fn measured(number: usize, is_simulated: bool) -> Value {
        let cpu = json!({ "before_seconds": 1.0, "after_seconds": 0.9, "rounds": 5, "layouts": 5, "answer": "saves", "in_words": "saves 10.0 %" });
        let mut row = json!({ "command": format!("run{number}"), "cpu_time": cpu });
        if is_simulated {
            row["simulated"] = json!({ "itlb": { "before": 1_000_000, "after": 100_000 }, "l1i": { "before": 1_000_000, "after": 900_000 } });
        } else {
            row["not_simulated"] = json!("no-valgrind");
            row["cpu_time"] = json!({ "not_judged": "clocks jumped" });
        }
        row
    }

    fn named(text: &str, name: &str) -> usize {
        (0..100).filter(|number| text.contains(&format!("{name}{number}"))).count()
    }

    #[test]
    fn one_output_makes_ten_lines_and_many_make_few_more() {
        let one = summary(vec![row(0, false)], vec![measured(0, true)]);
        assert_eq!(one.text().lines().count(), 10, "{}", one.text());
        assert_eq!(one.verdict().0, LevelVerdict::Gain);
        let many = summary(
            (0..20).map(|number| row(number, false)).collect(),
            (0..20).map(|number| measured(number, true)).collect(),
        );
        let text = many.text();
        assert_eq!(
            (named(&text, "out"), named(&text, "run"), text.lines().count()),
            (NAMED, NAMED, 15),
            "{text}"
        );
        assert!(text.contains("and 17 more"), "{text}");
        assert_eq!(many.json()["outputs"].as_array().map(Vec::len), Some(20));
    }

    #[test]
    fn an_open_verdict_says_why() {
        let open = summary(vec![row(0, false)], vec![measured(0, false)]);
        assert_eq!(open.verdict().0, LevelVerdict::Unknown);
        let text = open.text();
        assert!(text.contains("no-valgrind"), "{text}");
        assert!(text.contains(&format!("{}: {}", open.verdict().0, open.verdict().1)), "{text}");
        let best = summary(vec![row(0, true)], vec![measured(0, false)]);
        assert_eq!(best.verdict().0, LevelVerdict::Nothing);
        assert_eq!(best.json()["verdict"]["code"], "nothing-to-gain");
    }
}
