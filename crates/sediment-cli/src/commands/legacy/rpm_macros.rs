// SPDX-License-Identifier: MIT OR Apache-2.0
//! `make_sediment_rpmmacros` writes macros for ~/.rpmmacros, with which `rpmbuild --define "pgo 1"` orders a package
//! whose spec file has a call graph.
//!
//! The flags and the head of every build script are copied from rpm on this system, without expanding them. The
//! additions are empty without `call_graph` and `pgo`. Other changes by a spec file remain in effect.

use crate::compiler;
use crate::ui::Ui;
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::link::Linker;
use sediment_process::Command;
use sediment_process::command::run as run_command;
use std::collections::BTreeMap;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest output of rpm on its macros, in bytes: a distribution's macros have some hundred thousand.
const LONGEST_ANSWER: usize = 32 << 20;

/// Sections for functions and data, as in upstream sediment. Our own flags have only function sections: no linker can
/// order data, and data sections change which copies of a variable are merged and which data --gc-sections removes.
const COMPILER: &str = "-ffunction-sections -fdata-sections";
const ORDER: &str = "%__global_link_order \\\"%{u2p:%{_builddir}}/%{name}-%{version}-%{release}.order\\\"\n";

pub(super) fn run(ui: &Ui) -> Result<()> {
    let macros = of_rpm()?;
    let linker = compiler::default_linker(ui)?.0;
    ui.raw_result(text(&macros, linker).as_bytes())
}

/// Returns rpm's macros on this system, unexpanded.
fn of_rpm() -> Result<BTreeMap<String, String>> {
    let unsupported = |what: String| {
        Error::new(ErrorCode::Unsupported, what).with_hint("install rpm: the macros extend its own macros")
    };
    let command = Command::new("rpm", "/", TIMEOUT).with_arguments(["--showrc"]);
    let asked = run_command(&command, LONGEST_ANSWER).and_then(|ended| ended.successful(&command));
    let asked = asked.map_err(|error| unsupported(error.to_string()))?;
    let macros = read(&String::from_utf8_lossy(&asked.output));
    if macros.contains_key("build_cflags") {
        Ok(macros)
    } else {
        Err(unsupported("rpm --showrc prints no macros".to_owned()))
    }
}

/// Parses the macros in the output of `rpm --showrc`: a level, a colon, the name with its options, a tab, and the body,
/// which may have several lines.
fn read(text: &str) -> BTreeMap<String, String> {
    let mut macros = BTreeMap::new();
    let mut current: Option<(String, String)> = None;
    for line in text.lines() {
        if let Some((name, body)) = begins(line) {
            macros.extend(current.replace((name, body)));
        } else if line.starts_with("======") {
            macros.extend(current.take());
        } else if let Some((_, body)) = &mut current {
            body.push('\n');
            body.push_str(line);
        }
    }
    macros.extend(current);
    macros
}

/// Returns the name of a macro that begins in this line, and the first line of its body.
fn begins(line: &str) -> Option<(String, String)> {
    let (level, rest) = line.split_once([':', '='])?;
    level.trim().parse::<i32>().ok()?;
    let (name, body) = rest.strip_prefix(' ')?.split_once('\t')?;
    let name = name.split('(').next().unwrap_or(name);
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (plain && !name.is_empty()).then(|| (name.to_owned(), body.to_owned()))
}

/// Beginning of an addition for a spec file that has a call graph.
const WHEN: &str = "%{?call_graph:%{?pgo:";
/// Addition to the release.
const RELEASE: &str = "%{?pgo:_pgo}";

/// Returns the body of a macro without earlier additions of this command, so that running it again gives the same
/// result.
fn without_additions(body: &str) -> String {
    let mut text = body.replace(RELEASE, "");
    while let Some(first) = text.find(WHEN) {
        let mut open = 0_usize;
        let closes = text[first..].bytes().position(|byte| {
            open = match byte {
                b'{' => open + 1,
                b'}' => open - 1,
                _ => open,
            };
            byte == b'}' && open == 0
        });
        let Some(length) = closes else { break };
        let kept = text[..first].trim_end_matches(' ').len();
        text.replace_range(kept..=first + length, "");
    }
    text
}

