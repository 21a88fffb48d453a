// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios described by a plan: programs that are difficult to trace, every kind of end, and restrictions of
//! containers.

use super::bench::Made;
use super::made::*;
use super::plan::{Expect, Guise, RecordingEnd, ScenarioPlan, StartMode};
use super::scenario::{Scenario, row};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let all = [programs(), let_go(), attached(), begun_by_others(), signals(), confined(), limits()];
    all.into_iter().flatten().collect()
}

fn started(program: Made) -> ScenarioPlan {
    ScenarioPlan::new(program, StartMode::Start, RecordingEnd::Own)
}

fn plan(program: Made, mode: StartMode, end: RecordingEnd) -> ScenarioPlan {
    ScenarioPlan::new(program, mode, end)
}

/// Programs that are recorded from their start to their end.
fn programs() -> Vec<Scenario> {
    let own_code = |program| ScenarioPlan { own_code: true, ..started(program) };
    let tools_of_old =
        ScenarioPlan { prepare: |room| room.copy(&WORKS, "unreadable", 0o711), ..started(BECOMES) };
    let unreadable = ScenarioPlan { guise: Guise::Nobody, ..tools_of_old };
    vec![
        row("calls", started(WORKS)).rounds(2000, 5000),
        row("calls_in_a_static_program", started(WORKS_STATIC)).rounds(2000, 5000),
        row("calls_in_a_static_pie", started(WORKS_STATIC_PIE)).rounds(2000, 5000),
        row("threads", started(THREADS)).threads(2, 24),
        row("threads_in_a_static_program", started(THREADS_STATIC)).threads(2, 24),
        row("forks", started(FORKS)),
        row("children_that_outlive", started(LEAVES)),
        row("vforks_and_spawns", started(VFORKS)).rounds(5, 20),
        row("execs", started(EXECS)).rounds(5, 40),
        row("programs_in_memory", started(MEMORY_FILES)).rounds(5, 20),
        row("libraries_loaded", started(LOADS)).rounds(100, 300).threads(1, 1).all_calls(),
        row("libraries_loaded_by_threads", started(LOADS)).rounds(5, 15).threads(2, 8),
        row("libraries_replaced_while_loaded", started(DELETES)).rounds(50, 150),
        row("code_without_execution_for_a_moment", started(PROTECTS)).rounds(50, 200),
        row("rights_of_code_in_turns", own_code(TURNS)),
        row("code_that_patches_itself", own_code(PATCHES)).rounds(20, 60).all_calls(),
        row("code_that_rewrites_entries", own_code(REWRITES)).rounds(10, 40),
        row("code_made_in_memory", started(GENERATES)).rounds(20, 80),
        row("code_copied_to_memory", started(COPIES)),
        row("a_program_mapped_twice", started(MAPS)).rounds(20, 80),
        row(
            "data_among_writable_code",
            ScenarioPlan { expect: Expect::NothingToRecord, ..started(WRITABLE) },
        )
        .rounds(2000, 5000)
        .all_calls(),
        row("signals_of_every_sort", started(SIGNALS)).rounds(20, 60),
        row("signals_blocked", started(BLOCKS)),
        row("sigtraps_of_its_own", started(SIGTRAPS)).rounds(20, 60),
        row("children_that_stop", started(STOPS)),
        row("crashes", started(CRASHES)).ranges(|ranges| {
            ranges.threads = (11, 11);
            ranges.rounds = (20, 100);
        }),
        row("faults_and_aborts", started(CRASHES)).threads(4, 8).rounds(20, 100),
        row("exceptions", started(THROWS)).needs(&["c++"]).rounds(20, 80),
        row("entries_within_instructions", started(PREFIXES)),
        row("a_first_thread_that_ends", started(HEADLESS)),
        row("processes_that_share_memory", started(SHARES)).rounds(50, 150),
        row("daemons", ScenarioPlan { expect: Expect::Unharmed, ..started(DAEMONS) }).rounds(50, 100),
        row("programs_under_a_filter", started(CONFINES)),
        row("programs_in_strict_seccomp", started(STRICT)),
        row("arguments_and_environment_reach_the_program", started(LOOKS)).rounds(1, 1),
        row("programs_that_hide", ScenarioPlan { guise: Guise::Nobody, ..started(HIDES) }).rounds(20, 80),
        row("unreadable_programs", unreadable).rounds(5, 20),
        row("users_changed", started(DROPS)).needs_root().rounds(20, 60),
        row("many_threads", started(THREADS)).threads(40, 64).rounds(2, 4),
        row("children_without_memory", started(UNMAPS)).rounds(5, 30),
        row("code_that_moves", started(MOVES)).rounds(5, 30),
        row("sigtraps_ignored_by_system_calls", started(IGNORES)).rounds(20, 60),
    ]
}

