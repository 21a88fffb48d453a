// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds calls that are worth inlining by hand, and the obstacles to inlining them.
//!
//! An inlined call saves at most the instructions of the call itself: the call, the return, saving and restoring
//! registers in the callee, and a linkage stub. This number, multiplied by the number of calls and divided by all
//! instructions of the run, is an upper bound of the gain. The bound ignores later simplifications by the compiler, and
//! the cost of larger code. Inlining large hot functions is rarely useful: candidates are ranked by the removed
//! overhead, not by the time in the callee.
//!
//! The rules for candidates follow the decisions of compilers with profiles: entry count against size, as in LLVM's
//! SampleProfileLoader and Go's profile-guided inliner.

use super::compiler_notes::CompilerNotes;
use sediment_core::binary::calls::{DirectCall, DirectCalls, instructions_per_call};
use sediment_core::binary::source_lines::{CompilationUnit, SourceLine, SourceLines};
use sediment_core::binary::{Binary, BinaryFunction};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::matching::identity;
use sediment_core::profile::source::ProfileSource;
use sediment_core::profile::{CallKind, FunctionIndex, FunctionKey, Profile, WeightUnit};
use std::collections::BTreeMap;

/// Thresholds for candidates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InlineThresholds {
    /// Smallest share of all instructions that a call must be able to save; a share of all calls if instructions are
    /// not known.
    pub least_saving: f64,
    /// Largest callee in bytes, unless nearly all its calls come from one function.
    pub largest_callee: u64,
}

impl Default for InlineThresholds {
    /// 0.1 % and 256 bytes.
    fn default() -> Self {
        Self { least_saving: 0.001, largest_callee: 256 }
    }
}

/// Share of a callee's calls from one function beyond which its size does not matter.
const NEARLY_ALL: f64 = 0.9;
/// Size of a call instruction in bytes, which inlining removes.
const CALL_SIZE: u64 = 5;
/// Number of instructions of a call and a return, if the callee's own instructions are not known.
const LEAST_PER_CALL: u32 = 2;

/// A binary with the data that belongs to it.
#[derive(Debug)]
pub struct AdvisedProgram<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its functions.
    pub binary: &'a Binary,
    /// Base name of its file.
    pub file_name: &'a str,
    /// Its debug information, if there is any.
    pub lines: Option<&'a SourceLines>,
    /// Notes of the compiler on calls that it did not inline.
    pub notes: &'a CompilerNotes,
}

/// Obstacle to inlining a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// A function that calls itself.
    Recursive,
    /// The callee is in another library.
    OtherDso,
    /// No direct call was found: it is made through a pointer or a virtual table.
    Indirect,
    /// The callee is exported, and the call goes through the linkage table, so that another library may interpose.
    Interposable,
    /// The callee is defined in another compilation unit, and there is no link-time optimisation.
    OtherUnit,
    /// The address of the callee is taken, so it stays in the program in addition to its inlined copies.
    AddressTaken,
}

impl Obstacle {
    /// Describes the obstacle in a few words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Obstacle::Recursive => "recursive",
            Obstacle::OtherDso => "in another library",
            Obstacle::Indirect => "called through a pointer",
            Obstacle::Interposable => "exported and replaceable",
            Obstacle::OtherUnit => "defined in another unit, no LTO",
            Obstacle::AddressTaken => "its address is taken",
        }
    }

    /// True if no change to the callee's definition allows the compiler to inline it.
    #[must_use]
    pub fn forbids(self) -> bool {
        matches!(self, Obstacle::Recursive | Obstacle::OtherDso | Obstacle::Indirect)
    }
}

