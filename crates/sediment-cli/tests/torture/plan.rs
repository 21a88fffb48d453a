// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executes a run from its description: the same program without and with the recorder, ended in the same way, and
//! compared.

use super::bench::{Bench, CommandExits, Made, ProcessExit, Room, WatchedCommand, step_limit};
use super::fault::{Fault, FaultKind};
use super::parameters::Parameters;
use super::processes;
use std::path::Path;
use std::time::{Duration, Instant};

/// Ways to start the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartMode {
    /// `record -- PROGRAM`.
    Start,
    /// `record --pid`.
    Attach,
}

/// Ways of ending a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordingEnd {
    /// The program ends by itself after its rounds.
    Own,
    /// `--seconds`; the program runs on.
    Seconds,
    /// `--until OUTPUT`; the program runs on.
    Output,
    /// A signal to the process started as `sediment record`.
    Front,
    /// A signal to the process that traces.
    Tracer,
    /// A signal to the program.
    Program,
    /// A signal to the whole process group, as from a terminal's key.
    Group,
}

/// User and restrictions of program and recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guise {
    Plain,
    /// A user without rights.
    Nobody,
    /// Root without CAP_SYS_PTRACE, as in most containers.
    WithoutCapability,
    /// The recorder under a filter that refuses ptrace.
    Filtered,
    /// The recorder with a filter that refuses access to the program, like Yama.
    Yama,
    /// In a user namespace.
    UserNamespace,
    /// In a pid namespace.
    PidNamespace,
    /// The recorder as another user than the program, neither of them root.
    Stranger,
    /// With a limit of prlimit: for the recorder only, or when attaching, for the program only.
    Limited(&'static str),
    /// As a user without rights, and under a limit.
    NobodyLimited(&'static str),
}

/// Expected result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    /// The same result as without a recorder, and a profile.
    Same,
    /// Exit code 6 of the recorder, and no effect on the program.
    Refused,
    /// The same result as without a recorder and a profile, or an error before the program has begun or was affected.
    SameOrRefused,
    /// The same result as without a recorder, with or without a profile.
    Unharmed,
    /// The same output as without a recorder, and a message that there was nothing to record.
    NothingToRecord,
}

/// A scenario without special code.
#[derive(Debug, Clone)]
pub(crate) struct ScenarioPlan {
    pub(crate) program: Made,
    pub(crate) mode: StartMode,
    pub(crate) end: RecordingEnd,
    pub(crate) guise: Guise,
    pub(crate) expect: Expect,
    /// Words before the program, such as `unshare -Ur`.
    pub(crate) through: &'static [&'static str],
    /// Further options of the recorder.
    pub(crate) options: &'static [&'static str],
    /// True if the program changes its own code, so that it differs from the file.
    pub(crate) own_code: bool,
    /// Prepares the folder.
    pub(crate) prepare: fn(&Room<'_>),
}

impl ScenarioPlan {
    pub(crate) fn new(program: Made, mode: StartMode, end: RecordingEnd) -> Self {
        Self {
            program,
            mode,
            end,
            guise: Guise::Plain,
            expect: Expect::Same,
            through: &[],
            options: &[],
            own_code: false,
            prepare: |_| {},
        }
    }

    pub(crate) fn run(&self, bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
        let room = bench.room_of(parameters);
        (self.prepare)(&room);
        let program = self.program_words(&room, parameters);
        let without = {
            let mut watched = room.start("without", &program);
            self.untraced(&watched, parameters)?;
            let report = watched.wait()?;
            (report, watched.out())
        };
        match self.mode {
            StartMode::Start => self.start(&room, parameters, &without),
            StartMode::Attach => self.attach(&room, parameters, &without),
        }
    }

    fn program_words(&self, room: &Room<'_>, parameters: &Parameters) -> Vec<String> {
        let by_itself = matches!(self.end, RecordingEnd::Own);
        let mut words: Vec<String> = match self.guise {
            Guise::Nobody | Guise::Stranger => nobody(),
            Guise::WithoutCapability => words_of(&["setpriv", "--bounding-set", "-sys_ptrace"]),
            Guise::UserNamespace if self.mode == StartMode::Start => words_of(&["unshare", "-Ur"]),
            Guise::PidNamespace if self.mode == StartMode::Start => pid_namespace(),
            Guise::Limited(limit) => words_of(&["prlimit", limit]),
            Guise::NobodyLimited(limit) => [words_of(&["prlimit", limit]), nobody()].concat(),
            _ => Vec::new(),
        };
        words.extend(words_of(self.through));
        words.push(room.place(&self.program));
        words.push(if by_itself { parameters.rounds.to_string() } else { "0".to_owned() });
        words.push(parameters.threads.to_string());
        words
    }