/// Programs that another program starts: one that only changes something of the process, or a tracer, a translator.
fn begun_by_others() -> Vec<Scenario> {
    let by = |through: &'static [&'static str], program| ScenarioPlan { through, ..started(program) };
    let traced_by = |through, program| ScenarioPlan { expect: Expect::Unharmed, ..by(through, program) };
    let strace = &["strace", "-f", "-q", "-o", "/dev/null"];
    vec![
        row("begun_at_fixed_addresses", by(&["setarch", "-R"], WORKS)).needs(&["setarch"]),
        row("libraries_at_fixed_addresses", by(&["setarch", "-R"], LOADS))
            .needs(&["setarch"])
            .threads(1, 4)
            .rounds(5, 15),
        row("forks_at_fixed_addresses", by(&["setarch", "-R"], FORKS)).needs(&["setarch"]),
        row("begun_by_nice", by(&["nice"], THREADS)).threads(2, 8),
        row("begun_by_env", by(&["env", "-i"], EXECS)).rounds(5, 20),
        row("begun_by_timeout", by(&["timeout", "600"], FORKS)),
        row("begun_by_setsid", by(&["setsid", "--wait"], VFORKS)).needs(&["setsid"]).rounds(5, 20),
        row("begun_by_taskset", by(&["taskset", "1"], THREADS)).needs(&["taskset"]).threads(2, 8),
        row("begun_by_chrt", by(&["chrt", "--idle", "0"], FORKS)).needs(&["chrt"]),
        row("begun_with_a_preloaded_library", by(&["stdbuf", "-oL"], LOADS))
            .needs(&["stdbuf"])
            .threads(1, 4)
            .rounds(5, 15),
        row("forks_with_a_preloaded_library", by(&["stdbuf", "-oL"], FORKS)).needs(&["stdbuf"]),
        row("begun_by_a_shell", by(&["sh", "-c", "\"$0\" \"$@\" & wait $!"], WORKS)),
        row("begun_in_a_pipe", by(&["sh", "-c", "\"$0\" \"$@\" | cat; exit 7"], FORKS)),
        row("traced_by_strace", traced_by(strace, WORKS)).needs(&["strace"]),
        row("threads_traced_by_strace", traced_by(strace, THREADS)).needs(&["strace"]).threads(2, 8),
        row("forks_traced_by_strace", traced_by(strace, FORKS)).needs(&["strace"]),
        row("signals_traced_by_strace", traced_by(strace, SIGNALS)).needs(&["strace"]).rounds(5, 20),
        row("run_by_valgrind", traced_by(&["valgrind", "-q", "--tool=none"], WORKS))
            .needs(&["valgrind"])
            .rounds(2, 10),
        row("threads_run_by_valgrind", traced_by(&["valgrind", "-q", "--tool=none"], THREADS))
            .needs(&["valgrind"])
            .rounds(2, 4)
            .threads(2, 4),
    ]
}

