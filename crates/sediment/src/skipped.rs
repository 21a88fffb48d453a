// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that a step skips, by reason: [`Skipped`], and the tables of reasons, each with its code for programs
//! and its text for people. Codes stay from release to release; texts may change.

use std::collections::BTreeMap;

/// Items that a step skipped, by reason: how many items, how much weight, and one example of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<Reason, Tally>);

/// One reason of [`Skipped`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of items (rows, records, names, edges) that were skipped for this reason.
    pub items: u64,
    /// The weight they carried, in the unit of the step's input; 0 where items have none.
    pub weight: u128,
    /// The first item met, as an example; raw, to be escaped by whoever prints it.
    pub example: Option<String>,
}

impl Skipped {
    /// Counts one item of the given weight.
    pub fn add(&mut self, reason: Reason, weight: u128, example: impl AsRef<[u8]>) {
        self.add_many(reason, 1, weight, example);
    }

    /// Counts several items at once; `weight` is their sum. An empty example is none.
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

    /// The lines by reason, in the order of their texts.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, &Tally)> {
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

    /// The weight of what `is_meant`.
    pub fn weight(&self, is_meant: impl Fn(Reason) -> bool) -> u128 {
        let meant = self.0.iter().filter(|(reason, _)| is_meant(**reason));
        meant.fold(0, |sum, (_, tally)| sum.saturating_add(tally.weight))
    }
}

impl Reason {
    /// True if own cost was skipped, not calls or anything else.
    #[must_use]
    pub fn is_own_cost(self) -> bool {
        matches!(self, Self::Nowhere(Amount::OwnCost | Amount::SampleCost, ..))
    }

    /// True if it was, or may have been, code from a run-time compiler.
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
    /// The reason for an amount that was spent here, or for calls with either end here.
    #[must_use]
    pub fn of(self, amount: Amount) -> Reason {
        Reason::Nowhere(amount, self, Side::Either)
    }
}

/// The address of each end of a call, or the reason for which the call is skipped.
///
/// # Errors
/// Where one of them is nowhere.
pub(crate) fn both<T>(
    amount: Amount,
    from: Result<T, Nowhere>,
    to: Result<T, Nowhere>,
) -> Result<(T, T), Reason> {
    let from = from.map_err(|why| Reason::Nowhere(amount, why, Side::From))?;
    Ok((from, to.map_err(|why| Reason::Nowhere(amount, why, Side::To))?))
}

/// Makes enums of rows `Variant "code" "text",`. A second block has variants with parts, whose codes and texts follow its own.
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
            /// Those without parts, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Code and text, and those of the parts.
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

