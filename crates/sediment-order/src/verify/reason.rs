// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons why a function is not placed as ordered, each with a code for programs and a text for people.

use sediment_core::binary::names::SectionGroup;
use std::fmt;

/// Why a function is not at its ordered position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The binary has no such function, and there is no sign that it ever had one.
    NotInBinary,
    /// The binary has no such function, but the profiled build of this program had one: it was inlined everywhere,
    /// renamed or removed.
    InlinedOrRemoved,
    /// The binary does not have this function, but only the compiler's specialised copies of it; sorted.
    OnlyAsClone(Vec<String>),
    /// It may be there, but the binary is stripped to its exported functions.
    NoSymbol,
    /// The profile has it, but the order does not list it.
    NotAsked,
    /// Its section has another name, which the order does not list; sorted.
    NamedAfter(Vec<String>),
    /// Several local functions have this name, and the order cannot distinguish them; their number.
    SameNamedLocal(u64),
    /// It is in an output section of this name, not in the usual one for code.
    OtherOutputSection(String),
    /// It is among the cold, exit, start-up or hot functions that the linker groups by itself; `None` if the group is
    /// not known.
    OtherGroup(Option<SectionGroup>),
    /// Its object shows that it has no section of its own, because it was compiled without `-ffunction-sections`.
    NoOwnSection(InputSection),
    /// It belongs to the files that the compiler links into every program (`crt1.o`, `crtbegin.o`). None of them has a
    /// section for each function, and no option changes this.
    OfStartFiles,
    /// Its object shows that it has a section of its own, but the linker placed the section as if the order did not
    /// list it.
    NotPassed(InputSection),
    /// It is among unlisted functions, and no object is available that would show why.
    AmongUnlisted,
    /// Only a cold part with this name separates it from its neighbours in the order.
    PartedByCold(String),
    /// It is among the ordered functions, but at another position.
    OutOfOrder,
}

/// The input section of a function in its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSection {
    /// Its name.
    pub name: String,
    /// The object, by the name that linkers print.
    pub object: String,
}

impl fmt::Display for InputSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.name, self.object)
    }
}

impl Reason {
    /// Name for programs, stable from release to release.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.words().0
    }

    /// Code and text.
    fn words(&self) -> (&'static str, String) {
        match self {
            Self::NotInBinary => ("not in the binary", "not in the binary".to_owned()),
            Self::InlinedOrRemoved => (
                "inlined or removed",
                "only in the profiled build: inlined everywhere, renamed or removed here".to_owned(),
            ),
            Self::OnlyAsClone(clones) => {
                ("only as clone", format!("only as clones made by the compiler: {}", clones.join(", ")))
            }
            Self::NoSymbol => ("no symbol", "unknown: the binary has only exported symbols".to_owned()),
            Self::NotAsked => ("not asked for", "in the profile, but not in the order".to_owned()),
            Self::NamedAfter(names) => (
                "section of another name",
                format!("its section is named after: {}", names.join(", ")),
            ),
            Self::SameNamedLocal(count) => (
                "local twin",
                format!("{count} local symbols of this name, which the order cannot distinguish"),
            ),
            Self::OtherOutputSection(section) => {
                ("other output section", format!("in the output section {section}"))
            }
            Self::OtherGroup(group) => {
                let functions =
                    group.map_or("cold, exit, start-up or hot functions", SectionGroup::functions);
                ("other section group", format!("grouped by the linker with the {functions}"))
            }
            Self::NoOwnSection(section) => (
                "no section of its own",
                format!("shares the section {section} with other functions: compile with -ffunction-sections"),
            ),
            Self::OfStartFiles => (
                "of the start files",
                "part of the compiler's start files (such as crt1.o), which no order moves".to_owned(),
            ),
            Self::NotPassed(section) => (
                "not passed to the linker",
                format!("the linker did not get this line of the order: the function has the section {section}"),
            ),
            Self::AmongUnlisted => (
                "among unlisted functions",
                "among unlisted functions: the linker did not get the order, or the function has no section of its own; --objects DIR shows which"
                    .to_owned(),
            ),
            Self::PartedByCold(part) => (
                "parted by a cold part",
                format!("next to its neighbours in the order, except for the cold part {part} between them"),
            ),
            Self::OutOfOrder => ("out of order", "among the ordered functions, but out of order".to_owned()),
        }
    }
}

impl fmt::Display for Reason {
    /// The text. Names are raw: whoever prints passes it through [`sediment_core::escape::terminal`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().1)
    }
}
