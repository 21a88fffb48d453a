// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios with special steps: debuggers, terminals that are closed, several recorders, stopped programs, limits of a
//! cgroup, a clock that jumps.

use super::bench::{Bench, Room, WatchedCommand};
use super::fault::{Fault, FaultKind};
use super::made::{FORKS, LOADS, THREADS, WORKS};
use super::parameters::Parameters;
use super::plan::{INT, TERM, attached, code_is_whole, let_go, record, seconds, text, words_of};
use super::processes;
use super::real::expect_end;
use super::scenario::{Scenario, special};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let terminal = |name, key: u32, program: &'static str| {
        special(name, move |bench, parameters| on_a_terminal(bench, parameters, key, program))
    };
    let mut all = vec![
        special("a_debugger_that_was_there_first", debugger_first).needs(&["gdb"]),
        special("a_debugger_that_comes_later", debugger_later).needs(&["gdb"]),
        special("attached_again_and_again", again_and_again),
        special("several_recorders", several_recorders),
        special("a_stopped_program", stopped_program),
        special("a_program_stopped_and_continued_meanwhile", stopped_meanwhile),
        special("a_recorder_stopped_and_continued", stopped_recorder),
        special("a_clock_that_jumps", clock_that_jumps),
        special("a_program_file_replaced_meanwhile", replaced_meanwhile),
        special("nobody_reads_what_the_recorder_says", nobody_reads),
        special("input_and_output_through_pipes", through_pipes),
        terminal("a_terminal_is_read", 0, READS),
        terminal("a_terminal_goes_away", 0, WORKS_ON).ranges(|ranges| ranges.delay = (300, 900)),
        terminal("a_terminal_goes_away_from_who_ignores_it", 0, IGNORES)
            .ranges(|ranges| ranges.delay = (100, 500)),
        terminal("the_interrupt_key", 3, HANDLES).ranges(|ranges| ranges.delay = (300, 900)),
        terminal("the_quit_key", 28, HANDLES).ranges(|ranges| ranges.delay = (300, 900)),
        special("a_terminal_goes_away_from_who_attached", attached_from_a_terminal),
    ];
    if memory_group().is_some() {
        all.push(special("a_program_at_the_limit_of_its_group", at_a_limit).needs_root());
    }
    all
}

fn recorder(room: &Room<'_>, parameters: &Parameters, more: &[String]) -> WatchedCommand {
    let words: Vec<String> = record(room, parameters).into_iter().chain(more.iter().cloned()).collect();
    room.start("recorder", &words)
}

fn to(program: i32) -> Vec<String> {
    vec!["--pid".to_owned(), program.to_string()]
}

fn for_a_while(parameters: &Parameters, program: i32) -> Vec<String> {
    [seconds(parameters).to_vec(), to(program)].concat()
}

/// A program that runs until SIGTERM.
fn running(
    room: &Room<'_>,
    label: &str,
    made: &super::bench::Made,
    parameters: &Parameters,
) -> Result<(WatchedCommand, i32), Fault> {
    let words = [room.place(made), "0".to_owned(), parameters.threads.to_string()];
    let target = room.start(label, &words);
    target.printed("ready\n")?;
    let program = target.program(made.name)?;
    Ok((target, program))
}

/// Ends it, and expects no faults.
fn ends_well(mut target: WatchedCommand, program: i32) -> Result<(), Fault> {
    std::thread::sleep(Duration::from_millis(20));
    processes::signal(program, TERM);
    let report = target.wait()?;
    expect_end(report.command.code(), 7, &target.out(), "ready\nwell\n")
}

fn whole(target: &WatchedCommand) -> Result<(), Fault> {
    let_go(target)?;
    code_is_whole(target, false)
}

fn expect_code(recorder: &mut WatchedCommand, code: i32) -> Result<(), Fault> {
    let report = recorder.wait()?;
    if report.command.code() == code {
        return Ok(());
    }
    let kind = if code == 0 { FaultKind::Lost } else { FaultKind::Changed };
    let detail =
        format!("the recorder ended with {:?} instead of {code}, said: {}", report.command, recorder.err());
    Err(Fault::new(kind, detail))
}

fn has_profile(room: &Room<'_>) -> Result<(), Fault> {
    room.profile().map_err(|why| Fault::new(FaultKind::Lost, why))
}