    /// Runs the program's events without a recorder.
    fn untraced(&self, watched: &WatchedCommand, parameters: &Parameters) -> Result<(), Fault> {
        match self.end {
            RecordingEnd::Own => return Ok(()),
            RecordingEnd::Program | RecordingEnd::Group => {
                watched.printed("ready\n")?;
                let program = self.find(watched)?;
                self.end_by_signal(watched, program, parameters)?;
            }
            RecordingEnd::Seconds | RecordingEnd::Output | RecordingEnd::Front | RecordingEnd::Tracer => {
                watched.printed("ready\n")?;
                let program = self.find(watched)?;
                std::thread::sleep(Duration::from_millis(10));
                processes::signal(program, TERM);
            }
        }
        Ok(())
    }

    /// Sends the scenario's signal to the program, or to its group; if the program continues, ends it with SIGTERM.
    fn end_by_signal(
        &self,
        watched: &WatchedCommand,
        program: i32,
        parameters: &Parameters,
    ) -> Result<(), Fault> {
        std::thread::sleep(Duration::from_millis(u64::from(parameters.delay)));
        let number = parameters.signal as i32;
        match self.end {
            RecordingEnd::Group => processes::signal(-watched.command()?, number),
            _ => processes::signal(program, number),
        }
        if GOES_ON.contains(&parameters.signal) {
            std::thread::sleep(Duration::from_millis(100));
            processes::signal(program, CONT);
            std::thread::sleep(Duration::from_millis(20));
            processes::signal(program, TERM);
        }
        Ok(())
    }

    /// Finds the first process of the program.
    fn find(&self, watched: &WatchedCommand) -> Result<i32, Fault> {
        watched.program(self.program.name)
    }

    fn record(&self, room: &Room<'_>, parameters: &Parameters) -> Vec<String> {
        let mut words = record(room, parameters);
        match self.end {
            RecordingEnd::Seconds => words.extend(seconds(parameters)),
            RecordingEnd::Output => words.extend(words_of(&["--until", "OUTPUT"])),
            _ => {}
        }
        words.extend(words_of(self.options));
        words
    }

    fn start(
        &self,
        room: &Room<'_>,
        parameters: &Parameters,
        without: &(CommandExits, String),
    ) -> Result<(), Fault> {
        let sediment = &room.bench.sediment;
        let program = self.program_words(room, parameters);
        // Restrictions of the program also apply to the recorder; words before the program stay there.
        let inner = program.len() - 3 - self.through.len();
        let mut words = program[..inner].to_vec();
        if self.guise == Guise::Filtered {
            words.extend([text(&room.bench.tool("sandbox")), "all".to_owned()]);
        }
        words.extend(self.record(room, parameters));
        words.push("--".to_owned());
        words.extend(program[inner..].iter().cloned());
        let mut watched = room.start("recorded", &words);
        if matches!(self.expect, Expect::Refused | Expect::SameOrRefused) {
            if let Some(done) = self.refused(&mut watched, parameters)? {
                return done;
            }
        }
        match self.end {
            RecordingEnd::Own => {}
            RecordingEnd::Program | RecordingEnd::Group => {
                watched.printed("ready\n")?;
                let program = self.find(&watched)?;
                self.end_by_signal(&watched, program, parameters)?;
            }
            RecordingEnd::Seconds | RecordingEnd::Output | RecordingEnd::Front | RecordingEnd::Tracer => {
                watched.printed("ready\n")?;
                let found = self.find(&watched);
                if found.is_ok() && matches!(self.end, RecordingEnd::Front | RecordingEnd::Tracer) {
                    self.end_recorder(&watched, &watched, parameters, sediment)?;
                }
                let_go(&watched)?;
                code_is_whole(&watched, self.own_code)?;
                // Any remaining change would have an effect now.
                std::thread::sleep(Duration::from_millis(20));
                if let Ok(program) = found {
                    processes::signal(program, TERM);
                }
            }
        }
        let report = watched.wait()?;
        self.judge_started(room, without, (&report, &watched))
    }