/// Programs that are started, detached in the middle of their work, and run on.
fn let_go() -> Vec<Scenario> {
    let go = |program, end| plan(program, StartMode::Start, end);
    vec![
        row("let_go_of_calls", go(WORKS, RecordingEnd::Seconds)),
        row("let_go_of_threads", go(THREADS, RecordingEnd::Seconds)).threads(2, 24),
        row("let_go_of_forks", go(FORKS, RecordingEnd::Seconds)),
        row("let_go_of_vforks", go(VFORKS, RecordingEnd::Seconds)),
        row("let_go_of_execs", ScenarioPlan { own_code: true, ..go(EXECS, RecordingEnd::Seconds) }),
        row("let_go_of_dlopen", go(LOADS, RecordingEnd::Seconds)).threads(0, 0),
        row("let_go_of_dlopen_by_threads", go(LOADS, RecordingEnd::Seconds)).threads(2, 8),
        row("let_go_of_mprotect", ScenarioPlan { own_code: true, ..go(TURNS, RecordingEnd::Seconds) }),
        row("let_go_of_patches", ScenarioPlan { own_code: true, ..go(PATCHES, RecordingEnd::Seconds) }),
        row("let_go_of_signals", go(SIGNALS, RecordingEnd::Seconds)),
        row("let_go_of_sigtraps", go(SIGTRAPS, RecordingEnd::Seconds)),
        row("let_go_of_shared_memory", go(SHARES, RecordingEnd::Seconds)),
        row("let_go_of_a_static_program", go(WORKS_STATIC, RecordingEnd::Seconds)),
        row("let_go_of_a_static_pie", go(WORKS_STATIC_PIE, RecordingEnd::Seconds)),
        row("let_go_of_static_threads", go(THREADS_STATIC, RecordingEnd::Seconds)).threads(2, 24),
        row("let_go_of_programs_in_memory", go(MEMORY_FILES, RecordingEnd::Seconds)),
        row("let_go_of_copied_code", go(COPIES, RecordingEnd::Seconds)),
        row("let_go_of_code_made_in_memory", go(GENERATES, RecordingEnd::Seconds)),
        row("let_go_of_a_program_mapped_twice", go(MAPS, RecordingEnd::Seconds)),
        row(
            "let_go_of_blocked_signals",
            ScenarioPlan { expect: Expect::Unharmed, ..go(BLOCKS, RecordingEnd::Seconds) },
        ),
        row("let_go_of_exceptions", go(THROWS, RecordingEnd::Seconds)).needs(&["c++"]),
        row("let_go_of_entries_within_instructions", go(PREFIXES, RecordingEnd::Seconds)),
        row("let_go_of_children_without_memory", go(UNMAPS, RecordingEnd::Seconds)),
        row("let_go_at_the_first_output", go(LOADS, RecordingEnd::Output)).threads(1, 4),
        row("let_go_of_threads_at_the_first_output", go(THREADS, RecordingEnd::Output)).threads(2, 24),
    ]
}

/// Running programs that are attached to and detached in the middle of their work.
fn attached() -> Vec<Scenario> {
    let to = |program| plan(program, StartMode::Attach, RecordingEnd::Seconds);
    let own_code = |program| ScenarioPlan { own_code: true, ..to(program) };
    let refusable = |program| ScenarioPlan { expect: Expect::SameOrRefused, ..to(program) };
    vec![
        row("attached_to_calls", to(WORKS)),
        row("attached_to_threads", to(THREADS)).threads(2, 24),
        row("attached_to_forks", to(FORKS)),
        row("attached_to_children_that_outlive", to(LEAVES)),
        row("attached_to_vforks", to(VFORKS)),
        row("attached_to_execs", own_code(EXECS)),
        row("attached_to_programs_in_memory", to(MEMORY_FILES)),
        row("attached_to_dlopen", to(LOADS)).threads(0, 1),
        row("attached_to_dlopen_by_threads", to(LOADS)).threads(2, 8),
        row("attached_to_mprotect", own_code(TURNS)),
        row("attached_to_a_moment_without_execution", to(PROTECTS)),
        row("attached_to_patches", ScenarioPlan { expect: Expect::SameOrRefused, ..own_code(PATCHES) }),
        row(
            "attached_to_rewritten_entries",
            ScenarioPlan { expect: Expect::SameOrRefused, ..own_code(REWRITES) },
        ),
        row("attached_to_writable_code", ScenarioPlan { expect: Expect::NothingToRecord, ..to(WRITABLE) })
            .all_calls(),
        row("attached_to_a_static_program", to(WORKS_STATIC)),
        row("attached_to_a_static_pie", to(WORKS_STATIC_PIE)),
        row("attached_to_static_threads", to(THREADS_STATIC)).threads(2, 24),
        row("attached_to_code_made_in_memory", to(GENERATES)),
        row("attached_to_a_program_mapped_twice", refusable(MAPS)),
        row("attached_to_blocked_signals", ScenarioPlan { expect: Expect::Unharmed, ..to(BLOCKS) }),
        row("attached_to_exceptions", to(THROWS)).needs(&["c++"]),
        row("attached_to_entries_within_instructions", to(PREFIXES)),
        row("attached_to_children_without_memory", to(UNMAPS)),
        row("attached_to_many_threads", to(THREADS)).threads(40, 64),
        row("attached_to_signals", to(SIGNALS)),
        row("attached_to_sigtraps", to(SIGTRAPS)),
        row("attached_to_children_that_stop", to(STOPS)),
        row("attached_to_shared_memory", refusable(SHARES)),
        row("attached_without_a_first_thread", to(HEADLESS)),
        row("attached_to_the_end", plan(WORKS, StartMode::Attach, RecordingEnd::Program)).signals(&[15]),
        row("attached_to_a_crash", plan(CRASHES, StartMode::Attach, RecordingEnd::Program))
            .signals(&[15])
            .threads(4, 8),
    ]
}