/// Calls from one function to another.
#[derive(Debug, Clone, PartialEq)]
pub struct InlineCandidate {
    /// The calling function.
    pub caller: FunctionKey,
    /// The called function.
    pub callee: FunctionKey,
    /// Number of calls, in the profile's unit.
    pub calls: u128,
    /// Share of all recorded calls, 0 to 1.
    pub share: f64,
    /// Share of the callee's calls that come from this caller, 0 to 1.
    pub share_of_callee: f64,
    /// Size of the callee in bytes.
    pub size: u64,
    /// Number of calls of the callee in the caller's code; `None` if the code cannot be read.
    pub sites: Option<usize>,
    /// Definition of the callee.
    pub definition: Option<SourceLine>,
    /// Lines of the calls.
    pub lines: Vec<SourceLine>,
    /// Number of instructions of one call in addition to the callee's own work.
    pub instructions_per_call: u32,
    /// Upper bound of the share of all instructions that inlining saves; `None` if the profile does not count
    /// instructions.
    pub saving: Option<f64>,
    /// Largest growth of the code in bytes.
    pub growth: i64,
    /// Obstacles, sorted.
    pub obstacles: Vec<Obstacle>,
    /// Change that would allow inlining.
    pub change: String,
    /// The compiler's reason for not inlining it.
    pub compiler_reason: Option<String>,
}

impl InlineCandidate {
    /// Rank of a candidate: the saved instructions, or the number of calls.
    #[must_use]
    pub fn weight(&self) -> f64 {
        self.saving.unwrap_or(self.share)
    }
}

/// Calls worth inlining by hand, and the rest of the profile's calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// The calls that are worth inlining, the best first.
    pub candidates: Vec<InlineCandidate>,
    /// The best calls that are not worth inlining or cannot be inlined, the heaviest first.
    pub others: Vec<InlineCandidate>,
    /// Number of instructions in the whole run, if the profile counts them.
    pub instructions: Option<u128>,
    /// True if there is debug information; without it, definitions and units are unknown.
    pub has_lines: bool,
}

impl Advice {
    /// Returns the bounds of the total savings of the first candidates, by the number of candidates.
    #[must_use]
    pub fn cumulative(&self) -> Vec<f64> {
        let mut sum = 0.0;
        self.candidates
            .iter()
            .map(|candidate| {
                sum += candidate.weight();
                sum
            })
            .collect()
    }
}

/// Number of other calls that are listed.
const MOST_OTHERS: usize = 10;

/// Finds the calls of a program that are worth inlining by hand.
///
/// # Errors
/// If the profile has no calls of this program.
pub fn advise(
    profile: &Profile,
    program: &AdvisedProgram<'_>,
    settings: &InlineThresholds,
) -> Result<Advice> {
    let label = identity::dso_of(profile, program.binary, program.file_name).map(|found| found.label);
    let view = ProgramView::of(profile, program, label.as_deref());
    let mut all: Vec<InlineCandidate> = profile
        .edges()
        .into_iter()
        .filter_map(|(caller, callee, facts)| {
            let calls = facts.count.filter(|count| *count > 0)?;
            view.candidate(caller, callee, calls, facts.kind)
        })
        .collect();
    if all.is_empty() {
        return Err(Error::new(
            ErrorCode::NotInProfile,
            format!("no calls by functions of {} in the profile", program.file_name),
        )
        .with_hint(format!("the profile has functions of: {}", crate::order::held(profile))));
    }
    // Edges are sorted by name; a stable sort keeps this order for equal weights.
    all.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    let worth = |candidate: &InlineCandidate| {
        let small = candidate.size <= settings.largest_callee;
        let only_caller = candidate.share_of_callee >= NEARLY_ALL && candidate.sites == Some(1);
        candidate.weight() >= settings.least_saving
            && candidate.size > 0
            && (small || only_caller)
            && !candidate.obstacles.iter().any(|obstacle| obstacle.forbids())
    };
    let (candidates, mut others): (Vec<_>, Vec<_>) = all.into_iter().partition(worth);
    others.truncate(MOST_OTHERS);
    Ok(Advice { candidates, others, instructions: view.instructions, has_lines: program.lines.is_some() })
}

/// The program, prepared for queries about each call.
struct ProgramView<'a> {
    profile: &'a Profile,
    program: &'a AdvisedProgram<'a>,
    label: Option<&'a str>,
    by_name: BTreeMap<&'a str, Vec<&'a BinaryFunction>>,
    code: DirectCalls,
    /// Number of all calls, and of the calls to each callee.
    calls: u128,
    calls_in: Vec<u128>,
    instructions: Option<u128>,
}

