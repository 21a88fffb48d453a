// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every key of a plan, in one table: the reader knows no other, and docs/evaluation.md shows the same ones.

/// One key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The table that it stands in, as a plan writes it; empty at the top.
    pub table: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What its value is.
    pub value: &'static str,
    /// What holds without it.
    pub default: &'static str,
    /// What it says.
    pub summary: &'static str,
}

const fn key(
    table: &'static str,
    name: &'static str,
    value: &'static str,
    default: &'static str,
    summary: &'static str,
) -> Key {
    Key { table, name, value, default, summary }
}

/// The keys, by table.
pub const KEYS: &[Key] = &[
    key("", "sediment-eval", "number", "required", "version of this format: 1"),
    key("", "name", "text", "none", "a title for the report"),
    key("", "baseline", "text", "the first variant", "the variant that the others are compared with"),
    key("", "primary", "text", "see below", "the metric that decides; the others are exploratory"),
    key("", "margin", "number", "0.01", "relative difference below which builds count as equivalent"),
    key("", "confidence", "number", "0.95", "confidence of intervals"),
    key(
        "",
        "noise-floor",
        "true or false",
        "true",
        "run the baseline's file again (A/A), and relinked where it can be (A/A′)",
    ),
    key("run", "blocks", "number", "40", "most blocks"),
    key("run", "pilot", "number", "7", "least blocks"),
    key("run", "time", "seconds", "no limit", "no block begins after this time"),
    key(
        "run",
        "precision",
        "number",
        "0.005",
        "half-width of the primary metric's interval at which to stop, relative",
    ),
    key(
        "run",
        "warm-ups",
        "number",
        "1",
        "runs of each link before the first block, recorded and not counted",
    ),
    key("run", "seed", "number", "drawn, and recorded", "seed of everything that is drawn"),
    key(
        "run",
        "cold",
        "true or false",
        "false",
        "drop program and libraries from the page cache before each run",
    ),
    key("run", "pin", "numbers", "none", "processors to run on"),
    key("run", "padding", "bytes", "4096", "most bytes by which a block pads the environment; 0 for none"),
    key("run", "time-limit", "seconds", "600", "a run that takes longer is ended, and an error"),
    key("run", "counters", "texts", "all there are", "metrics to count by perf; an empty list for none"),
    key("run", "meters", "texts", "none", "meters of docs/measuring.md, each in a run of its own"),
    key("run", "meter-blocks", "number", "3", "blocks in which the meters run; 0 for all"),
    key(
        "build",
        "command",
        "command",
        "none",
        "makes what is linked, or the program itself, once for each variant",
    ),
    key("build", "link", "command", "none", "links the program, once for each replica"),
    key("build", "spec", "path", "none", "an RPM spec: built by rpmbuild, and its packages unpacked"),
    key("build", "program", "path", "required with spec", "the program within the unpacked packages"),
    key("build", "flags", "text", "none", "flags that all variants have"),
    key("build", "folder", "path", "the plan's", "where the commands run"),
    key("build", "replicas", "number", "1", "links of each variant that differ in luck only"),
    key(
        "build",
        "section",
        "text",
        ".text.sediment_eval_padding",
        "section of the padding object's function, to be placed first",
    ),
    key("build", "time-limit", "seconds", "7200", "a build that takes longer is ended, and an error"),
    key("variant", "name", "text", "required", "its name in reports"),
    key("variant", "program", "path", "none", "a program that is built already"),
    key("variant", "programs", "paths", "none", "links of it that are there already and differ in luck only"),
    key("variant", "command", "command", "that of build", "how this variant is built"),
    key("variant", "link", "command", "that of build", "how this variant is linked"),
    key("variant", "flags", "text", "none", "flags beside those of build"),
    key("variant", "arguments", "texts", "none", "what `{arguments}` stands for in the workloads' commands"),
    key("variant", "factors", "table of texts", "none", "its level of each factor"),
    key(
        "factor",
        "name",
        "text",
        "required",
        "its name; without any [[variant]], all combinations of levels are built",
    ),
    key("factor", "levels", "texts", "required", "its levels; the first is the baseline's"),
    key("factor", "flags", "texts", "none", "what each level adds to the flags"),
    key("workload", "name", "text", "required", "its name in reports"),
    key("workload", "command", "command", "none", "the run that is measured"),
    key(
        "workload",
        "server",
        "command",
        "none",
        "a server that is measured while `drive` runs; it stays in the foreground",
    ),
    key(
        "workload",
        "prepare",
        "command",
        "none",
        "runs before each start of the server or the command, not measured",
    ),
    key("workload", "ready", "table", "required with server", "how to know that the server takes work"),
    key(
        "workload",
        "drive",
        "command",
        "required with server",
        "gives the server its work; its output has the work counter",
    ),
    key("workload", "warm-up", "command", "none", "drives the server before it is measured"),
    key("workload", "stop", "text", "TERM", "signal that stops the server"),
    key("workload", "stop-limit", "seconds", "60", "after this the server is ended by force, and an error"),
    key("workload", "ready-limit", "seconds", "60", "after this a server that is not ready is an error"),
    key("workload", "import", "table of lists", "none", "files of each variant that were measured elsewhere"),
    key("workload", "environment", "table of texts", "none", "variables of its commands"),
    key("workload", "folder", "path", "the plan's", "where its commands run"),
    key("workload", "input", "path", "none", "file for the command's standard input"),
    key("workload", "work", "table", "none", "counts the work done, in the output of `command` or `drive`"),
    key("workload.ready", "command", "command", "none", "it exits with 0"),
    key("workload.ready", "port", "text", "none", "`host:port` takes connections"),
    key("workload.ready", "socket", "path", "none", "this Unix socket takes connections"),
    key("workload.ready", "log", "text", "none", "the server's output has this text"),
    key("workload.work", "name", "text", "unit of work", "what one unit is called: transaction"),
    key("workload.work", "regex", "text", "none", "its first group is the number; all matches are added up"),
    key("workload.work", "pointer", "text", "none", "JSON pointer (RFC 6901) to the number"),
    key(
        "workload.work",
        "count",
        "number",
        "none",
        "the number itself, where every run does the same work and prints none",
    ),
    key("metric", "name", "text", "required", "a metric, or a new one that the workloads print"),
    key("metric", "better", "`lower` or `higher`", "as is usual", "which way it is better"),
    key("metric", "unit", "text", "count", "unit of its values"),
    key("metric", "regex", "text", "none", "finds its value in the output; the last match counts"),
    key("metric", "pointer", "text", "none", "JSON pointer to its value"),
];

/// The keys of a table.
pub(super) fn of(table: &str) -> Vec<&'static str> {
    KEYS.iter().filter(|key| key.table == table).map(|key| key.name).collect()
}