/// All signals that end something or can be caught, except SIGKILL; after 31, the first and last real-time signals.
const ALL: &[u32] = &[
    3, 10, 14, 1, 2, 4, 5, 6, 7, 8, 11, 12, 13, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
    30, 31, 34, 64,
];
/// Signals that a process can catch and continue after.
const CAUGHT: &[u32] = &[3, 15, 10, 1, 2, 5, 6, 7, 12, 13, 14, 16, 24, 25, 26, 27, 29, 30, 31, 34, 64];
const KEYS: &[u32] = &[2, 3];

fn signals() -> Vec<Scenario> {
    let to = |program, mode, end| plan(program, mode, end);
    vec![
        row("signals_to_a_recorder", to(THREADS, StartMode::Start, RecordingEnd::Front)).signals(ALL),
        row("signals_to_a_recorder_that_attached", to(THREADS, StartMode::Attach, RecordingEnd::Front))
            .signals(ALL),
        row("signals_to_the_tracing_process", to(WORKS, StartMode::Start, RecordingEnd::Tracer))
            .signals(CAUGHT),
        row(
            "signals_to_the_tracing_process_that_attached",
            to(FORKS, StartMode::Attach, RecordingEnd::Tracer),
        )
        .signals(CAUGHT),
        row("signals_to_a_program", to(WORKS, StartMode::Start, RecordingEnd::Program)).signals(ALL),
        row("signals_to_a_program_attached_to", to(THREADS, StartMode::Attach, RecordingEnd::Program))
            .signals(ALL),
        row("keys_to_the_whole_group", to(THREADS, StartMode::Start, RecordingEnd::Group)).signals(KEYS),
        row("a_recorder_killed", to(THREADS, StartMode::Start, RecordingEnd::Front)).signals(&[9]),
        row("a_recorder_killed_that_attached", to(FORKS, StartMode::Attach, RecordingEnd::Front))
            .signals(&[9]),
        row("interrupted_in_dlopen", to(LOADS, StartMode::Attach, RecordingEnd::Front))
            .signals(&[2, 15, 1])
            .threads(0, 4),
    ]
}