/// The codes (0) or texts (1) in one.
pub(crate) fn joined(words: &[[&'static str; 2]], which: usize, between: &str) -> String {
    let all: Vec<&str> = words.iter().map(|word| word[which]).filter(|word| !word.is_empty()).collect();
    all.join(between)
}

coded! {
    /// Why something was skipped. The text says what it was.
    Reason {
        // Every profile file
        UnacceptableName "unacceptable-name" "names that cannot stand in a profile",
        EdgeWithoutEnd "edge-without-end" "edges of functions that were left out",
        ForeignAttribute "foreign-attribute" "attributes that are no part of a profile",
        UnacceptableText "unacceptable-text" "attributes whose text cannot stand in a profile",
        UnresolvedStub "unresolved-stub" "PLT stubs without a name",
        StubOfItself "stub-of-itself" "calls from a PLT stub to its own function",
        Percentage "percentage" "percentages of running time",
        NoWeights "no-weights" "weights: this is a static graph that has none, and its edges are kept without",
        // Readers
        InlinedFrame "inlined-frame" "frames that were inlined into their callers",
        LostRecord "lost-record" "records that the kernel had no room for",
        OtherEvent "other-event" "samples of other events",
        GuestSample "guest-sample" "samples of a guest system",
        NoCallers "no-callers"
            "callers, as no call stack holds one: the program keeps no frame pointers; compile it with \
             -fno-omit-frame-pointer, or record with --call-graph dwarf and import what perf script prints",
        UnreadEvent "unread-event" "samples of another event than the one that is read",
        StrayLine "stray-line" "lines of perf script that are no samples",
        UnreadableBranch "unreadable-branch" "branches that cannot be read",
        LaterEventStack "later-event-stack" "stacks of another event than the first",
        KernelStack "kernel-stack" "stacks of the kernel that do not show where it was entered",
        UnprintedStack "unprinted-stack" "stacks that the report left out of its trees",
        CutStack "cut-stack" "stacks whose further frames the report may have left out of its trees",
        UnresolvedEnd "unresolved-end" "calls from or to an address that perf found no symbol for",
        UnresolvedAddress "unresolved-address" "addresses that perf found no symbol for",
        KernelEnd "kernel-end" "calls from or to the kernel, a hypervisor or a guest",
        MemoryEnd "memory-end" "calls from or to memory that is no part of a file",
        PathlessEnd "pathless-end" "calls from or to an object whose name is not UTF-8, or longer than a path can be",
        CutEnd "cut-end" "calls from or to a name that was cut off at the width of its column",
        NoBranch "no-branch" "rows of samples without a branch",
        InnerBranch "inner-branch" "branches within one function, in a recording of all branches",
        LaterEventRow "later-event-row" "rows of another event than the first with branches",
        GroupCount "group-count" "counts of the other events of a group, in rows of the first",
        CallTree "call-tree" "lines of call trees, which name no branches",
        NamelessEnd "nameless-end" "calls from or to code without a symbol",
        BelowMain "below-main" "calls from or to \"(below main)\", which is no function",
        NotUtf8End "not-utf8-end" "calls from or to an object whose path is not UTF-8",
        UnknownLine "unknown-line" "lines of a kind that the callgrind format does not know",
        UncountedCall "uncounted-call" "calls that are counted as 0",
        ProcessName "process-name" "names of processes above the outermost frames",
        ZeroSample "zero-sample" "samples with the value 0",
        NegativeSample "negative-sample" "samples with a negative value",
        StacklessSample "stackless-sample" "samples without a call stack",
        HashedEnd "hashed-end" "calls from or to a function that is named by a hash alone",
        BlockCount "block-count" "counts of basic blocks, which tell of no calls",
        RoundedTick "rounded-tick" "how ticks spread over neighbouring bytes, as there were too many places to keep",
        CallFromOutside "call-from-outside" "calls from outside of the program's own code",
        CallBeyondMemory "call-beyond-memory" "calls at places beyond those that memory in proportion to the file holds",
        CallerlessCall "callerless-call" "calls whose caller the flat profile does not name",
        TimeOfNoFunction "time-of-no-function" "time that gprof gives to no function",
        UntracedCaller "untraced-caller" "calls from code that uftrace did not trace, such as the start of a thread",
        UntracedEnd "untraced-end" "calls from or to code that uftrace had no symbol for",
        FunctionBeyondMemory "function-beyond-memory" "functions beyond those that memory in proportion to the text holds",
        NoFunctionRecord "no-function-record" "records of the kernel, of perf events or of other events, which are no functions",
        UftraceLost "uftrace-loss" "places where uftrace lost records",
        RecordlessLine "recordless-line" "lines that uftrace prints no records in",
        EntryBeyondMemory "entry-beyond-memory" "entries of functions beyond those that memory in proportion to the file holds",
        UnnamedBlock "unnamed-block" "blocks at an address of no program or library that the log names",
        NotUtf8Block "not-utf8-block" "blocks of a program or library whose path is not UTF-8",
        ChasedRun "chased-run"
            "runs of small functions, as valgrind joined their blocks to their callers' (record with \
             --vex-guest-chase=no)",
        NoEnd "no-end" "the end of the run, as the log says no exit code",
        UnnamedPassage "unnamed-passage" "passages from or to blocks of no known program or library",
        BoltOutside "bolt-outside" "calls from or to a place outside of the program, of which BOLT keeps no name",
        BoltToItself "bolt-to-itself" "branches from a function to its own first byte: calls of itself, or loops",
        BoltSampleOutside "bolt-sample-outside" "samples outside of the program",
        MemoryAccess "memory-access" "accesses to memory, which are no calls",
        NumberedName "numbered-name" "which of several local functions of one name was meant, as BOLT tells them by number alone",
        UnknownProgramEnd "unknown-program-end" "calls from or to an unknown program",
        UnknownProgramSample "unknown-program-sample" "samples in an unknown program",
        UnknownProgramRange "unknown-program-range" "stretches of code that ran without a branch in an unknown program",
        BranchlessRange "branchless-range" "stretches of code that ran without a branch, of which only their function is kept",
        LaterEvent "later-event" "samples of another event than the first",
        FunctionCounter "function-counter" "counters of functions, which say nothing of callers or order",
        // From places to functions
        ReplacedFile "replaced-file" "files that are not those recorded any more",
        IndirectVariant "indirect-variant" "which variant of an indirect function ran, for calls seen at a linkage stub",
        StrippedSize "stripped-size" "sizes of functions of stripped programs and libraries",
        UnknownSize "unknown-size" "sizes of functions that the file at hand does not have by that name",
        SmallerSize "smaller-size" "the smaller of two sizes that one function was found with",
        AmbiguousName "ambiguous-name" "which of several functions of one name in one DSO was meant, as the recording does not say",
        UnacceptableSource "unacceptable-source" "what recorded it, as a profile cannot hold the text",
        StubPassage "stub-passage" "passages of a linkage stub to its own function",
        BlocksBeyond "blocks-beyond" "counts of blocks that add up to more than 128 bits hold",
        FewSamples "few-samples" "counts of blocks of functions with too few samples to tell what is cold",
        SparseBlocks "sparse-blocks" "counts of functions whose blocks have numbers that no compiler gives",
        UnknownBias "unknown-bias" "counts of blocks: where the file was loaded cannot be told",
        SeveralBuildIds "several-build-ids" "the build-id of a DSO that was recorded with several",
        // Graphs of compilers
        NoUnitGraph "no-unit-graph" "files named as graphs of units that are none",
        UnreadableObject "unreadable-object" "object files that cannot be read",
        LinkedProfile "linked-profile" "profiles of linked programs",
        UnwritableFunction "unwritable-function" "functions whose names cannot be written",
        PointerCall "pointer-call" "calls through pointers, whose targets the file does not tell",
        AbsentFunction "absent-function" "functions that the linked file does not have, with their calls",
        OtherUnit "other-unit" "units that are not in the linked file",
        RivalUnit "rival-unit" "units that claim functions of others, of which more is in the linked file",
        ContestedFunction "contested-function" "functions that a unit has of which more is in the linked file",
        OlderUnit "older-unit" "functions of units that the graph of the whole program tells more of",
        // Order and link
        NotInInputs "not-in-inputs" "functions that no input defines",
        NotInBinary "not-in-binary" "functions that the binary does not have",
        CallOutside "call-outside" "calls that leave the functions to be ordered",
        RunOutside "run-outside" "runs of functions that are not among those to be ordered",
        RarePair "rare-pair" "near in time too rarely to be kept: pairs of functions",
        NoOwnSection "no-own-section" "functions without a section of their own",
        SharedName "shared-name" "functions whose name a heavier or earlier one has: placed together with it",
        AlreadyListed "already-listed" "functions that are listed already",
        UnwritableName "unwritable-name" "functions whose names the linker's language cannot express",
        // Recording by breakpoints
        SizelessFunction "sizeless-function" "functions without a size, not recorded",
        FunctionOutsideCode "function-outside-code" "function symbols that do not lie at code, not recorded",
        FunctionInsideInstruction "function-inside-instruction"
            "function symbols inside of an instruction of another function, not \
             recorded",
        FunctionBeyondBudget "function-beyond-budget" "functions beyond the memory that breakpoints may cost (--max-memory), not recorded",
        UnknownCaller "unknown-caller" "callers that cannot be told, as what is returned to is no code of a file",
        OtherArchitecture "other-architecture" "programs of another architecture than this machine's, not recorded",
        UnreadableProgram "unreadable-program" "programs that may not be read, not recorded",
        UnreadableMapping "unreadable-mapping" "mapped files that are no programs or cannot be read, not recorded",
        WritableCode "writable-code" "files whose code is mapped writable, not recorded there",
        ChangedCode "changed-code" "files whose code is not that of the memory, not recorded",
        UntraceableProcess "untraceable-process" "running processes below those given that may not be traced, not recorded",
        LeftProcess "left-process" "processes that could not be followed to their end, not recorded from then on",
        UnfreedProcess "unfreed-process" "new processes from which breakpoints could not be taken out, as they may not be read",
        OtherRights "other-rights" "the rights of another user (setuid) that programs have when they are not traced",
        LittleMemory "little-memory" "control groups with little memory left, whose breakpoints may cost less",
    } {
        /// An amount at something that is no known function.
        Nowhere(amount: Amount, why: Nowhere, side: Side) "" "",
        /// Branches that are no calls.
        NoCall(why: NoCall) "no-call" "branches that are no calls:",
    }
}

coded! {
    /// Kind of what an unknown place was part of.
    Amount {
        OwnCost "own-cost" "own cost",
        SampleCost "sample-cost" "own cost of samples",
        Calls "calls" "calls",
        Branches "branches" "branches",
        AffinityEdges "near-pairs" "pairs near in time",
    }
}

coded! {
    /// Why an address or frame is no known function.
    Nowhere {
        CompiledCode "compiled-code" "in code that no file holds (compiled while running)",
        AnonymousCode "anonymous-code" "in code that no file holds (compiled while running, or anonymous)",
        AnonymousObject "anonymous-object" "in code that no file holds (compiled while running, anonymous)",
        AnonymousOrVdso "anonymous-or-vdso" "in code that no file holds (compiled while running, [vdso], anonymous)",
        Memory "memory" "in memory that is no part of a file",
        Interpreted "interpreted" "of an interpreted program",
        System "system" "in the kernel, a hypervisor or a guest",
        Kernel "kernel" "in the kernel",
        Vdso "vdso" "in the [vdso], which belongs to the kernel",
        Unmapped "unmapped" "at an address that was not mapped when it ran",
        NoAddress "no-address" "without an address",
        SeveralProcesses "several-processes" "at an address of several processes, as no process was printed",
        NoSymbol "no-symbol" "at an address that perf found no symbol for",
        NoName "no-name" "at a place that the profiler had no name for",
        Blurred "blurred" "that perf printed together with the sampled place",
        NotInlined "not-inlined" "in a function that perf took for an inlined one (--no-inline names it)",
        CutOff "cut-off" "in a frame whose line is cut off",
        Unprinted "unprinted" "in what the report left out of its trees",
        NotUtf8 "not-utf8" "in a file whose name is not UTF-8",
        PathNotUtf8 "path-not-utf8" "in a file whose path is not UTF-8",
        NoMapping "no-mapping" "at an address that the profile maps to no file",
        UnacceptableLength "unacceptable-length" "in a function whose name is empty or longer than 4096 bytes",
        Nameless "nameless" "of code that has no name of a function",
        Hashed "hashed" "of a function that is named by a hash alone",
        NotAtHand "not-at-hand" "at an address in a program or library that is not at hand",
        NotLoaded "not-loaded" "at an address that no segment of the file loads",
        NoFunction "no-function" "at an address that no function symbol covers",
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
    /// Kind of a branch that is no call.
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
        WrongPath "wrong-path" "on a path that the processor tried and gave up",
        Other "other" "of another type",
        PrintedOther "printed-other" "branches of another type",
    }
}
