// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of `package rpm` to spec files, text by text.

use super::*;

const SPEC: &str = "# A comment\nName:           foo\nVersion:        1\nSource0:        foo.tar.gz\n%if %{with x}\nSource7:        more.conf\n%endif\nBuildRequires:  gcc\nBuildRequires:  make\n\n%description\nName: no tag\n\n%prep\n%autosetup\n\n%build\n%configure\n%make_build\n\n%install\n%make_install\n\n%if %{with x}\n%files x\n%endif\n\n%files\n";

fn profile(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

fn changed_by(text: &str, noarch: impl Fn() -> Option<bool>) -> Result<ChangedSpec> {
    change(text, &profile("foo.gv"), Some(90), &noarch)
}

fn changed(text: &str) -> String {
    changed_by(text, || None).unwrap().text
}

fn refused(text: &str) -> String {
    changed_by(text, || None).unwrap_err().to_string()
}

#[test]
fn five_lines_are_added_and_none_is_changed() {
    let after = changed(SPEC);
    let new: Vec<&str> =
        after.lines().filter(|line| line.contains("sediment") || line.contains("foo.gv")).collect();
    assert_eq!(
        new,
        [
            "%bcond sediment 1",
            "Source8:        foo.gv",
            "%{?with_sediment:BuildRequires:  sediment-rpm-macros}",
            "%{?with_sediment:%sediment_prep %{SOURCE8}}",
            "%{?with_sediment:%sediment_check -m 90}"
        ]
    );
    let mut rest = after.lines();
    assert!(SPEC.lines().all(|line| rest.any(|other| other == line)), "{after}");
    assert!(after.contains("%autosetup\n%{?with_sediment:%sediment_prep"), "{after}");
    assert!(
        after.contains(
            "%make_install\n\n%check\n%{?with_sediment:%sediment_check -m 90}\n\n%if %{with x}\n%files x"
        ),
        "{after}"
    );
    assert!(after.contains("%endif\nSource8:        foo.gv\nBuildRequires:"), "{after}");
    assert_eq!(changed(&after), after);
}

#[test]
fn existing_style_of_a_spec_is_kept() {
    let spec = SPEC
        .replace("# A comment\n", "%bcond_without docs\n%global x 1\n")
        .replace("%if %{with x}\n%files x", "%check\nmake check\n\n%if %{with x}\n%files x")
        .replace("Source7: ", "Source:  ");
    let after = changed(&spec);
    assert!(after.starts_with("%bcond_without docs\n%bcond_without sediment\n%global x 1\n"), "{after}");
    assert!(after.contains("%check\n%{?with_sediment:%sediment_check -m 90}\nmake check\n"), "{after}");
    assert!(after.contains("Source2:        foo.gv"), "{after}");
    let new = changed(&spec.replace("%bcond_without docs", "%bcond docs 1"));
    assert!(new.starts_with("%bcond docs 1\n%bcond sediment 1\n"), "{new}");
}

/// rpm treats the second as a section, too.
#[test]
fn a_section_behind_two_signs() {
    let after =
        changed(&SPEC.replace("%if %{with x}\n%files x", "%%check\nmake check\n\n%if %{with x}\n%files x"));
    assert!(after.contains("%%check\n%{?with_sediment:%sediment_check -m 90}\nmake check\n"), "{after}");
    assert_eq!(after.matches("%check").count(), 1);
}

#[test]
fn the_condition_stands_in_front_of_its_use() {
    let late = SPEC.replace("%description", "%bcond_with docs\n\n%description");
    assert!(
        changed(&late).starts_with("# A comment\n%bcond_without sediment\n\nName:"),
        "{}",
        changed(&late)
    );
    let both = late.replace("# A comment\n", "%bcond_with x\n");
    assert!(
        changed(&both).starts_with("%bcond_with x\n%bcond_without sediment\nName:"),
        "{}",
        changed(&both)
    );
}

#[test]
fn sources_that_are_there_and_several_profiles() {
    let there = SPEC.replace("%endif\nBuildRequires", "%endif\nSource9:\tfoo.gv\nBuildRequires");
    let names = ["foo.gv", "bar.prof"].map(str::to_owned);
    let after = change(&there, &names, Some(90), &|| None).unwrap().text;
    assert!(after.contains("Source9:\tfoo.gv\nSource10:\tbar.prof\nBuildRequires"), "{after}");
    assert!(after.contains("%sediment_prep %{SOURCE9} %{SOURCE10}}"), "{after}");
    // If conditions decide whether it exists, or which number it has.
    let numbered = refused(&SPEC.replace("more.conf", "foo.gv"));
    assert!(numbered.starts_with("line 6: "), "{numbered}");
    let unnumbered = SPEC.replace("%endif\nBuildRequires", "%endif\nSource: foo.gv\nBuildRequires");
    assert!(refused(&unnumbered).starts_with("line 8: "), "{}", refused(&unnumbered));
    let own = SPEC.replace("Name:  ", "%global sources foo-%{version}\nName:  ");
    assert!(changed(&own.replace("%autosetup", "%setup -n %{sources}")).contains("Source8:        foo.gv"));
    let named = SPEC.replace("%autosetup", "%autosetup\n# cp %{SOURCE8} %{S:11} .");
    assert!(changed(&named).contains("Source12:       foo.gv"), "{}", changed(&named));
    let first = SPEC.replace("Source0:        foo.tar.gz", "Source: foo.tar.gz\nSource: foo.gv");
    assert!(changed(&first).contains("%sediment_prep %{SOURCE1}}"), "{}", changed(&first));
}

#[test]
fn words_about_the_macros_are_no_use_of_them() {
    let spec = SPEC.to_owned()
        + "\n%changelog\n* Mon Jan 01 2024 a - 1\n- sediment-rpm-macros: %%sediment_prep was tried\n";
    assert!(changed(&spec).contains("%{?with_sediment:%sediment_prep"), "{}", changed(&spec));
}

#[test]
fn tags_inside_macros_are_none() {
    let spec = SPEC.replace("Name:  ", "%global text() %{expand:\nSource99: not.one\n%if\n}\nName:  ");
    assert!(changed(&spec).contains("Source8:        foo.gv"));
}

#[test]
fn lines_of_a_definition_that_is_continued_are_none_of_the_spec() {
    let definition = "%define pk() \\\nSource50: x \\\nBuildRequires: y \\\n%prep \\\n%{nil}\n";
    let spec = SPEC.replace("BuildRequires:  make\n", &format!("BuildRequires:  make\n{definition}"));
    let after = changed(&spec);
    assert!(after.contains(definition), "{after}");
    assert!(after.contains("Source8:        foo.gv\nBuildRequires:"), "{after}");
}

#[test]
fn the_condition_of_the_next_section_is_not_that_of_prep() {
    let next = "\n%if %{with x}\n%generate_buildrequires\n%endif\n";
    let after = changed(&SPEC.replace("%autosetup\n", &format!("%autosetup\n{next}")));
    let prep = "%autosetup\n%{?with_sediment:%sediment_prep %{SOURCE8}}\n";
    assert!(after.contains(&format!("{prep}{next}")), "{after}");
    let own = "%if %{with x}\ntouch x\n%endif\n";
    let after = changed(&SPEC.replace("%autosetup\n", &format!("%autosetup\n{own}")));
    assert!(after.contains(&format!("{own}%{{?with_sediment:%sediment_prep")), "{after}");
}

#[test]
fn a_profile_that_a_changed_spec_does_not_name_is_noted() {
    let after = changed(SPEC);
    assert_eq!(changed_by(&after, || None).unwrap().notes.len(), 1);
    let notes = change(&after, &profile("bar.gv"), Some(90), &|| None).unwrap().notes;
    assert!(notes.len() == 2 && notes[1].starts_with("bar.gv "), "{notes:?}");
}

#[test]
fn unsupported_specs_are_refused() {
    let refusals = [
        (SPEC.replace("%prep\n", ""), "no ", "%prep"),
        (SPEC.replace("%prep\n", "%if 1\n%prep\n").replace("%build", "%endif\n%build"), "line 15: ", "%prep"),
        (SPEC.replace("%endif\n\n%files\n", "\n%files\n"), "%if ", "%endif"),
        (SPEC.replace("%description", "%endif\n%description"), "line 11: ", "%endif"),
        (SPEC.replace("Source0:", "BuildSystem: autotools\nSource0:"), "line 4: ", "BuildSystem"),
        (SPEC.replace("Source0:", "BuildArch: noarch\nSource0:"), "line 4: ", "noarch"),
        (SPEC.replace("Source7:", "Source%{n}:"), "line 6: ", "macro"),
        (SPEC.replace("Source7:", "Patch1:").replace("Source0:", "Patch0:"), "the spec ", "no source"),
        (SPEC.replace("%autosetup", "%autosetup\ncp %{sources} ."), "line 16: ", "all sources"),
        (SPEC.replace("%autosetup", "%autosetup\ncp %sources ."), "line 16: ", "all sources"),
        (
            SPEC.replace("Name:  ", "%{lua: for _, file in ipairs(sources) do end}\nName:  "),
            "line 2: ",
            "all sources",
        ),
        (SPEC.replace("%autosetup", "%autosetup \\"), "line 15: ", "continued"),
        (SPEC.replace("%files x", "%prep\n%files x"), "line 25: ", "%prep"),
        (SPEC.replace('\n', "\r\n"), "Windows ", "rpmbuild"),
        (SPEC.replace("Source0:", "%bcond_with sediment\nSource0:"), "line 4: ", "sediment"),
        (SPEC.replace("%autosetup", "%{?with_sediment:true}\n%autosetup"), "line 15: ", "sediment"),
        (SPEC.replace("Source0:", "BuildArch: %{?x}noarch\nSource0:"), "line 4: ", "noarch"),
        (SPEC.replace("Source0:", "%{?x86:Source9: y}\nSource0:"), "line 4: ", "macro"),
        (SPEC.replace("Source0:", "%{lua:\n print(\"Source1: y\\n\")\n}\nSource0:"), "line 5: ", "macro"),
    ];
    for (text, beginning, what) in refusals {
        let said = refused(&text);
        assert!(said.starts_with(beginning) && said.contains(what), "{beginning}{what}: {said}");
    }
}

/// From rpm's answer, otherwise from the conditions that the spec file itself sets; a sub-package's noarch is not the
/// package's.
#[test]
fn noarch_under_a_condition() {
    let under = |condition: &str| {
        SPEC.replace("Source0:", &format!("{condition}\nBuildArch: noarch\n%endif\nSource0:"))
    };
    let by_cython = under("%bcond cython 1\n%if %{with cython}\nBuildRequires: cython\n%else");
    let noted = |text: &str| changed_by(text, || None).unwrap().notes.join("\n");
    assert!(noted(&by_cython).starts_with("line 8 "), "{}", noted(&by_cython));
    assert!(changed_by(&by_cython, || Some(false)).is_ok());
    let by_rpm = changed_by(&by_cython, || Some(true)).unwrap_err();
    assert!(by_rpm.to_string().starts_with("line 8: "), "{by_rpm}");
    assert!(refused(&under("%bcond cython 1\n%if %{with cython}")).starts_with("line 6: "));
    let unknown = under("%if 0%{?rhel}");
    assert!(
        noted(&unknown).starts_with("line 5 ") && noted(&unknown).contains("rpmspec"),
        "{}",
        noted(&unknown)
    );
    assert!(changed_by(&unknown, || Some(true)).is_err());
    let of_another =
        SPEC.replace("%description\n", "%package doc\nSummary: x\nBuildArch: noarch\n\n%description\n");
    assert!(changed_by(&of_another, || panic!("asked")).unwrap().notes.is_empty());
    let plain = SPEC.replace("Source0:", "BuildArchitectures: noarch\nSource0:");
    assert!(changed_by(&plain, || panic!("asked")).is_err());
}

#[test]
fn flags_that_are_used_too_early_are_noted() {
    let spec = SPEC.replace("Version:", "%global flags %{optflags} -DX\nVersion:");
    let notes = changed_by(&spec, || None).unwrap().notes;
    assert!(notes.len() == 1 && notes[0].starts_with("line 3 "), "{notes:?}");
    let said = SPEC.replace("Version:", "# %%{optflags} are kept\nVersion:");
    assert!(changed_by(&said, || None).unwrap().notes.is_empty());
}
