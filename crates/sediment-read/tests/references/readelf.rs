// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the symbols of ELF files with `readelf`, which shares no code with sediment's reader.
//!
//! Rules:
//! - readelf spells names that are not ASCII words differently: files with such names of functions or sections are
//!   skipped;
//! - files with several symbol tables of one kind (sediment uses the first), and with tables that share their name,
//!   are skipped;
//! - readelf prints what it can of a damaged file. So refusals are compared by [`crate::elf`] only, and a file that
//!   sediment reads although readelf warns of something is skipped.

use crate::cases::{CaseTally, count, differs, mutant};
use crate::elf::{ComparedSymbol, all_seeds, chosen, functions_of, ours_of, without_version};
use sediment_core::binary::{Binary, NoFiles, SymbolSource};
use std::path::Path;
use std::process::Command;

pub(crate) fn against_readelf() {
    let seeds = all_seeds();
    let mut tally = CaseTally::new("ELF symbols against readelf");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    for number in 0..count().by_program {
        let bytes = mutant("elf", &seeds, number);
        std::fs::write(&file, &bytes).unwrap();
        compare(number, &bytes, &asked(&file), &mut tally);
    }
    tally.finish(55, 25);
}

fn compare(number: u64, bytes: &[u8], said: &str, tally: &mut CaseTally) {
    let warned = said.contains("readelf: ") || said.contains("<corrupt");
    match Binary::parse(bytes, &NoFiles) {
        Err(_) => tally.refused += 1,
        Ok(ours) if ours.symbols_from == SymbolSource::GnuDebugdata => tally.pass_over("compressed symbols"),
        Ok(_) if warned => tally.pass_over("readelf warns"),
        Ok(ours) => match functions(said) {
            None => tally.pass_over("words that readelf does not have"),
            Some(theirs) => {
                let ours = ours_of(&ours.functions);
                if ours != theirs {
                    differs("readelf", number, bytes, &format!("ours {ours:?}\ntheirs {theirs:?}\n{said}"));
                }
                tally.read += 1;
            }
        },
    }
}

/// Returns readelf's output for a file, with its warnings. One file at a time: readelf carries facts of one file over
/// to the next.
fn asked(file: &Path) -> String {
    let options = "--wide --file-header --section-headers --syms --dyn-syms --relocs --dynamic";
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec readelf {options} \"$1\" 2>&1"), "sh"]).arg(file);
    let output = command.env("LC_ALL", "C").output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the functions among the symbols that readelf prints; None if it words a line differently.
fn functions(said: &str) -> Option<Vec<ComparedSymbol>> {
    let arm = said.lines().any(|line| line.trim() == "Machine:                           ARM");
    let (sections, kinds) = sections(said)?;
    let mut tables = [Vec::new(), Vec::new()];
    let (mut table, mut met) = (0, [false; 2]);
    for line in said.lines() {
        // The first entry of a table is reserved.
        if line.trim_start().starts_with("0: ") {
            continue;
        }
        if let Some(rest) = line.strip_prefix("Symbol table '") {
            // Only one section of each name is allowed, because otherwise it is unclear which one is meant.
            let name = rest.split('\'').next()?;
            let kinds: Vec<&str> =
                kinds.iter().filter(|(known, _)| *known == name).map(|(_, kind)| *kind).collect();
            table = match kinds[..] {
                ["SYMTAB"] => 0,
                ["DYNSYM"] => 1,
                _ => return None,
            };
            if std::mem::replace(&mut met[table], true) {
                return None;
            }
            continue;
        }
        let Some((number, rest)) = line.trim_start().split_once(": ") else { continue };
        if number.parse::<u32>().is_err() || !line.starts_with(' ') {
            continue;
        }
        let rest = with_plain_words(rest);
        let mut words = rest.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let size = words.next()?;
        let size =
            size.strip_prefix("0x").map_or_else(|| size.parse(), |hex| u64::from_str_radix(hex, 16)).ok()?;
        let kind = words.next()?;
        let local = match words.next()? {
            "LOCAL" => true,
            "GLOBAL" | "WEAK" | "UNIQUE" | "IFUNC" | "other" => false,
            _ => return None,
        };
        if !["DEFAULT", "HIDDEN", "PROTECTED", "INTERNAL"].contains(&words.next()?) {
            return None;
        }
        let index = words.next()?;
        let name = words.next().unwrap_or_default();
        if words.next().is_some_and(|version| !version.starts_with('(')) {
            return None;
        }
        let untyped = match kind {
            "FUNC" | "IFUNC" => false,
            "NOTYPE" => true,
            "OBJECT" | "SECTION" | "FILE" | "COMMON" | "TLS" | "other" => continue,
            _ => return None,
        };
        if untyped && size == 0 && local {
            continue;
        }
        let section = match index {
            "UND" | "ABS" | "COM" => continue,
            index => sections.get(index.parse::<usize>().ok()?)?,
        };
        let Some((section, end)) = section else { continue };
        let address = if arm { address & !1 } else { address };
        let name = plain(name).then(|| without_version(name.as_bytes()))?;
        let name = String::from_utf8_lossy(name).into_owned();
        let ifunc = kind == "IFUNC";
        tables[table].push((
            ComparedSymbol { address, local, name, size, section: section.clone(), ifunc, untyped },
            *end,
        ));
    }
    let [own, dynamic] = tables.map(functions_of);
    Some(chosen(own, dynamic))
}

/// Replaces types and bindings that no standard names, such as `<OS specific>: 11`, by one word each in a symbol's
/// line.
fn with_plain_words(line: &str) -> String {
    let mut plain = line.to_owned();
    for words in ["<OS specific>: ", "<processor specific>: ", "<unknown>: "] {
        while let Some(at) = plain.find(words) {
            let digits = plain[at + words.len()..].bytes().take_while(u8::is_ascii_digit).count();
            // Only files for GNU systems have a name for the type of resolvers.
            let resolver = words.starts_with("<OS") && plain[at + words.len()..].starts_with("10 ");
            plain.replace_range(at..at + words.len() + digits, if resolver { "IFUNC" } else { "other" });
        }
    }
    plain
}

/// Name and end of each section with code, by number, and None for other sections; then name and kind of all.
type ReadelfSections<'a> = (Vec<Option<(String, u64)>>, Vec<(&'a str, &'a str)>);

fn sections(said: &str) -> Option<ReadelfSections<'_>> {
    let (mut sections, mut kinds) = (Vec::new(), Vec::new());
    for line in said.lines() {
        let Some((number, rest)) = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("] "))
        else {
            continue;
        };
        if number.trim().parse() != Ok(sections.len()) {
            continue;
        }
        let words: Vec<&str> = rest.split_whitespace().collect();
        let hexadecimal =
            |word: &&str| matches!(word.len(), 8 | 16) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let at = words.iter().position(hexadecimal)?;
        let (address, size) =
            (u64::from_str_radix(words[at], 16).ok()?, u64::from_str_radix(words.get(at + 2)?, 16).ok()?);
        // Offset, size and entry size; then flags, if there are any, and three numbers.
        let flags = if words.len() == at + 8 { words[at + 4] } else { "" };
        let code = flags.contains('A') && flags.contains('X');
        let name = if at >= 2 { words[0] } else { "" };
        if code && (at != 2 || !plain(name)) {
            return None;
        }
        sections.push(code.then(|| (name.to_owned(), address.saturating_add(size))));
        kinds.push((name, at.checked_sub(1).map_or("", |kind| words[kind])));
    }
    Some((sections, kinds))
}

/// True if readelf prints this name unchanged.
fn plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'^' && byte != b'<')
}