fn text(macros: &BTreeMap<String, String>, linker: &Linker) -> String {
    let body =
        |name: &str| macros.get(name).map_or_else(|| "%{nil}".to_owned(), |body| without_additions(body));
    let when = |what: &str| format!("{WHEN}{what}}}}}");
    let mut text = String::from(
        "# Made by make_sediment_rpmmacros for this machine: rpmbuild --define \"pgo 1\" orders a package whose spec has\n\
         #   SOURCE18: NAME.gv\n#   %%global call_graph %%{SOURCE18}\n",
    );
    for flags in ["build_cflags", "build_cxxflags", "build_fflags"] {
        text += &definition(flags, &format!("{} {}", body(flags), when(COMPILER)));
    }
    text += ORDER;
    let (option, make) = if linker.name == super::GV2LINK.name {
        let option = "-Wl,\"--section-ordering-file,%{__global_link_order}\"".to_owned();
        (option, " gv2link < %{call_graph} > %{__global_link_order} ".to_owned())
    } else {
        let option = linker.arguments.replace("FILE", "%{__global_link_order}");
        let make =
            format!(" sediment order %{{call_graph}} --linker {} -o %{{__global_link_order}} ", linker.name);
        (option, make)
    };
    text += &definition("build_ldflags", &format!("{} {}", body("build_ldflags"), when(&option)));
    text += &definition("dist", &(body("dist") + RELEASE));
    // Head of every section's script; since rpm 4.20, its environment has a separate macro.
    let head = if macros.contains_key("___build_pre_env") { "___build_pre_env" } else { "___build_pre" };
    let old = body(head);
    let old = old.trim_end_matches("\n%{nil}").trim_end_matches('\n');
    let hooked = format!("{old}\n  {}\n%{{nil}}", when(&make));
    text += &definition(head, &hooked);
    text
}

/// Returns a macro in the form of a file of macros: backslashes are escapes there, and a backslash comes before each
/// line end.
fn definition(name: &str, body: &str) -> String {
    format!("%{name} {}\n", body.replace('\\', "\\\\").replace('\n', "\\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sediment_order::link;

    const SHOWN: &str = "ARCHITECTURE AND OS:\nbuild arch            : x86_64\n========================\n-20: P\t<builtin>\n-13: ___build_pre\t\n  A=\"%{x}\"\n  umask 022\n\n-13: build_cflags\t%{optflags}\n-13: build_fflags\t-a \\\\\n  -b\n  3= dist\t.fc41\n-11= quoted(p:)\tx\n======================== active 9 empty 0\n";

    #[test]
    fn macros_are_read_as_they_are_written() {
        let macros = read(SHOWN);
        assert_eq!(macros["build_cflags"], "%{optflags}");
        assert_eq!(macros["build_fflags"], "-a \\\\\n  -b");
        assert_eq!(macros["___build_pre"], "\n  A=\"%{x}\"\n  umask 022\n");
        assert_eq!((macros["dist"].as_str(), macros["quoted"].as_str()), (".fc41", "x"));
    }

    #[test]
    fn the_spellings_of_the_original() {
        let text = text(&read(SHOWN), link::linker("gnu-ld").unwrap());
        for line in [
            "%build_cflags %{optflags} %{?call_graph:%{?pgo:-ffunction-sections -fdata-sections}}",
            "%__global_link_order \\\"%{u2p:%{_builddir}}/%{name}-%{version}-%{release}.order\\\"",
            "%build_ldflags %{nil} %{?call_graph:%{?pgo:-Wl,\"--section-ordering-file,%{__global_link_order}\"}}",
            "%dist .fc41%{?pgo:_pgo}",
            "  %{?call_graph:%{?pgo: gv2link < %{call_graph} > %{__global_link_order} }}\\",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.contains("%___build_pre \\\n  A=\"%{x}\"\\\n  umask 022\\\n  %{?call_graph:"), "{text}");
    }

    #[test]
    fn linkers_without_that_option_get_their_own() {
        let text = text(&read(SHOWN), link::linker("gnu-ld-script").unwrap());
        assert!(text.contains("%{?pgo:-Wl,-T,%{__global_link_order}}"), "{text}");
        assert!(
            text.contains("sediment order %{call_graph} --linker gnu-ld-script -o %{__global_link_order}"),
            "{text}"
        );
    }
}
