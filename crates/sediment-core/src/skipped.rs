// SPDX-License-Identifier: MIT OR Apache-2.0
//! Items that a step skips, by reason: [`Skipped`], and the tables of reasons, each with its code for programs and its
//! text for people. Codes are stable between releases; texts may change.

use std::collections::BTreeMap;

/// Items that a step skipped, by reason: their number, their weight, and one example for each reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<Reason, ReasonTally>);

/// One reason of [`Skipped`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReasonTally {
    /// Number of items (rows, records, names, edges) that were skipped for this reason.
    pub items: u64,
    /// Weight of these items, in the unit of the step's input; 0 if items have no weight.
    pub weight: u128,
    /// The first item as an example; not escaped, callers must escape it.
    pub example: Option<String>,
}

impl Skipped {
    /// Counts one item of the given weight.
    pub fn add(&mut self, reason: Reason, weight: u128, example: impl AsRef<[u8]>) {
        self.add_many(reason, 1, weight, example);
    }

    /// Counts several items at once; `weight` is their sum. An empty example is ignored.
    pub fn add_many(&mut self, reason: Reason, items: u64, weight: u128, example: impl AsRef<[u8]>) {
        if items == 0 {
            return;
        }
        let tally = self.0.entry(reason).or_default();
        tally.items = tally.items.saturating_add(items);
        tally.weight = tally.weight.saturating_add(weight);
        let example = example.as_ref();
        if tally.example.is_none() && !example.is_empty() {
            let beginning = String::from_utf8_lossy(&example[..example.len().min(800)]);
            tally.example = Some(beginning.chars().take(200).collect());
        }
    }

    /// Adds all skipped items of another step.
    pub fn append(&mut self, other: &Self) {
        for (reason, tally) in &other.0 {
            self.add_many(*reason, tally.items, tally.weight, tally.example.as_deref().unwrap_or(""));
        }
    }

    /// Returns the tallies by reason, in the order of their texts.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, &ReasonTally)> {
        let mut lines: Vec<_> = self.0.iter().map(|(reason, tally)| (*reason, tally)).collect();
        lines.sort_by_cached_key(|(reason, _)| reason.to_string());
        lines.into_iter()
    }

    /// Number of items skipped for `reason`.
    #[must_use]
    pub fn items(&self, reason: Reason) -> u64 {
        self.0.get(&reason).map_or(0, |tally| tally.items)
    }

    /// True if nothing was skipped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Weight of the items whose reason satisfies `is_meant`.
    pub fn weight(&self, is_meant: impl Fn(Reason) -> bool) -> u128 {
        let meant = self.0.iter().filter(|(reason, _)| is_meant(**reason));
        meant.fold(0, |sum, (_, tally)| sum.saturating_add(tally.weight))
    }
}

impl Reason {
    /// True for skipped own cost, as opposed to calls and others.
    #[must_use]
    pub fn is_own_cost(self) -> bool {
        matches!(self, Self::Nowhere(Amount::OwnCost | Amount::SampleCost, ..))
    }

    /// True if calls or cost of a program were lost; false for branches that are not calls.
    #[must_use]
    pub fn is_loss(self) -> bool {
        !matches!(
            self,
            Self::NoCall(_) | Self::StubPassage | Self::InnerBranch | Self::InlinedFrame | Self::BoltToItself
        )
    }

    /// True if it was, or may have been, code of a run-time compiler.
    #[must_use]
    pub fn is_compiled_code(self) -> bool {
        use Nowhere::{AnonymousCode, AnonymousObject, AnonymousOrVdso, CompiledCode, Memory};
        match self {
            Self::Nowhere(
                _,
                CompiledCode | AnonymousCode | AnonymousObject | AnonymousOrVdso | Memory,
                _,
            ) => true,
            reason => reason == Self::MemoryEnd,
        }
    }
}

impl Nowhere {
    /// Reason for an amount at this place, or for calls with an end at this place.
    #[must_use]
    pub fn of(self, amount: Amount) -> Reason {
        Reason::Nowhere(amount, self, Side::Either)
    }
}

