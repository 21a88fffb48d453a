// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the JSON of commands with the schemas in docs/json: required fields exist, and all printed fields are in
//! the schema.

use libtest_mimic::Trial;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::{Need, case, root};

/// Validates standard input with the schema in the first argument; objects may have no keys beyond the schema's.
const VALIDATOR: &str = r#"
import json, sys, jsonschema
def closed(schema):
    if isinstance(schema, dict):
        if "properties" in schema:
            schema["additionalProperties"] = False
        for value in schema.values():
            closed(value)
    elif isinstance(schema, list):
        for value in schema:
            closed(value)
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
closed(schema)
jsonschema.Draft202012Validator(schema).validate(json.load(sys.stdin))
"#;

/// Commands that make the inputs, and each schema with its command.
const PREPARED: &[&str] = &[
    "sediment -q import cg.out -o p.gv",
    "printf 'int leaf(int x){return x+1;}\\nint work(int x){return leaf(x)*2;}\\nint main(void){return work(3)==9;}\\n' > t.c",
    "cc -O0 -g -ffunction-sections -c t.c && cc -o tool t.o",
    "cc -o again t.o",
    "strip -o bare tool && sediment -q record -o bare.gv -- ./bare",
    "sed -e 's/sediment=2/sediment=3/' -e 's/samples=1800/samples=1800, blocks=\"8f3a90c1:1=900 2=? 3=42@00c3\"/' p.gv > blocks.gv",
    "sediment wrapper wrapper --profiles p.gv && mkdir log && SEDIMENT_LOG=$PWD/log cc -B$PWD/wrapper t.o -o log/tool",
    "SEDIMENT_LOG=$PWD/log cc -B$PWD/wrapper t.o -o log/other",
    "printf 'Name: tool\nVersion: 1\nSource0: tool.tar\nBuildRequires: gcc\n\n%%description\nNone.\n\n%%prep\n%%autosetup\n\n%%build\n%%make_build\n\n%%install\n%%make_install\n\n%%files\n' > tool.spec",
    "printf '_Z4leafv\\nwork\\nmain\\nleaf\\n' > t.order",
];
const PRINTED: &[(&str, &str)] = &[
    ("record", "sediment record --json r.json -o r.gv -- ./tool && cat r.json"),
    ("record", "sediment record --json - --format llvm-sample -o r.prof -- ./tool"),
    (
        "collect",
        "package=$(dpkg -S /usr/bin/sort 2>/dev/null | sed 's/:.*//' || :) && \
         sediment collect ${package:-coreutils} --method call-sites --json c.json -o c.gv -- /usr/bin/sort cg.out >/dev/null && cat c.json",
    ),
    ("resolve", "sediment resolve bare.gv --debug tool -o named.gv --json"),
    ("resolve", "sediment resolve a.gv --json"),
    ("written", "sediment draw p.gv -o p.dot --json"),
    ("written", "sediment export p.gv --format rows -o p.rows --json"),
    ("written", "sediment report p.gv --binary tool -o p.html --picture p.svg --json"),
    ("written", "sediment manual manual --json"),
    ("wrapper", "sediment wrapper folder --profiles blocks.gv --json"),
    ("wrapper", "sediment wrapper folder --json"),
    ("profile", "sediment import cg.out -o q.gv --json"),
    ("profile", "sediment merge a.gv b.gv -o m.gv --json"),
    ("merge-into", "sediment merge --into new.gv a.gv --from b b.gv --against tool --dry-run --json"),
    (
        "merge-into",
        "sediment merge --into kept.gv a.gv > report && sediment merge --into kept.gv b.gv --json",
    ),
    ("split", "sediment split p.gv -o parts --json"),
    ("package", "sediment package rpm tool.spec --profile p.gv --only tool --json"),
    ("order", "sediment order p.gv --dso tool --linker lld -o o.txt --json"),
    ("order", "sediment order p.gv --binary tool --linker lld -o o.txt --json"),
    ("order", "sediment order p.gv --linker list -o o.txt --json"),
    ("diff", "sediment diff a.gv b.gv --json"),
    ("show", "sediment show a.gv --json"),
    ("show", "sediment show p.gv --json"),
    ("show-dir", "sediment show . --json"),
    ("show-cross-dso", "sediment show p.gv --cross-dso --json"),
    ("verify-same-as", "sediment verify tool --same-as again --json"),
    ("verify", "sediment verify tool --order t.order --profile p.gv --min-coverage 0 --json"),
    ("verify-log", "sediment verify --log log --json"),
    ("verify-blocks", "sediment verify tool --blocks --profile blocks.gv --json"),
    ("predict", "sediment predict p.gv --dso tool --json"),
    ("predict", "sediment predict p.gv --binary tool --order t.order --json"),
    ("advise", "sediment advise inline p.gv --binary tool --json"),
    ("doctor", "sediment doctor --json"),
    (
        "doctor-build-log",
        "echo 'cc -o missed t.o' > build.log && sediment doctor --build-log build.log --log log --json",
    ),
    (
        "optimize",
        "mkdir -p own && cp t.c own && cd own && sediment optimize --measure-for 1s --ship order --train ./tool --json -- 'cc -O0 -o tool t.c'",
    ),
    // With an invalid plugin, levels are not built, and the output reports it.
    (
        "optimize",
        "mkdir -p levels && cp t.c levels && cd levels && touch ../none.so && \
         sediment optimize --measure-for 1s --pgo --gcc-plugin ../none.so --train ./tool --json -- 'cc -O0 -o tool t.c'",
    ),
    (
        "eval-noise",
        "sediment eval noise --no-counters --primary elapsed --blocks 2 --warm-ups 0 --layouts 3 --json \
         --link 'cc {padding_object} t.o -o {output}' -- {program}",
    ),
    ("eval", "sediment eval quick --no-counters --blocks 3 --warm-ups 0 --json -- true -- sleep 0.001"),
];

