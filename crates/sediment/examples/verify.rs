// SPDX-License-Identifier: MIT OR Apache-2.0
//! A linked file and its order in, the functions out that lie elsewhere:
//! `cargo run -p sediment-order --example verify program program.order`.

use sediment::binary::objects::Objects;
use sediment::binary::{Binary, NoFiles};
use sediment::verify::{Report, verify};
use sediment::{Result, link};
use std::io::{self, Write};
use std::path::Path;

/// Checks a linked file against the ordering file it was linked with, in any linker's language.
fn check(linked: &[u8], file_name: &str, order: &str) -> Result<Report> {
    let binary = Binary::parse(linked, &NoFiles)?;
    let (_linker, asked) = link::read(order)?;
    verify(&binary, &asked, None, file_name, &Objects::default())
}

/// Writes how much of an order a linked file has, and the code of the reason for each function that lies elsewhere.
fn run(
    program: &Path,
    order: &Path,
    mut output: impl Write,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let file_name = program.file_name().unwrap_or_default().to_string_lossy();
    let report = check(&std::fs::read(program)?, &file_name, &std::fs::read_to_string(order)?)?;
    writeln!(output, "{} of {} functions placed as ordered", report.placed, report.asked)?;
    for function in &report.misplaced {
        writeln!(output, "{}: {}", function.name, function.reason.code())?;
    }
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (program, order) = arguments.next().zip(arguments.next()).ok_or("give a program and its order")?;
    run(Path::new(&program), Path::new(&order), io::stdout())
}

#[cfg(test)]
mod tests {
    use super::{check, run};
    use sediment::ErrorCode;
    use std::process::Command;

    const PROGRAM: &str = "int a(void) { return 1; } int b(void) { return 2; } int c(void) { return 3; } int d(void) { return 4; }
int main(void) { return a() + b() + c() + d() - 10; }
";

    fn script(functions: &str) -> String {
        let sections: Vec<String> =
            functions.split(' ').map(|name| format!("    *(.text.{name})\n")).collect();
        format!("SECTIONS {{\n  .text.sediment : {{\n{}  }}\n}} INSERT BEFORE .text;\n", sections.concat())
    }

    #[test]
    fn the_linked_order_is_found_and_another_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        std::fs::write(path("program.c"), PROGRAM).unwrap();
        std::fs::write(path("linked.order"), script("d b a c")).unwrap();
        let options = ["-O0", "-ffunction-sections", "-Wl,-T,linked.order", "-o", "program", "program.c"];
        let ended = Command::new("cc").args(options).current_dir(folder.path()).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let output = |order: &str| {
            std::fs::write(path("checked.order"), script(order)).unwrap();
            let mut output = Vec::new();
            run(&path("program"), &path("checked.order"), &mut output)
                .map(|()| String::from_utf8(output).unwrap())
        };
        assert_eq!(output("d b a c").unwrap(), "4 of 4 functions placed as ordered\n");
        assert_eq!(output("b d a c").unwrap(), "3 of 4 functions placed as ordered\nd: out of order\n");
        let error = output("nothing").unwrap_err();
        let code = error.downcast_ref::<sediment::Error>().map(sediment::Error::code);
        assert_eq!(code, Some(ErrorCode::NotInProfile));
    }

    #[test]
    fn other_files_are_told_apart() {
        assert_eq!(check(b"text", "program", "a\n").unwrap_err().code(), ErrorCode::NotElf);
    }
}