/// Returns the address of each end of a call, or the reason to skip the call.
///
/// # Errors
/// If one of the ends is unknown.
pub fn both<T>(amount: Amount, from: Result<T, Nowhere>, to: Result<T, Nowhere>) -> Result<(T, T), Reason> {
    let from = from.map_err(|why| Reason::Nowhere(amount, why, Side::From))?;
    Ok((from, to.map_err(|why| Reason::Nowhere(amount, why, Side::To))?))
}

/// Makes enums from rows `Variant "code" "text",`. A second block has variants with parts, which add codes and texts.
macro_rules! coded {
    ($(#[$meta:meta])* $name:ident { $($variant:ident $code:literal $text:literal,)* }
     $({ $($(#[$about:meta])* $whole:ident($($part:ident: $of:ty),+) $stem:literal $begin:literal,)* })?) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
            $($($(#[$about])* $whole($($of),+),)*)?
        }

        impl $name {
            /// Variants without parts, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Code and text of the variant and of its parts.
            pub(crate) fn words(self) -> Vec<[&'static str; 2]> {
                match self {
                    $(Self::$variant => vec![[$code, $text]],)*
                    $($(Self::$whole($($part),+) => [vec![[$stem, $begin]], $($part.words()),+].concat(),)*)?
                }
            }

            /// Name for programs, in kebab-case.
            #[must_use]
            pub fn code(self) -> String {
                $crate::skipped::joined(&self.words(), 0, "-")
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&$crate::skipped::joined(&self.words(), 1, " "))
            }
        }
    };
}
pub(crate) use coded;

/// Joins the codes (0) or texts (1).
pub(crate) fn joined(words: &[[&'static str; 2]], which: usize, between: &str) -> String {
    let all: Vec<&str> = words.iter().map(|word| word[which]).filter(|word| !word.is_empty()).collect();
    all.join(between)
}

coded! {
    /// Reason for skipping an item. The text names the items.
    Reason {
        // Every profile file
        UnacceptableName "unacceptable-name" "names that a profile cannot hold",
        EdgeWithoutEnd "edge-without-end" "edges of skipped functions",
        ForeignAttribute "foreign-attribute" "unknown attributes",
        UnacceptableText "unacceptable-text" "attributes whose text a profile cannot hold",
        UnresolvedStub "unresolved-stub" "PLT stubs without a name",
        StubOfItself "stub-of-itself" "calls from a PLT stub to its own function",
        Percentage "percentage" "percentages of running time",
        NoWeights "no-weights" "weights, which the static graph does not have, so all its edges are kept",
        // Readers
        InlinedFrame "inlined-frame" "frames that were inlined into their callers",
        LostRecord "lost-record" "records lost by the kernel",
        TrailingByte "trailing-byte" "bytes after the last record of a pipe",
        OtherEvent "other-event" "samples of other events",
        GuestSample "guest-sample" "samples of a guest system",
        NoCallers "no-callers"
            "callers: no sample has a call stack, because the program has no frame pointers; compile with -fno-omit-frame-pointer, or record with --call-graph dwarf and import the output of perf script",
        UnreadEvent "unread-event" "samples of other events than the imported one",
        StrayLine "stray-line" "lines of perf script that are not samples",
        UnreadableBranch "unreadable-branch" "damaged branches",
        LaterEventStack "later-event-stack" "stacks of another event than the first",
        KernelStack "kernel-stack" "stacks of the kernel without its entry",
        UnresolvedEnd "unresolved-end" "calls from or to addresses without a symbol for perf",
        UnresolvedAddress "unresolved-address" "addresses without a symbol for perf",
        KernelEnd "kernel-end" "calls from or to the kernel, a hypervisor or a guest",
        MemoryEnd "memory-end" "calls from or to memory outside every mapped file",
        PathlessEnd "pathless-end" "calls from or to objects whose name is not UTF-8 or too long for a path",
        CutEnd "cut-end" "calls from or to names cut off at the width of their column",
        NoBranch "no-branch" "rows of samples without a branch",
        InnerBranch "inner-branch" "branches within one function, in a recording of all branches",
        LaterEventRow "later-event-row" "rows of another event than the first with branches",
        GroupCount "group-count" "counts of the other events of a group, in rows of the first",
        CallTree "call-tree" "lines of call trees, which have no branches",
        NamelessEnd "nameless-end" "calls from or to code without a symbol",
        BelowMain "below-main" "calls from or to \"(below main)\", which is not a function",
        NotUtf8End "not-utf8-end" "calls from or to an object whose path is not UTF-8",
        UnknownLine "unknown-line" "unknown kinds of callgrind lines",
        UncountedCall "uncounted-call" "calls that are counted as 0",
        ProcessName "process-name" "names of processes above the outermost frames",
        ZeroSample "zero-sample" "samples with the value 0",
        NegativeSample "negative-sample" "samples with a negative value",
        StacklessSample "stackless-sample" "samples without a call stack",
        HashedEnd "hashed-end" "calls from or to a function that is named by a hash alone",
        BlockCount "block-count" "basic block counts, which have no calls",
        RoundedTick "rounded-tick" "ticks that could not be spread over neighbouring bytes: too many addresses",
        CallFromOutside "call-from-outside" "calls from outside the program's code",
        CallBeyondMemory "call-beyond-memory" "calls at addresses beyond the memory limit for this file size",
        UntracedCaller "untraced-caller" "calls from code that uftrace did not trace, for example the start of a thread",
        UntracedEnd "untraced-end" "calls from or to code without a symbol for uftrace",
        FunctionBeyondMemory "function-beyond-memory" "functions beyond the memory limit for this file size",
        NoFunctionRecord "no-function-record" "records of the kernel, perf or other events, which are not functions",
        UftraceLost "uftrace-loss" "records lost by uftrace",
        RecordlessLine "recordless-line" "lines that are not uftrace records",
        EntryBeyondMemory "entry-beyond-memory" "function entries beyond the memory limit for this file size",
        UnnamedBlock "unnamed-block" "blocks outside the programs and libraries of the log",
        NotUtf8Block "not-utf8-block" "blocks of programs or libraries whose path is not UTF-8",
        ChasedRun "chased-run"
            "runs of small functions whose blocks valgrind joined to their callers' (record with --vex-guest-chase=no)",
        NoEnd "no-end" "ends of runs, because the log has no exit code",
        UnnamedPassage "unnamed-passage" "transitions from or to blocks of unknown programs and libraries",
        BoltOutside "bolt-outside" "calls from or to addresses outside the program, which BOLT does not name",
        BoltToItself "bolt-to-itself" "branches to the first byte of their own function: recursion or loops",
        BoltSampleOutside "bolt-sample-outside" "samples outside of the program",
        MemoryAccess "memory-access" "memory accesses, which are not calls",
        NumberedName "numbered-name" "numbers that BOLT appends to local symbols of the same name",
        UnknownProgramEnd "unknown-program-end" "calls from or to an unknown program",
        UnknownProgramSample "unknown-program-sample" "samples in an unknown program",
        UnknownProgramRange "unknown-program-range" "ranges without a branch in an unknown program",
        BranchlessRange "branchless-range" "ranges without a branch, reduced to their function",
        LaterEvent "later-event" "samples of another event than the first",
        FunctionCounter "function-counter" "counters of functions, which contain neither callers nor an order",
        // From places to functions
        ReplacedFile "replaced-file" "files that changed since they were recorded",
        UnaskedFile "unasked-file" "files of another build, not named by --binary",
        OtherMachineFile "other-machine-file" "files of this machine that cannot be compared with another machine's recording, because they have no build-id",
        IndirectVariant "indirect-variant" "variants of indirect functions (IFUNC): the recording has only calls of their linkage stub",
        StrippedSize "stripped-size" "sizes of functions of stripped programs and libraries",
        UnknownSize "unknown-size" "sizes of functions missing from the given file",
        SmallerSize "smaller-size" "smaller sizes of functions with two sizes",
        AmbiguousName "ambiguous-name" "source files of functions that share their name within a DSO: the recording lacks them",
        UnacceptableSource "unacceptable-source" "the recorder's description, which a profile cannot hold",
        StubPassage "stub-passage" "transitions from a linkage stub to its own function",
        BlocksBeyond "blocks-beyond" "block counts that exceed 128 bits",
        CountersBeyond "counters-beyond" "counters that exceed 128 bits",
        WrappedCounters "wrapped-counters" "functions with a counter beyond 63 bits or below 0",
        DamagedCounters "damaged-counters" "damaged files of counters",
        NoNotes "no-notes" "files of counters without the .gcno of their compilation",
        UnnamedCounters "unnamed-counters" "counters of functions that are not in the .gcno",
        OtherInstrumentation "other-instrumentation" "counters of another kind of instrumentation",
        AmbiguousBlocks "ambiguous-blocks" "block counts of functions that share their name",
        FewSamples "few-samples" "block counts of functions with too few samples to find cold blocks",
        SparseBlocks "sparse-blocks" "block counts with numbers that no compiler assigns",
        NoFlow "no-flow" "counters of functions with too large a control-flow graph",
        NoStatement "no-statement" "executions of code that belongs to no source statement",
        UnknownBias "unknown-bias" "block counts of files with unknown load address",
        UnsupportedBlockMap "unsupported-block-map" "block counts of files whose block map has a newer version or an unsupported compression",
        NoLines "no-lines" "code without source lines in the debug information",
        NoFirstLine "no-first-line" "calls in functions whose first line is unknown",
        SeveralBuildIds "several-build-ids" "build-ids of DSOs that were recorded in several builds",
        // Graphs of compilers
        NoUnitGraph "no-unit-graph" "files that have the name of a call graph, but are not one",
        UnreadableObject "unreadable-object" "damaged object files",
        LinkedProfile "linked-profile" "profiles of linked programs",
        RangedCode "ranged-code" "functions that must stay in place: code finds them by an address range (OCaml, or code between two labels), or they run on into the next function",
        UnwritableFunction "unwritable-function" "functions that cannot be written, because the format does not allow their name or number of counters",
        PointerCall "pointer-call" "calls through pointers, whose targets are unknown",
        AbsentFunction "absent-function" "functions missing from the linked file, with their calls",
        OtherUnit "other-unit" "units missing from the linked file",
        RivalUnit "rival-unit" "units whose functions were linked from another unit",
        ContestedFunction "contested-function" "functions that another unit describes with a better match to the linked file",
        OlderUnit "older-unit" "functions for which the graph of the whole program was used instead",
        // Order and link
        NotInInputs "not-in-inputs" "functions that no input defines",
        NamelessFunction "nameless-function" "functions without names, recorded in stripped files",
        NotInBinary "not-in-binary" "functions missing from the binary",
        CallOutside "call-outside" "calls from or to functions outside the order",
        RunOutside "run-outside" "runs of functions outside the order",
        RarePair "rare-pair" "affinity edges below the weight limit",
        NoOwnSection "no-own-section" "functions without a section of their own",
        StartFile "start-file" "functions of the compiler's start files (such as crt1.o), which no order moves",
        SharedName "shared-name" "functions that share their name with a heavier or earlier function, and are placed together with it",
        AlreadyListed "already-listed" "functions listed already",
        UnwritableName "unwritable-name" "functions whose names the linker's language cannot express",
        // Recording by call sites
        FileBeyondBudget "file-beyond-budget" "files beyond the memory limit of call sites (--max-memory), not recorded",
        OtherArchitecture "other-architecture" "programs of another architecture, not recorded",
        UnreadableProgram "unreadable-program" "unreadable programs, not recorded",
        UnreadableMapping "unreadable-mapping" "mapped files that are not readable programs, not recorded",
        WritableCode "writable-code" "files with writable code, which is not recorded",
        ChangedCode "changed-code" "files whose code differs from memory, not recorded",
        UntraceableProcess "untraceable-process" "processes that cannot be recorded",
        LeftProcess "left-process" "processes that the recorder lost before they ended",
        OtherRights "other-rights" "setuid rights, which programs lose while they are traced",
        RefusedSite "refused-site" "call sites that cannot be redirected safely, not counted",
        LeftFile "left-file" "files that are left alone (no unwind tables, written in Go, excluded), not recorded",
        NoRoomForStubs "no-room-for-stubs" "files without free address space near them for the counting code, not recorded",
        CallIntoMemory "call-into-memory" "calls of code outside every mapped file",
        UncountedTarget "uncounted-target" "indirect calls with too many targets to count each",
        TracingProgram "tracing-program" "programs that trace processes (debuggers, leak checkers), not recorded, like the programs that they start",
        LimitedProgram "limited-program" "programs under a seccomp filter or a limit of memory or file size, not recorded",
        OccupiedRegister "occupied-register" "programs that use the register gs, not recorded",
        LeftStubs "left-stubs" "processes that keep the recorder's memory, because threads may return to it",
        UnenteredProgram "unentered-program" "programs that could not map the recorder's memory, not recorded",
    } {
        /// Calls or own cost outside of known functions.
        Nowhere(amount: Amount, why: Nowhere, side: Side) "" "",
        /// Branches that are not calls.
        NoCall(why: NoCall) "no-call" "branches that are not calls:",
    }
}

coded! {
    /// Kind of what an unknown place was part of.
    Amount {
        OwnCost "own-cost" "own cost",
        SampleCost "sample-cost" "own cost of samples",
        Calls "calls" "calls",
        Branches "branches" "branches",
        AffinityEdges "near-pairs" "affinity edges",
    }
}

coded! {
    /// Why no function is known for an address or frame.
    Nowhere {
        CompiledCode "compiled-code" "in JIT-compiled code",
        AnonymousCode "anonymous-code" "in JIT-compiled or anonymous code",
        AnonymousObject "anonymous-object" "in JIT-compiled code or anonymous memory",
        AnonymousOrVdso "anonymous-or-vdso" "in JIT-compiled code, [vdso] or anonymous memory",
        Memory "memory" "in memory outside every mapped file",
        Interpreted "interpreted" "of an interpreted program",
        System "system" "in the kernel, a hypervisor or a guest",
        Kernel "kernel" "in the kernel",
        Vdso "vdso" "in the kernel's [vdso]",
        Unmapped "unmapped" "at an address that was not mapped at the time",
        NoAddress "no-address" "without an address",
        SeveralProcesses "several-processes" "at an address that several processes use, without the process",
        NoSymbol "no-symbol" "at an address without a symbol for perf",
        NoName "no-name" "at an address without a name for the profiler",
        Blurred "blurred" "that perf merged with the sampled address",
        NotInlined "not-inlined" "in a function that perf treats as inlined (--no-inline names it)",
        CutOff "cut-off" "in a frame whose line is cut off",
        NotUtf8 "not-utf8" "in a file whose name is not UTF-8",
        PathNotUtf8 "path-not-utf8" "in a file whose path is not UTF-8",
        NoMapping "no-mapping" "at an address that the profile maps to no file",
        UnacceptableLength "unacceptable-length" "in a function whose name is empty or longer than 4096 bytes",
        Nameless "nameless" "in code without a function name",
        Hashed "hashed" "of a function that is named by a hash alone",
        NotAtHand "not-at-hand" "at an address in a missing program or library",
        NotLoaded "not-loaded" "at an address that no segment of the file loads",
        NoFunction "no-function" "at an address outside every function symbol",
        StubWithoutTarget "stub-without-target" "in a linkage stub of an unknown function",
        Unacceptable "unacceptable" "with a name or DSO that a profile cannot hold",
    }
}

coded! {
    /// Which end of a call is nowhere.
    Side {
        Either "" "",
        From "from" "(from there)",
        To "to" "(to there)",
    }
}

coded! {
    /// Kind of a branch that is not a call.
    NoCall {
        Return "return" "returns",
        ConditionalJump "conditional-jump" "conditional jumps",
        Jump "jump" "jumps",
        IndirectJump "indirect-jump" "indirect jumps",
        TailJump "tail-jump" "tail jumps to another function",
        Inside "inside" "inside one function",
        IntoTheMiddle "into-the-middle" "into the middle of a function",
        ColdPart "cold-part" "between a function and its cold part",
        SystemCall "system-call" "system calls and returns from them",
        PrintedSystemCall "printed-system-call" "system calls and their returns",
        Interrupt "interrupt" "interrupts, faults and returns from them",
        PrintedInterrupt "printed-interrupt" "interrupts",
        Aborted "aborted" "transaction aborts",
        OutsideTransaction "outside-transaction" "branches outside of a transaction",
        WrongPath "wrong-path" "on a path that the processor executed speculatively and discarded",
        Other "other" "of unknown type",
        PrintedOther "printed-other" "branches of unknown type",
    }
}