pub(crate) fn cases() -> Vec<Trial> {
    let needs = [Need::Program("cc"), Need::Program("bash"), Need::PythonModule("jsonschema")];
    vec![
        case("output_is_as_its_schema_says", &needs, output_is_as_its_schema_says),
        case("every_schema_is_on_the_page", &[], every_schema_is_on_the_page),
    ]
}

fn bash(folder: &Path, line: &str) -> Output {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-c", line]).current_dir(folder).env("PATH", path).stdin(Stdio::null());
    shell.output().unwrap()
}

/// Returns the differences between a command's JSON and its schema.
pub(crate) fn is_of_schema(printed: &[u8], schema: &str) -> Result<(), String> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(printed).unwrap();
    file.rewind().unwrap();
    let schema = root().join(format!("docs/json/{schema}.schema.json"));
    let checked = Command::new("python3").args(["-c", VALIDATOR]).arg(schema).stdin(file).output().unwrap();
    if checked.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&checked.stderr).into_owned()) }
}

/// Worth its time: every command that prints JSON runs, and other programs read the output.
fn output_is_as_its_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    for input in std::fs::read_dir(root().join("tests/golden/cli/inputs")).unwrap() {
        let input = input.unwrap().path();
        std::fs::copy(&input, folder.path().join(input.file_name().unwrap())).unwrap();
    }
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sediment"), folder.path().join("bin/sediment")).unwrap();
    for line in PREPARED {
        let done = bash(folder.path(), line);
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let mut wrong = Vec::new();
    for (schema, line) in PRINTED {
        let done = bash(folder.path(), line);
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(done.stdout.is_ascii(), "{line}");
        if let Err(errors) = is_of_schema(&done.stdout, schema) {
            wrong.push(format!("{line}: {errors}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn every_schema_is_on_the_page() {
    let page = std::fs::read_to_string(root().join("docs/json.md")).unwrap();
    for entry in std::fs::read_dir(root().join("docs/json")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(page.contains(&format!("(json/{name})")), "docs/json.md lacks {name}");
        let tested = PRINTED.iter().any(|(schema, _)| name == format!("{schema}.schema.json"));
        assert!(tested, "{name} has no command in this test");
    }
}