fn debugger_first(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    let room = bench.room();
    let (target, program) = running(&room, "recorded", &WORKS, parameters)?;
    let commands = [
        "-ex",
        "shell touch attached",
        "-ex",
        "shell while [ ! -e over ]; do sleep 0.02; done",
        "-ex",
        "detach",
    ];
    let mut words = words_of(&["gdb", "-q", "-batch", "-nx", "-p", &program.to_string()]);
    words.extend(words_of(&commands));
    let mut debugger = room.start("debugger", &words);
    debugger.until("does not attach", || room.path.join("attached").exists().then_some(()))?;
    let mut refused = recorder(&room, parameters, &for_a_while(parameters, program));
    let ended = expect_code(&mut refused, 6);
    let said = refused.err();
    std::fs::write(room.path.join("over"), "").unwrap();
    debugger.wait()?;
    ended?;
    if !said.contains(" gdb") {
        return Err(Fault::new(FaultKind::Changed, format!("the debugger is not named: {said}")));
    }
    whole(&target)?;
    ends_well(target, program)
}

fn debugger_later(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    let room = bench.room();
    let (target, program) = running(&room, "recorded", &THREADS, parameters)?;
    let mut recording = recorder(&room, parameters, &to(program));
    attached(&recording, program)?;
    let words = words_of(&[
        "gdb",
        "-q",
        "-batch",
        "-nx",
        "-p",
        &program.to_string(),
        "-ex",
        "info threads",
        "-ex",
        "detach",
    ]);
    let mut debugger = room.start("debugger", &words);
    debugger.wait()?;
    if !debugger.err().contains("not permitted") {
        return Err(Fault::new(
            FaultKind::Changed,
            format!("the debugger was not refused: {}", debugger.err()),
        ));
    }
    processes::signal(recording.command()?, INT);
    expect_code(&mut recording, 0)?;
    whole(&target)?;
    has_profile(&room)?;
    ends_well(target, program)
}

fn again_and_again(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    let room = bench.room();
    let made = [THREADS, FORKS, LOADS][parameters.seed as usize % 3];
    let (target, program) = running(&room, "recorded", &made, parameters)?;
    for time in 0..6 {
        let mut parameters = parameters.clone();
        parameters.time = (parameters.time / (time + 1)).max(10);
        let mut recording = recorder(&room, &parameters, &for_a_while(&parameters, program));
        expect_code(&mut recording, 0)?;
        whole(&target)?;
        has_profile(&room)?;
        let _ = std::fs::remove_file(room.path.join("recorded.gv"));
    }
    ends_well(target, program)
}

/// Two processes, each with a recorder; a third recorder for one of them is refused.
fn several_recorders(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    let rooms = [bench.room(), bench.room()];
    let (first, first_program) = running(&rooms[0], "recorded", &THREADS, parameters)?;
    let (second, second_program) = running(&rooms[1], "recorded", &FORKS, parameters)?;
    let mut one = recorder(&rooms[0], parameters, &to(first_program));
    let mut two = recorder(&rooms[1], parameters, &to(second_program));
    attached(&one, first_program)?;
    attached(&two, second_program)?;
    let third = [vec![text(&bench.sediment)], words_of(&["record", "-o", "third.gv"]), to(first_program)];
    let mut third = rooms[0].start("third", &third.concat());
    let refused = expect_code(&mut third, 6);
    for recording in [&mut one, &mut two] {
        processes::signal(recording.command()?, INT);
        expect_code(recording, 0)?;
    }
    refused?;
    for (room, target, program) in [(&rooms[0], first, first_program), (&rooms[1], second, second_program)] {
        whole(&target)?;
        has_profile(room)?;
        ends_well(target, program)?;
    }
    Ok(())
}

/// A program that was stopped before stays stopped.
fn stopped_program(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    let room = bench.room();
    let (target, program) = running(&room, "recorded", &THREADS, parameters)?;
    processes::signal(program, 19);
    target.until("does not stop", || processes::is_stopped(program).then_some(()))?;
    let mut recording = recorder(&room, parameters, &for_a_while(parameters, program));
    // Nothing was executed, so there is nothing to keep.
    let code = recording.wait()?.command.code();
    if !matches!(code, 0 | 1) || recording.err().is_empty() {
        return Err(Fault::new(
            FaultKind::Changed,
            format!("the recorder ended with {code}, said: {}", recording.err()),
        ));
    }
    std::thread::sleep(Duration::from_millis(30));
    if !processes::is_stopped(program) {
        return Err(Fault::new(FaultKind::Changed, "a stopped program runs"));
    }
    code_is_whole(&target, false)?;
    processes::signal(program, 18);
    whole(&target)?;
    ends_well(target, program)
}

