// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only place that knows the spelling of symbols and sections: what profilers append to a symbol, and the input
//! section of a function compiled with `-ffunction-sections`.
//!
//! GCC names the section of a function `f` after how it runs: `.text.f`, `.text.hot.f`, `.text.startup.f` (constructors
//! and `main`), `.text.exit.f` (destructors), `.text.unlikely.f` (cold functions). If a cold part of a function is
//! split off, this part is the symbol `f.cold` in `.text.unlikely.f`. Clang does the same, but puts `main` and
//! constructors into `.text.f`, and split parts into `.text.split.f`. Linker scripts refer to the groups by these
//! prefixes.

/// A symbol as a profiler prints it, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrintedSymbol<'a> {
    /// The linkage name, without `@VERSION`, `@plt` and `.localalias`; an address after the `@` is part of the name.
    pub name: &'a [u8],
    /// A stub of the procedure linkage table, not the function itself.
    pub plt: bool,
    /// No name at all: an address, or a stub whose function is not known (`offset_0x…@plt`, `*ABS*+0x…@plt`).
    pub unresolved: bool,
}

/// Takes a printed symbol apart.
#[must_use]
pub fn symbol(printed: &[u8]) -> PrintedSymbol<'_> {
    // Offsets come after the suffix: `puts@plt+0x6`.
    let plt = printed.ends_with(b"@plt") || memchr::memmem::find(printed, b"@plt+0x").is_some();
    // An `@` at the beginning does not separate: there would be no name left.
    // Some profilers name what has no symbol by its address: `func@0x401000`.
    let separates = |at: &usize| *at > 0 && !is_address(&printed[at + 1..]);
    let end = memchr::memchr_iter(b'@', printed).find(separates).unwrap_or(printed.len());
    let versionless = &printed[..end];
    let unresolved = is_address(versionless)
        || plt
            && (versionless.starts_with(b"*ABS*")
                || versionless.strip_prefix(b"offset_").is_some_and(is_address))
        || matches!(versionless, b"" | b"@plt" | b"[unknown]");
    PrintedSymbol { name: without_local_alias(versionless), plt, unresolved }
}

/// Returns the function that a stub of 64-bit Power leads to, from the stub's own name:
/// `0000001b.plt_call.puts@@GLIBC_2.17` of GNU ld, `__plt_puts` of lld.
#[must_use]
pub(crate) fn power_stub(name: &[u8]) -> Option<&[u8]> {
    let of_gnu_ld = || {
        let (section, rest) = name.split_at_checked(8)?;
        section.iter().all(u8::is_ascii_hexdigit).then(|| rest.strip_prefix(b".plt_call."))?
    };
    let target = symbol(of_gnu_ld().or_else(|| name.strip_prefix(b"__plt_"))?).name;
    (!target.is_empty()).then_some(target)
}

/// True for a name in a demangler's form, which no symbol or section has.
#[must_use]
pub fn is_demangled(name: &str) -> bool {
    let parameters =
        name.find('(').is_some_and(|at| at > 0) && (name.ends_with(')') || name.ends_with(") const"));
    name.contains("::") || parameters
}

/// `0x` and hexadecimal digits.
fn is_address(text: &[u8]) -> bool {
    text.strip_prefix(b"0x")
        .is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit))
}

/// Removes `.localalias` (numbered by older GCC), which GCC appends to a second, local name of an exported function.
fn without_local_alias(name: &[u8]) -> &[u8] {
    const SUFFIX: &[u8] = b".localalias";
    let numbered = name.iter().rposition(|b| *b == b'.').filter(|at| {
        let digits = &name[at + 1..];
        !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && name[..*at].ends_with(SUFFIX)
    });
    let unnumbered = numbered.map_or(name, |at| &name[..at]);
    unnumbered.strip_suffix(SUFFIX).filter(|stem| !stem.is_empty()).unwrap_or(name)
}

/// Returns the function whose cold part this symbol is: `f` for `f.cold`, and for `f.cold.7` of older GCC.
#[must_use]
pub fn split_from(name: &str) -> Option<&str> {
    let unnumbered = match name.rsplit_once('.') {
        Some((stem, digits)) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => stem,
        _ => name,
    };
    unnumbered.strip_suffix(".cold").filter(|stem| !stem.is_empty())
}

/// The symbol of a function's cold part.
#[must_use]
pub fn cold_part(name: &str) -> String {
    format!("{name}.cold")
}

/// True if the compiler made `candidate` from `name`: a specialised, split or privatised copy, called `name`, a dot
/// and more.
#[must_use]
pub fn is_clone_of(candidate: &str, name: &str) -> bool {
    candidate.strip_prefix(name).is_some_and(|rest| rest.len() > 1 && rest.starts_with('.'))
        && !name.is_empty()
}