    /// Waits for the end of a recorder that may refuse; `None` if it did not.
    fn refused(
        &self,
        watched: &mut WatchedCommand,
        parameters: &Parameters,
    ) -> Result<Option<Result<(), Fault>>, Fault> {
        if self.expect == Expect::SameOrRefused {
            // The recorded program prints something before the recording ends.
            watched.printed("ready\n")?;
            if watched.out().contains("ready\n") {
                return Ok(None);
            }
        }
        let report = watched.wait()?;
        let code = report.command.code();
        // At a limit, even the recorder's first instruction may not be reached.
        let refused = code == 6 || self.expect == Expect::SameOrRefused && code != 0;
        if refused && !watched.out().contains("ready") {
            return Ok(Some(Ok(())));
        }
        let detail = format!("exit code {code} instead of a refusal ({parameters}): {}", watched.err());
        Ok(Some(Err(Fault::new(FaultKind::Changed, detail))))
    }

    fn judge_started(
        &self,
        room: &Room<'_>,
        (without, without_out): &(CommandExits, String),
        (report, watched): (&CommandExits, &WatchedCommand),
    ) -> Result<(), Fault> {
        let name: String = self.program.name.chars().take(15).collect();
        let said = || format!("recorder ended with {:?}, said: {}", report.command, watched.err());
        let mine = report.orphans.iter().find(|(orphan, _)| *orphan == name).map(|(_, ended)| *ended);
        let nothing = self.expect == Expect::NothingToRecord
            && report.command == ProcessExit::Exit(1)
            && watched.err().contains("has no calls and no cost");
        let as_without = report.command.code() == without.command.code()
            && matches!(report.command, ProcessExit::Exit(_))
            || nothing;
        let alone =
            matches!(self.end, RecordingEnd::Front | RecordingEnd::Tracer) && mine == Some(without.command);
        let out = watched.out();
        if !as_without && !alone {
            if let Some(ProcessExit::Signal(number)) = mine {
                return Err(Fault::new(
                    FaultKind::Killed,
                    format!("the program was killed by signal {number}; {}", said()),
                ));
            }
            let by = report.command.code() - 128;
            if matches!(without.command, ProcessExit::Exit(_)) && matches!(by, 4 | 5 | 7 | 11) {
                return Err(Fault::new(
                    FaultKind::Killed,
                    format!("the program was killed by signal {by}; {}", said()),
                ));
            }
            let whole = out == *without_out;
            let kind = if whole && room.profile().is_err() { FaultKind::Lost } else { FaultKind::Changed };
            return Err(Fault::new(kind, format!("it ended with {:?} without; {}", without.command, said())));
        }
        if let Some(difference) = difference(&out, without_out) {
            return Err(Fault::new(FaultKind::Changed, format!("{difference}; {}", said())));
        }
        let others = |report: &CommandExits| -> Vec<(String, ProcessExit)> {
            let foreign = |(orphan, _): &&(String, ProcessExit)| *orphan != name && orphan != "sediment";
            report.orphans.iter().filter(foreign).cloned().collect()
        };
        if others(report) != others(without) {
            let detail =
                format!("left behind {:?} instead of {:?}; {}", report.orphans, without.orphans, said());
            return Err(Fault::new(FaultKind::Changed, detail));
        }
        self.expect_profile(room, &said())
    }

    fn expect_profile(&self, room: &Room<'_>, said: &str) -> Result<(), Fault> {
        if matches!(self.expect, Expect::Unharmed | Expect::NothingToRecord)
            || self.end == RecordingEnd::Tracer
        {
            return Ok(());
        }
        // A program that the recorder cannot record runs without it, and a message reports that.
        if self.expect == Expect::SameOrRefused && said.contains("not recorded") {
            return Ok(());
        }
        room.profile().map_err(|why| Fault::new(FaultKind::Lost, format!("{why}; {said}")))
    }

