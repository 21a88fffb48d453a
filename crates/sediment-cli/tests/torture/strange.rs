// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of somebody who did not know how the recorder works. The second line of each file says how it is compiled or run,
//! the third what it does. Each must print the same, and end in the same way, as without a recorder.

use super::bench::{Bench, Room};
use super::fault::{Fault, FaultKind};
use super::parameters::Parameters;
use super::plan::{difference, record, words_of};
use super::scenario::{Scenario, special};
use std::path::Path;

/// Programs, and whether they may see the recorder: they compare their code with its files, look for tracers and unknown
/// mappings, or expect each program counter in a file (docs/background/call-sites.md). These must only end in the same way.
const PROGRAMS: [(&str, &str, bool); 32] = [
    ("write_barriers_by_faults", "barrier.c", false),
    ("clones_with_odd_flags", "clones.c", false),
    ("private_conventions_of_calls", "conv.c", false),
    ("interrupted_calls", "eintr.c", false),
    ("a_family_of_processes", "family.pl", false),
    ("counted_descriptors", "fdcount.c", false),
    ("execs_of_memory_and_deleted_files", "fexec.c", false),
    ("fibers_on_painted_stacks", "fibers.c", false),
    ("forks_of_python_threads", "forks.py", false),
    ("functions_patched_while_they_run", "hotpatch.c", false),
    ("code_moved_while_it_runs", "hugetext.c", false),
    ("a_compiler_of_two_mappings", "jit.c", false),
    ("a_shell_with_job_control", "jobctl.c", false),
    ("pages_filled_by_the_program", "lazypage.c", false),
    ("loops_over_every_descriptor", "loops.c", false),
    ("a_small_debugger", "minidbg.c", false),
    ("a_program_without_a_c_library", "nolibc.c", false),
    ("name_spaces_and_process_controls", "nsprctl.c", false),
    ("odd_calls", "oddcalls.c", false),
    ("stacks_that_overflow", "overflow.c", false),
    ("plumbing_of_a_shell", "pipes.sh", false),
    ("plug_ins_in_every_way", "plugin.c", false),
    ("programs_that_look_at_themselves", "procself.c", true),
    ("walks_of_frames_by_timers", "profwalk.c", true),
    ("red_zones_under_signals", "redzone.c", false),
    ("tight_limits", "rlimits.c", false),
    ("robust_locks_and_cancelled_threads", "robust.c", false),
    ("a_collector_that_scans_stacks", "scangc.c", false),
    ("filters_of_every_kind", "seccomp.c", false),
    ("checks_of_all_code", "selfsum.c", true),
    ("unwinding_of_deep_stacks", "unwind.cc", false),
    ("forks_that_share_and_spawns", "vforks.c", false),
];

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |(name, file, sees): &(&'static str, &'static str, bool)| {
        let (file, sees) = (*file, *sees);
        let needs: &[&str] = match file.rsplit_once('.') {
            Some((_, "py")) => &["python3"],
            Some((_, "pl")) => &["perl"],
            Some((_, "cc")) => &["c++"],
            _ => &[],
        };
        special(name, move |bench, parameters| same(bench, parameters, file, sees)).needs(needs)
    };
    PROGRAMS.iter().map(scenario).collect()
}

/// Compiles the program in the folder of a run; returns the words that run it.
fn words(room: &Room<'_>, file: &str) -> Vec<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torture/programs/strange");
    let text = std::fs::read_to_string(sources.join(file)).unwrap();
    let line = text.lines().nth(1).unwrap().trim_matches(['/', '*', '#', ' ']);
    std::fs::copy(sources.join(file), room.path.join(file)).unwrap();
    match line.split_once(' ') {
        Some(("cc" | "c++", _)) => {
            let program = room.bench.built_by(line, file);
            for built in std::fs::read_dir(program).unwrap().flatten() {
                let _ = std::fs::hard_link(built.path(), room.path.join(built.file_name()));
            }
            let stem = Path::new(file).file_stem().unwrap().to_str().unwrap();
            vec![format!("./{stem}")]
        }
        _ => words_of(&line.split(' ').collect::<Vec<_>>()),
    }
}

/// Runs a program without and with the recorder, to its end.
fn same(bench: &Bench, parameters: &Parameters, file: &str, sees: bool) -> Result<(), Fault> {
    let room = bench.room();
    let words = words(&room, file);
    let mut without = room.start("without", &words);
    let expected = without.wait()?;
    let recorded = [record(&room, parameters), words_of(&["--"]), words].concat();
    let mut watched = room.start("recorded", &recorded);
    let report = watched.wait()?;
    let said = format!("recorder ended with {:?}, said: {}", report.command, watched.err());
    if report.command.code() != expected.command.code() {
        let is_killed = report.command.code() > 128 && expected.command.code() < 128;
        let kind = if is_killed { FaultKind::Killed } else { FaultKind::Changed };
        return Err(Fault::new(kind, format!("it ended with {:?} without; {said}", expected.command)));
    }
    match difference(&watched.out(), &without.out()) {
        Some(difference) if !sees => Err(Fault::new(FaultKind::Changed, format!("{difference}; {said}"))),
        _ => Ok(()),
    }
}