impl<'a> ProgramView<'a> {
    fn of(profile: &'a Profile, program: &'a AdvisedProgram<'a>, label: Option<&'a str>) -> Self {
        let mut by_name: BTreeMap<&str, Vec<&BinaryFunction>> = BTreeMap::new();
        for function in &program.binary.functions {
            by_name.entry(&function.name).or_default().push(function);
        }
        let mut calls_in = vec![0u128; profile.function_count()];
        for (_, callee, facts) in profile.edges() {
            let sum = &mut calls_in[callee.index()];
            *sum = sum.saturating_add(facts.count.unwrap_or(0));
        }
        let calls = calls_in.iter().fold(0u128, |sum, count| sum.saturating_add(*count)).max(1);
        Self {
            profile,
            program,
            label,
            by_name,
            code: DirectCalls::of(program.bytes, program.binary),
            calls,
            calls_in,
            instructions: instructions(profile),
        }
    }

    fn function(&self, key: &FunctionKey) -> Option<&'a BinaryFunction> {
        let candidates = self.by_name.get(key.name.as_str())?;
        let exact = candidates.iter().find(|function| key.file.is_some() && function.file == key.file);
        exact.or_else(|| candidates.first()).copied()
    }

    fn candidate(
        &self,
        caller: FunctionIndex,
        callee: FunctionIndex,
        calls: u128,
        kind: Option<CallKind>,
    ) -> Option<InlineCandidate> {
        let (caller_key, callee_key) = (self.profile.key(caller), self.profile.key(callee));
        if self.label.is_none() || caller_key.dso.as_deref() != self.label {
            return None;
        }
        let caller_here = self.function(caller_key)?;
        let same_dso = callee_key.dso == caller_key.dso;
        let callee_here = if same_dso { self.function(callee_key) } else { None };
        let mut obstacles = Vec::new();
        let mut sites: Vec<DirectCall> = Vec::new();
        let mut other_unit = None;
        if caller == callee {
            obstacles.push(Obstacle::Recursive);
        }
        match callee_here {
            None => obstacles.push(Obstacle::OtherDso),
            Some(function) => {
                let end = caller_here.address.saturating_add(caller_here.size);
                let inside = |call: &&DirectCall| (caller_here.address..end).contains(&call.address);
                sites = self.code.to(function.address).iter().filter(inside).copied().collect();
                if kind == Some(CallKind::Indirect) || self.code.known && sites.is_empty() {
                    obstacles.push(Obstacle::Indirect);
                }
                if sites.iter().any(|call| call.through_stub) {
                    obstacles.push(Obstacle::Interposable);
                }
                other_unit = self.other_unit(caller_here, function);
                if other_unit == Some(true) {
                    obstacles.push(Obstacle::OtherUnit);
                }
                if self.profile.facts(callee).taken || self.code.taken.contains(&function.address) {
                    obstacles.push(Obstacle::AddressTaken);
                }
            }
        }
        obstacles.sort_unstable();
        let lines: Vec<SourceLine> = {
            let lines = self.program.lines;
            let mut lines: Vec<_> = sites.iter().filter_map(|call| lines?.line_at(call.address)).collect();
            lines.sort_unstable();
            lines.dedup();
            lines
        };
        let through_stub = u32::from(sites.iter().any(|call| call.through_stub));
        let per_call = callee_here
            .and_then(|function| instructions_per_call(self.program.bytes, self.program.binary, function))
            .unwrap_or(LEAST_PER_CALL)
            + through_stub;
        let size = callee_here.map(|f| f.size).filter(|size| *size > 0);
        let size = size.or(self.profile.facts(callee).size).unwrap_or(0);
        let saving = self.instructions.map(|all| calls as f64 * f64::from(per_call) / all as f64);
        let compiler_reason = self
            .program
            .notes
            .reason(&caller_key.name, &callee_key.name, lines.iter().map(|l| (l.file.as_str(), l.line)))
            .map(str::to_owned);
        Some(InlineCandidate {
            caller: caller_key.clone(),
            callee: callee_key.clone(),
            calls,
            share: calls as f64 / self.calls as f64,
            share_of_callee: calls as f64 / self.calls_in[callee.index()].max(1) as f64,
            size,
            sites: self.code.known.then_some(sites.len()),
            definition: callee_here.and_then(|function| self.program.lines?.line_at(function.address)),
            lines,
            instructions_per_call: per_call,
            saving,
            growth: self.growth(callee_here, size, sites.len(), &obstacles),
            change: change(&obstacles, callee_here, other_unit),
            obstacles,
            compiler_reason,
        })
    }

    /// True if two functions were compiled in different units; `None` if unknown.
    fn other_unit(&self, caller: &BinaryFunction, callee: &BinaryFunction) -> Option<bool> {
        let lines = self.program.lines?;
        let (one, other): (CompilationUnit, CompilationUnit) =
            (lines.unit_at(caller.address)?, lines.unit_at(callee.address)?);
        Some(one.name != other.name && !(one.link_time_optimised && other.link_time_optimised))
    }

    fn growth(
        &self,
        callee: Option<&BinaryFunction>,
        size: u64,
        sites: usize,
        obstacles: &[Obstacle],
    ) -> i64 {
        let copies = size.saturating_sub(CALL_SIZE).saturating_mul(sites.max(1) as u64);
        let all_sites = callee.map_or(usize::MAX, |function| self.code.to(function.address).len());
        let goes_away = callee.is_some_and(|function| function.local)
            && sites == all_sites
            && !obstacles.contains(&Obstacle::AddressTaken);
        let saved = if goes_away { size } else { 0 };
        i64::try_from(copies).unwrap_or(i64::MAX).saturating_sub(i64::try_from(saved).unwrap_or(i64::MAX))
    }
}