/// Suffixes of clones, each followed by a number: GCC's specialised, reduced and split copies, and local functions
/// that link-time optimisation made visible (GCC's `.lto_priv`, LLVM's `.llvm` and `.__uniq`).
const CLONE_WORDS: [&str; 8] =
    ["constprop", "isra", "part", "lto_priv", "llvm", "__uniq", "localalias", "simdclone"];

/// Returns the name of the function from which a clone was made, without everything that compilers append. A name
/// without any of this is its own stem. The hash at the end of Rust names differs in every build, and is removed too.
#[must_use]
pub fn stem(name: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mut stem = name;
    while let Some((before, last)) = stem.rsplit_once('.') {
        let word = if is_number(last) { before.rsplit_once('.') } else { Some((before, last)) };
        stem = match word {
            Some((whole, word)) if !whole.is_empty() && CLONE_WORDS.contains(&word) => whole,
            // Clang numbers local functions of the same name: `f.3`.
            _ if is_number(last) && !before.is_empty() => before,
            _ => break,
        };
    }
    without_rust_hash(stem)
}

/// Returns `f` for `f.lto_priv.3`: GCC's link-time optimisation numbers local functions of the same name, in the order
/// of the units.
#[must_use]
pub fn without_lto_number(name: &str) -> &str {
    let number = name
        .rsplit_once(".lto_priv.")
        .filter(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    match number {
        Some((local, _)) if !local.is_empty() => without_lto_number(local),
        _ => name,
    }
}

/// Returns `_ZN4main5alpha` for `_ZN4main5alpha17h0123456789abcdefE`.
fn without_rust_hash(name: &str) -> &str {
    let hash = name
        .strip_prefix("_ZN")
        .and_then(|rest| rest.strip_suffix('E'))
        .and_then(|rest| rest.split_at_checked(rest.len().checked_sub(19)?));
    match hash {
        Some((path, hash)) if hash.starts_with("17h") && hash[3..].bytes().all(|b| b.is_ascii_hexdigit()) => {
            &name[..3 + path.len()]
        }
        _ => name,
    }
}

/// The other name of a constructor or destructor of C++, complete or base (Itanium C++ ABI, 5.1.4.3): if there is no
/// virtual base, compilers emit one function for both, and may name its section after either. `None` for other names.
#[must_use]
pub fn other_structor(name: &str) -> Option<String> {
    let bytes = name.as_bytes();
    let mut at = name.starts_with("_Z").then_some(2)?;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at + 1..];
        let length = match (byte, rest.first()) {
            (b'C' | b'D', Some(number @ (b'1' | b'2'))) => {
                let other = if *number == b'1' { '2' } else { '1' };
                return Some(format!("{}{other}{}", &name[..=at], name.get(at + 2..)?));
            }
            // Names are preceded by their length.
            (b'0'..=b'9', _) => {
                let digits = 1 + rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                name[at..at + digits].parse::<usize>().ok()?.checked_add(digits)?
            }
            // Earlier parts, by their number, and the standard library's own abbreviations.
            (b'S' | b'T', Some(b'0'..=b'9' | b'A'..=b'Z' | b'_')) => {
                2 + rest.iter().position(|byte| *byte == b'_')?
            }
            (b'S' | b'D', Some(_)) => 2,
            _ => 1,
        };
        at = at.checked_add(length)?;
    }
    None
}

/// True for a function that OCaml compiled: `camlUnit__name_81`, `camlUnit.name_81` since OCaml 5.1. The runtime finds such code by the
/// range of its unit (`camlUnit__code_begin` to `code_end`), so no linker may take a function out of it.
#[must_use]
pub fn is_of_ocaml(name: &str) -> bool {
    let unit = name.strip_prefix("caml").filter(|unit| unit.starts_with(|c: char| c.is_ascii_uppercase()));
    unit.is_some_and(|unit| unit.contains("__") || unit.contains(['.', '$']))
}

/// True if sections `.text.NAME.…` belong to clones of this function, not to a whole group of functions.
#[must_use]
pub fn may_have_clones(name: &str) -> bool {
    !name.is_empty() && name != "sorted" && SectionGroup::ALL.iter().all(|group| group.word() != name)
}

/// The part of a program that compilers and linker scripts group by how functions run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SectionGroup {
    /// `.text.f`.
    Plain,
    /// `.text.hot.f`.
    Hot,
    /// `.text.startup.f`.
    Startup,
    /// `.text.exit.f`.
    Exit,
    /// `.text.unlikely.f`.
    Unlikely,
    /// `.text.split.f`.
    Split,
}

impl SectionGroup {
    /// Every group, in the order in which the sections of one function are to be placed.
    pub const ALL: [Self; 6] =
        [Self::Plain, Self::Hot, Self::Startup, Self::Exit, Self::Unlikely, Self::Split];