fn stopped_meanwhile(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    let room = bench.room();
    let (target, program) = running(&room, "recorded", &THREADS, parameters)?;
    let mut recording = recorder(&room, parameters, &to(program));
    attached(&recording, program)?;
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(u64::from(parameters.delay)));
        processes::signal(program, 19);
        std::thread::sleep(Duration::from_millis(30));
        processes::signal(program, 18);
    }
    processes::signal(recording.command()?, INT);
    expect_code(&mut recording, 0)?;
    whole(&target)?;
    has_profile(&room)?;
    ends_well(target, program)
}

fn stopped_recorder(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    let room = bench.room();
    let (target, program) = running(&room, "recorded", &FORKS, parameters)?;
    let mut recording = recorder(&room, parameters, &for_a_while(parameters, program));
    attached(&recording, program)?;
    let all: Vec<i32> = recording.processes().iter().map(|process| process.id).collect();
    for number in [19, 18] {
        all.iter().for_each(|process| processes::signal(*process, number));
        std::thread::sleep(Duration::from_millis(u64::from(parameters.time)));
    }
    expect_code(&mut recording, 0)?;
    whole(&target)?;
    has_profile(&room)?;
    ends_well(target, program)
}

fn clock_that_jumps(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    let room = bench.room();
    let (target, program) = running(&room, "recorded", &THREADS, parameters)?;
    let clock = bench.library("jumps");
    let mut words = vec!["env".to_owned(), format!("LD_PRELOAD={}", clock.display())];
    words.extend(record(&room, parameters));
    words.extend(for_a_while(parameters, program));
    let mut recording = room.start("recorder", &words);
    expect_code(&mut recording, 0)?;
    whole(&target)?;
    has_profile(&room)?;
    ends_well(target, program)
}

/// An upgrade while a server is recorded.
fn replaced_meanwhile(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    let room = bench.room();
    room.copy(&LOADS, "upgraded", 0o755);
    room.copy(&WORKS, "other", 0o755);
    let words = words_of(&["./upgraded", "0", "1"]);
    room.copy(&LOADS, "libwide.so.copy", 0o755);
    let target = room.start("recorded", &words);
    target.printed("ready\n")?;
    let program = target.program("upgraded")?;
    let mut recording = recorder(&room, parameters, &for_a_while(parameters, program));
    attached(&recording, program)?;
    std::fs::rename(room.path.join("other"), room.path.join("upgraded")).unwrap();
    expect_code(&mut recording, 0)?;
    whole(&target)?;
    has_profile(&room)?;
    ends_well(target, program)
}

/// The recorder's standard error is full or closed.
fn nobody_reads(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    for stream in ["2>/dev/full", "2>&-", "2>&1 >&- | true"] {
        let room = bench.room();
        let (target, program) = running(&room, "recorded", &THREADS, parameters)?;
        let words: Vec<String> =
            record(&room, parameters).into_iter().chain(for_a_while(parameters, program)).collect();
        let mut recording =
            room.start("recorder", &words_of(&["sh", "-c", &format!("{} {stream}", words.join(" "))]));
        recording.wait()?;
        whole(&target).map_err(|fault| fault.and(stream))?;
        has_profile(&room).map_err(|fault| fault.and(stream))?;
        ends_well(target, program)?;
    }
    Ok(())
}

fn through_pipes(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    let room = bench.room();
    let record: String = record(&room, parameters).join(" ");
    let script = format!(
        "seq 1 300000 | {record} -- sh -c 'cat; echo further >&2; exec 0<&-; exit 9' 2>said | cksum; echo ${{PIPESTATUS[1]}}; grep further said; \
         {record} -- yes 2>/dev/null | head -n 2; echo ${{PIPESTATUS[0]}}"
    );
    as_in_a_shell(&room, &record, &script)
}

/// A script whose output is the same apart from the recorder's messages.
fn as_in_a_shell(room: &Room<'_>, record: &str, script: &str) -> Result<(), Fault> {
    let plain = script.replace(&format!("{record} -- "), "");
    let mut without = room.start("without", &words_of(&["bash", "-c", &plain]));
    without.wait()?;
    let mut watched = room.start("recorded", &words_of(&["bash", "-c", script]));
    watched.wait()?;
    expect_end(0, 0, &watched.out(), &without.out())?;
    has_profile(room)
}