/// Number of instructions in the run, if own cost counts instructions: callgrind's event `Ir`, in an unmerged profile.
fn instructions(profile: &Profile) -> Option<u128> {
    let counts_instructions = profile.unit == WeightUnit::Calls
        && profile.source.len() == 1
        && profile.source.iter().all(|source| {
            ["Ir", "instructions", "instructions:u"]
                .contains(&ProfileSource::from(source.as_str()).event.as_str())
        });
    let sum = || {
        let own = profile.functions().into_iter().filter_map(|function| profile.facts(function).samples);
        own.fold(0u128, u128::saturating_add)
    };
    counts_instructions.then(sum).filter(|all| *all > 0)
}

/// Describes the concrete change for these obstacles. Without debug information it is not known whether the callee is
/// in another unit.
fn change(obstacles: &[Obstacle], callee: Option<&BinaryFunction>, other_unit: Option<bool>) -> String {
    let has = |obstacle| obstacles.contains(&obstacle);
    if has(Obstacle::Recursive) {
        return "none: recursive calls cannot be inlined".to_owned();
    }
    if has(Obstacle::OtherDso) {
        return "none here: only a static inline function in that library's header would help".to_owned();
    }
    if has(Obstacle::Indirect) {
        return "compare the pointer with the usual target, call that target by name, then mark it inline"
            .to_owned();
    }
    let mut steps = Vec::new();
    if has(Obstacle::Interposable) {
        steps.push("give it hidden visibility, or build with -fno-semantic-interposition");
    }
    if has(Obstacle::OtherUnit) {
        steps.push("move its definition to a header as static inline, or build both units with -flto");
    }
    if other_unit.is_none() && callee.is_some_and(|function| !function.local) {
        steps.push("if its definition is in another unit: move it to a header as static inline, or build both with -flto");
    }
    steps.push(match callee {
        Some(function) if function.local => "mark it inline with __attribute__((always_inline))",
        _ if has(Obstacle::OtherUnit) => {
            "mark it __attribute__((always_inline)) if the compiler still refuses"
        }
        _ => "mark it inline with __attribute__((always_inline)); static, if no other unit needs it",
    });
    steps.join("; ")
}