    /// Word between `.text.` and the function's name, without dots; empty for [`Self::Plain`].
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Hot => "hot",
            Self::Startup => "startup",
            Self::Exit => "exit",
            Self::Unlikely => "unlikely",
            Self::Split => "split",
        }
    }

    /// Name of the group's functions, for people.
    #[must_use]
    pub fn functions(self) -> &'static str {
        match self {
            Self::Plain => "functions",
            Self::Hot => "hot functions",
            Self::Startup => "start-up functions",
            Self::Exit => "exit functions",
            Self::Unlikely => "cold functions",
            Self::Split => "split cold parts",
        }
    }

    /// True if functions of objects compiled without `-ffunction-sections` share a section of this group's name: all but
    /// `.text.split`, which compilers use with a function's name only.
    fn has_shared_section(self) -> bool {
        !matches!(self, Self::Plain | Self::Split)
    }

    fn section_of(self, name: &str) -> String {
        match self {
            Self::Plain => format!(".text.{name}"),
            _ => format!(".text.{}.{name}", self.word()),
        }
    }
}

/// The input sections that may contain a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PossibleSections {
    /// Sections of the function itself, in placing order.
    pub own: Vec<String>,
    /// Sections that contain its split cold part, or the function itself if it is cold: to be placed after all
    /// functions.
    pub cold: Vec<String>,
}

/// Lists the input sections that may contain the function of this linkage name. `split`: whether it has a split cold
/// part, if a binary is available to find out.
///
/// If the function is known not to be split, `.text.unlikely.f` contains the function itself. If it is known to be
/// split, the linker places this section. If nothing is known, it goes after all functions. A name `f.cold` in a
/// profile means that the cold part ran.
///
/// A function named like a group with a shared section (`exit`, `hot`) has no `.text.NAME` here: that section holds the group's functions of every
/// object that was compiled without `-ffunction-sections`.
#[must_use]
pub fn sections(name: &str, split: Option<bool>) -> PossibleSections {
    if let Some(stem) = split_from(name) {
        let own = [SectionGroup::Unlikely, SectionGroup::Split].map(|group| group.section_of(stem)).to_vec();
        return PossibleSections { own, cold: Vec::new() };
    }
    let is_group = SectionGroup::ALL.iter().any(|group| group.has_shared_section() && group.word() == name);
    let mut own: Vec<String> =
        [SectionGroup::Plain, SectionGroup::Hot, SectionGroup::Startup, SectionGroup::Exit]
            .into_iter()
            .filter(|group| !(is_group && *group == SectionGroup::Plain))
            .map(|group| group.section_of(name))
            .collect();
    own.extend(section_of_pascal(name));
    let unlikely = SectionGroup::Unlikely.section_of(name);
    let cold = match split {
        Some(true) => Vec::new(),
        Some(false) => {
            own.push(unlikely);
            Vec::new()
        }
        None => vec![unlikely],
    };
    PossibleSections { own, cold }
}

/// `.text.n_p$prog_$$_fib$longint$$longint` of Free Pascal's `P$PROG_$$_FIB$LONGINT$$LONGINT`, and `.text.n_fpc_initialize` of its
/// runtime's `fpc_initialize`; None for other names.
fn section_of_pascal(name: &str) -> Option<String> {
    let is_one = name.contains("_$$_") || name.contains("_$__$$_") || name.starts_with("fpc_");
    is_one.then(|| format!(".text.n_{}", name.to_ascii_lowercase()))
}

/// The function that an input section was named after, and the group it belongs to; None for a section that holds no function
/// of its own (`.text`, `.text.unlikely`, `.text.hot.`) or no code.
///
/// The inverse of [`sections`]; `.text.unlikely.f` gives `f` whether it holds the function or its cold part.
#[must_use]
pub fn function_of_section(section: &str) -> Option<(&str, SectionGroup)> {
    let rest = section.strip_prefix(".text.").filter(|rest| !rest.is_empty())?;
    for group in SectionGroup::ALL.into_iter().filter(|group| *group != SectionGroup::Plain) {
        match rest.strip_prefix(group.word()) {
            Some("") if group.has_shared_section() => return None,
            Some(".") => return None,
            Some(name) if name.starts_with('.') => return Some((&name[1..], group)),
            _ => {}
        }
    }
    // -fprofile-reorder-functions numbers these sections, and the linker sorts them.
    (!rest.starts_with("sorted.")).then_some((rest, SectionGroup::Plain))
}

/// True if a source file can have been compiled to this object: `a.c` to `a.o`, to automake's `libx_la-a.o`, or to
/// Meson's `src_a.c.o`.
pub fn compiled_to(source: Option<&str>, object: &str) -> bool {
    let stem = |name: &'_ str| name.split('.').next().unwrap_or_default().to_owned();
    let by_meson = |source: &str| {
        let folder = object.strip_suffix(".o").and_then(|whole| whole.strip_suffix(source));
        source.contains('.') && folder.is_some_and(|folder| folder.ends_with('_'))
    };
    source.is_some_and(|source| {
        if by_meson(source) {
            return true;
        }
        let (source, object) = (stem(source), stem(object));
        object == source || object.strip_suffix(source.as_str()).is_some_and(|before| before.ends_with('-'))
    })
}