/// Actions that containers and unprivileged users may not take.
fn confined() -> Vec<Scenario> {
    let with = |program, mode, end, guise| ScenarioPlan { guise, ..plan(program, mode, end) };
    let refused = |program, mode, guise| ScenarioPlan {
        guise,
        expect: Expect::Refused,
        ..plan(program, mode, RecordingEnd::Seconds)
    };
    let own = |program, guise| with(program, StartMode::Start, RecordingEnd::Own, guise);
    let through = |program, words| ScenarioPlan { through: words, ..started(program) };
    const OTHER_USER: &[&str] = &["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"];
    vec![
        row("a_user_without_rights", own(FORKS, Guise::Nobody)),
        row(
            "a_user_without_rights_who_attaches",
            with(LEAVES, StartMode::Attach, RecordingEnd::Seconds, Guise::Nobody),
        ),
        row("without_the_capability", own(THREADS, Guise::WithoutCapability)).needs_root(),
        row(
            "without_the_capability_attached",
            with(FORKS, StartMode::Attach, RecordingEnd::Seconds, Guise::WithoutCapability),
        )
        .needs_root(),
        row("users_changed_without_the_capability", own(DROPS, Guise::WithoutCapability))
            .needs_root()
            .rounds(20, 60),
        row(
            "users_changed_without_the_capability_let_go",
            with(DROPS, StartMode::Start, RecordingEnd::Seconds, Guise::WithoutCapability),
        )
        .needs_root(),
        row(
            "users_changed_without_the_capability_attached",
            with(DROPS, StartMode::Attach, RecordingEnd::Seconds, Guise::WithoutCapability),
        )
        .needs_root(),
        row(
            "another_user_without_the_capability",
            ScenarioPlan {
                guise: Guise::WithoutCapability,
                expect: Expect::Unharmed,
                ..through(FORKS, OTHER_USER)
            },
        )
        .needs_root(),
        row(
            "programs_that_hide_attached",
            ScenarioPlan {
                expect: Expect::SameOrRefused,
                ..with(HIDES, StartMode::Attach, RecordingEnd::Seconds, Guise::Nobody)
            },
        )
        .threads(20, 400),
        row("a_filter_that_forbids_tracing", refused(WORKS, StartMode::Start, Guise::Filtered)),
        row("a_filter_that_forbids_attaching", refused(THREADS, StartMode::Attach, Guise::Filtered)),
        row("limits_of_yama", refused(THREADS, StartMode::Attach, Guise::Yama)),
        row("programs_of_others", refused(THREADS, StartMode::Attach, Guise::Stranger)).needs_root(),
        row("in_a_user_namespace", own(FORKS, Guise::UserNamespace)).needs(&["unshare"]).needs_root(),
        row("out_of_a_user_namespace", refused(THREADS, StartMode::Attach, Guise::UserNamespace))
            .needs(&["unshare"])
            .needs_root(),
        row("in_a_pid_namespace", own(LEAVES, Guise::PidNamespace)).needs(&["unshare"]).needs_root(),
        row(
            "let_go_in_a_pid_namespace",
            with(THREADS, StartMode::Start, RecordingEnd::Seconds, Guise::PidNamespace),
        )
        .needs(&["unshare"])
        .needs_root(),
        row("into_a_user_namespace", through(THREADS, &["unshare", "-Ur"])).needs(&["unshare"]).needs_root(),
        row("into_a_pid_namespace", through(FORKS, &["unshare", "--pid", "--fork", "--mount-proc"]))
            .needs(&["unshare"])
            .needs_root(),
    ]
}

/// Little memory, few processes, few files.
fn limits() -> Vec<Scenario> {
    let limited = |program, limit| ScenarioPlan {
        guise: Guise::Limited(limit),
        expect: Expect::SameOrRefused,
        ..started(program)
    };
    let attached =
        |program, guise| ScenarioPlan { guise, ..plan(program, StartMode::Attach, RecordingEnd::Seconds) };
    let crowded = ScenarioPlan {
        guise: Guise::NobodyLimited("--nproc=40"),
        expect: Expect::SameOrRefused,
        ..started(CROWDS)
    };
    vec![
        row("little_memory", ScenarioPlan { through: &["prlimit", "--as=60000000"], ..started(HOARDS) })
            .needs(&["prlimit"])
            .rounds(20, 60),
        row("little_memory_for_the_recorder_too", limited(HOARDS, "--as=300000000"))
            .needs(&["prlimit"])
            .rounds(20, 60),
        row("hardly_any_memory", limited(WORKS, "--as=12000000")).needs(&["prlimit"]),
        row(
            "attached_with_little_memory",
            ScenarioPlan {
                expect: Expect::SameOrRefused,
                ..attached(HOARDS, Guise::Limited("--as=60000000"))
            },
        )
        .needs(&["prlimit"]),
        row("few_files", limited(FORKS, "--nofile=12")).needs(&["prlimit"]),
        row("hardly_any_files", limited(WORKS, "--nofile=5")).needs(&["prlimit"]),
        row("a_full_process_table", crowded).needs(&["prlimit"]).needs_root().rounds(3, 6),
        row("attached_with_a_full_process_table", attached(CROWDS, Guise::NobodyLimited("--nproc=40")))
            .needs(&["prlimit"])
            .needs_root(),
        row(
            "no_files_may_grow",
            ScenarioPlan {
                expect: Expect::SameOrRefused,
                guise: Guise::Limited("--fsize=200000"),
                ..started(WORKS)
            },
        )
        .needs(&["prlimit"]),
    ]
}