/// Reads its terminal.
const READS: &str =
    "read line; echo $line; test -t 0 && echo a terminal; test -t 2 && echo and another; exit 9";
/// Has ended once the terminal is closed.
const WORKS_ON: &str = "echo ready >&2; exec ./works 0 1";
const IGNORES: &str = "trap '' HUP; echo ready >&2; ./works 30000 1; echo $?; exit 9";
const HANDLES: &str =
    "trap 'echo heard; exit 9' INT QUIT; echo ready >&2; while :; do ./works 50 1 > /dev/null; done";

fn on_a_terminal(bench: &Bench, parameters: &Parameters, key: u32, program: &str) -> Result<(), Fault> {
    let room = bench.room();
    room.place(&WORKS);
    let terminal = text(&bench.tool("terminal"));
    let start = vec![terminal, parameters.delay.to_string(), key.to_string()];
    let shell = words_of(&["sh", "-c", program]);
    let mut without = room.start("without", &[start.clone(), shell.clone()].concat());
    let expected = without.wait()?;
    let words = [start, record(&room, parameters), vec!["--".to_owned()], shell].concat();
    let mut watched = room.start("recorded", &words);
    let report = watched.wait()?;
    expect_end(report.command.code(), expected.command.code(), &watched.out(), &without.out())?;
    // Exit of the program itself, if the recorder ended earlier.
    if report.orphans.iter().any(|(name, ended)| name == "works" && ended.code() == 133) {
        return Err(Fault::new(FaultKind::Killed, format!("{:?}", report.orphans)));
    }
    has_profile(&room)
}

/// The recorder's terminal is closed, but not the terminal of the attached program.
fn attached_from_a_terminal(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    let room = bench.room();
    let (target, program) = running(&room, "recorded", &LOADS, parameters)?;
    let start = vec![text(&bench.tool("terminal")), (300 + parameters.delay).to_string(), "0".to_owned()];
    let shell = words_of(&["sh", "-c", "echo ready >&2; exec \"$@\"", "sh"]);
    let mut recording =
        room.start("recorder", &[start, shell, record(&room, parameters), to(program)].concat());
    recording.wait()?;
    whole(&target)?;
    has_profile(&room)?;
    ends_well(target, program)
}

/// Folder of memory cgroups, if one can be created.
fn memory_group() -> Option<PathBuf> {
    let old = Path::new("/sys/fs/cgroup/memory");
    if old.join("memory.limit_in_bytes").exists() {
        return Some(old.to_path_buf());
    }
    let new = Path::new("/sys/fs/cgroup");
    let controllers = std::fs::read_to_string(new.join("cgroup.subtree_control")).unwrap_or_default();
    controllers.contains("memory").then(|| new.to_path_buf())
}

/// A cgroup with a memory limit; removed when this is dropped.
struct LimitedGroup(PathBuf);

impl LimitedGroup {
    fn new() -> std::io::Result<Self> {
        let folder = memory_group().unwrap_or_default().join(format!("sediment-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        Ok(Self(folder))
    }

    /// Limits it to its current usage plus this number of bytes.
    fn limit(&self, more: u64) -> std::io::Result<()> {
        let old = self.0.join("memory.limit_in_bytes").exists();
        let (taken, limit) = if old {
            ("memory.max_usage_in_bytes", "memory.limit_in_bytes")
        } else {
            ("memory.peak", "memory.max")
        };
        let taken: u64 = std::fs::read_to_string(self.0.join(taken))?.trim().parse().unwrap_or(0);
        std::fs::write(self.0.join(limit), (taken + more).to_string())
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// A program that uses nearly all memory of its group: changed code needs memory, too.
fn at_a_limit(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    let room = bench.room();
    let no_group = |error| Fault::new(FaultKind::Changed, format!("no group: {error}"));
    let group = LimitedGroup::new().map_err(no_group)?;
    let procs = group.0.join("cgroup.procs");
    let script = format!("echo $$ > {} && exec {} 0 1", procs.display(), room.place(&WORKS));
    let target = room.start("recorded", &words_of(&["sh", "-c", &script]));
    target.printed("ready\n")?;
    let program = target.program("works")?;
    std::thread::sleep(Duration::from_millis(100));
    group.limit(512 << 10).map_err(no_group)?;
    let mut recording = recorder(&room, parameters, &for_a_while(parameters, program));
    let report = recording.wait()?;
    if report.command.code() == 0 {
        has_profile(&room)?;
    }
    whole(&target)?;
    ends_well(target, program)
}