    fn attach(
        &self,
        room: &Room<'_>,
        parameters: &Parameters,
        without: &(CommandExits, String),
    ) -> Result<(), Fault> {
        let sediment = &room.bench.sediment;
        let mut target = room.start("recorded", &self.program_words(room, parameters));
        target.printed("ready\n")?;
        let program = self.find(&target)?;
        std::thread::sleep(Duration::from_millis(u64::from(parameters.delay) / 4));
        let mut words = match self.guise {
            Guise::Nobody => nobody(),
            Guise::Stranger => words_of(&["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"]),
            Guise::WithoutCapability => words_of(&["setpriv", "--bounding-set", "-sys_ptrace"]),
            Guise::Filtered => vec![text(&room.bench.tool("sandbox")), "all".to_owned()],
            Guise::Yama => vec![text(&room.bench.tool("sandbox")), program.to_string()],
            Guise::UserNamespace => words_of(&["unshare", "-Ur"]),
            Guise::Plain | Guise::PidNamespace | Guise::Limited(_) | Guise::NobodyLimited(_) => Vec::new(),
        };
        words.extend(self.record(room, parameters));
        words.extend(["--pid".to_owned(), program.to_string()]);
        let mut recorder = room.start("recorder", &words);
        match self.end {
            RecordingEnd::Front | RecordingEnd::Tracer => {
                self.end_recorder(&recorder, &target, parameters, sediment)?
            }
            RecordingEnd::Program | RecordingEnd::Group => {
                attached(&recorder, program)?;
                self.end_by_signal(&target, program, parameters)?;
            }
            RecordingEnd::Own | RecordingEnd::Seconds | RecordingEnd::Output => {}
        }
        let recorded = recorder.wait()?;
        let said = format!("recorder ended with {:?}, said: {}", recorded.command, recorder.err());
        let_go(&target)?;
        code_is_whole(&target, self.own_code).map_err(|fault| fault.and(&said))?;
        std::thread::sleep(Duration::from_millis(20));
        if !matches!(self.end, RecordingEnd::Own | RecordingEnd::Program | RecordingEnd::Group) {
            processes::signal(program, TERM);
        }
        let report = target.wait()?;
        let (expected, expected_out) = without;
        if report.command != expected.command {
            let kind = if matches!(report.command, ProcessExit::Signal(_)) {
                FaultKind::Killed
            } else {
                FaultKind::Changed
            };
            return Err(Fault::new(
                kind,
                format!("ended with {:?} instead of {:?}; {said}", report.command, expected.command),
            ));
        }
        if let Some(difference) = difference(&target.out(), expected_out) {
            return Err(Fault::new(FaultKind::Changed, format!("{difference}; {said}")));
        }
        let code = recorded.command.code();
        match self.expect {
            Expect::Refused if code == 6 => Ok(()),
            Expect::Refused => {
                let has_ended = ["no process", "No such process"].iter().any(|words| said.contains(words));
                let kind = if has_ended { FaultKind::Lost } else { FaultKind::Changed };
                Err(Fault::new(kind, format!("exit code {code} instead of a refusal; {said}")))
            }
            Expect::SameOrRefused if matches!(code, 1 | 6) && !recorder.err().is_empty() => Ok(()),
            _ => {
                // A signal may end a program before it makes a call.
                let before =
                    self.end == RecordingEnd::Program && matches!(report.command, ProcessExit::Signal(_));
                if before && recorder.err().contains("has no calls and no cost") {
                    return Ok(());
                }
                if matches!(self.end, RecordingEnd::Own | RecordingEnd::Seconds)
                    && code != 0
                    && self.expect == Expect::Same
                {
                    return Err(Fault::new(FaultKind::Lost, said));
                }
                self.expect_profile(room, &said)
            }
        }
    }

    /// Sends the scenario's signal to the recorder once it traces; if it continues, sends the interrupt key's signal.
    fn end_recorder(
        &self,
        recorder: &WatchedCommand,
        target: &WatchedCommand,
        parameters: &Parameters,
        sediment: &Path,
    ) -> Result<(), Fault> {
        let program = self.find(target)?;
        attached(recorder, program)?;
        std::thread::sleep(Duration::from_millis(u64::from(parameters.delay)));
        let all = recorder.processes();
        let Some(front) =
            all.iter().find(|process| processes::runs(process.id, sediment)).map(|process| process.id)
        else {
            return Ok(());
        };
        let receiver = match self.end {
            RecordingEnd::Tracer => processes::tracer(program).unwrap_or(front),
            _ => front,
        };
        processes::signal(receiver, parameters.signal as i32);
        let started = Instant::now();
        let goes_on = || processes::runs(front, sediment) && is_traced(target);
        let limit =
            if GOES_ON.contains(&parameters.signal) { Duration::from_millis(150) } else { step_limit() };
        while goes_on() {
            if started.elapsed() > limit {
                processes::signal(receiver, CONT);
                processes::signal(front, INT);
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Command line of the recorder: `sediment record` with the drawn options.
pub(crate) fn record(room: &Room<'_>, parameters: &Parameters) -> Vec<String> {
    let mut words = vec![text(&room.bench.sediment)];
    words.extend(words_of(&["record", "--method", "call-sites", "-o", "recorded.gv"]));
    match parameters.startup {
        0 => {}
        1 => words.push("--startup".to_owned()),
        _ => words.extend(["--overhead".to_owned(), format!("{}%", parameters.overhead)]),
    }
    if parameters.affinity == 1 {
        words.push("--affinity".to_owned());
    }
    words
}

/// `--seconds` as drawn.
pub(crate) fn seconds(parameters: &Parameters) -> [String; 2] {
    ["--seconds".to_owned(), format!("{:.3}", f64::from(parameters.time) / 1000.0)]
}

/// Waits until a program is traced, or the recorder has ended.
pub(crate) fn attached(recorder: &WatchedCommand, program: i32) -> Result<(), Fault> {
    let command = recorder.command()?;
    recorder.until("does not attach", || {
        let ended = !Path::new(&format!("/proc/{command}/exe")).exists();
        (processes::tracer(program).is_some() || ended).then_some(())
    })
}

/// Waits until nothing of a command is traced or stopped.
pub(crate) fn let_go(target: &WatchedCommand) -> Result<(), Fault> {
    // While a thread executes another program, it takes the place of the first thread, so that a single check may find
    // neither.
    let mut untraced = 0;
    target.until("is still traced", || {
        untraced = if is_traced(target) { 0 } else { untraced + 1 };
        (untraced > 3).then_some(())
    })?;
    let mut calm = 0;
    target.until("is left stopped", || {
        let stopped = target.programs().iter().any(|process| processes::is_stopped(process.id));
        calm = if stopped { 0 } else { calm + 1 };
        // Children of programs that stop them start and end.
        (calm > 1).then_some(())
    })
}

fn is_traced(target: &WatchedCommand) -> bool {
    target.programs().iter().any(|process| processes::tracer(process.id).is_some())
}

/// Compares the code of all processes of a command with the files, unless the program changes its `own_code`.
pub(crate) fn code_is_whole(target: &WatchedCommand, own_code: bool) -> Result<(), Fault> {
    let programs = if own_code { Vec::new() } else { target.programs() };
    for process in programs {
        let found = processes::differences(process.id);
        if !found.changed.is_empty() {
            let (changed, first) = (found.changed.len(), found.first);
            let traced = if processes::tracer(process.id).is_some() { ", which is traced" } else { "" };
            let detail = format!("{changed} bytes in {}{traced}, the first in {first}", process.name);
            return Err(Fault::new(FaultKind::LeftChanged, detail));
        }
    }
    Ok(())
}

pub(crate) const INT: i32 = 2;
pub(crate) const TERM: i32 = 15;
const CONT: i32 = 18;

/// Signals that do not end anything by default: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH; and PIPE, which the
/// recorder ignores.
const GOES_ON: [u32; 9] = [13, 17, 18, 19, 20, 21, 22, 23, 28];

pub(crate) fn words_of(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Words that run the rest as an unprivileged user; none if we are this user.
pub(crate) fn nobody() -> Vec<String> {
    if !is_root() {
        return Vec::new();
    }
    words_of(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
}

pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|about| std::os::unix::fs::MetadataExt::uid(&about) == 0)
}

fn pid_namespace() -> Vec<String> {
    words_of(&["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"])
}

/// First difference of two outputs, on one line; None if they are equal.
pub(crate) fn difference(printed: &str, expected: &str) -> Option<String> {
    if printed == expected {
        return None;
    }
    let lines = printed.lines().count().max(expected.lines().count());
    let of = |text: &str, at: usize| text.lines().nth(at).unwrap_or("nothing").to_owned();
    let first = (0..lines).find(|at| of(printed, *at) != of(expected, *at)).unwrap_or(0);
    let (printed, expected) = (of(printed, first), of(expected, first));
    Some(format!("line {} is {printed:?} instead of {expected:?}", first + 1))
}
