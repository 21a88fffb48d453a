// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C compiler and the linker of the demo.

use crate::compiler::{TIME_LIMIT, dialect, linker_version};
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::link::Linker;
use sediment_process::command::{probe, run};
use sediment_process::{Command, Stop};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Mutex;

/// Options of every compilation: those of distributions, and a section per function.
const COMPILE: [&str; 3] = ["-O2", "-ffunction-sections", "-c"];

const COMPILER_HINT: &str = "install a C compiler: gcc (and libc6-dev or glibc-devel), or clang";
const LINKER_HINT: &str =
    "install GNU ld (package binutils) or lld, and select it if needed: --link-argument=-fuse-ld=bfd";

/// A compiler that works, and what it links with.
#[derive(Debug)]
pub(crate) struct Toolchain {
    compiler: OsString,
    link_arguments: Vec<OsString>,
    /// The compiler's name for itself.
    pub(crate) compiler_version: String,
    /// The linker's name for itself.
    pub(crate) linker_version: String,
    /// The dialect that the linker reads.
    pub(crate) linker: &'static Linker,
    stop: Stop,
}

impl Toolchain {
    /// The compiler of this name, or the first of the usual ones, and the linker that it uses with these arguments; without
    /// arguments another linker is asked for if its own takes no order.
    ///
    /// # Errors
    /// When there is no compiler, or no linker that takes an order, with what to install.
    pub(crate) fn find(compiler: Option<&OsStr>, link_arguments: &[OsString], stop: &Stop) -> Result<Self> {
        let (compiler, compiler_version) = find_compiler(compiler)?;
        let mut tries = vec![link_arguments.to_vec()];
        if link_arguments.is_empty() {
            tries.extend([vec!["-fuse-ld=bfd".into()], vec!["-fuse-ld=lld".into()]]);
        }
        let mut seen = Vec::new();
        for link_arguments in tries {
            let version = linker_version(&compiler, &link_arguments);
            if let Some(linker) = dialect(&compiler, &link_arguments, &version) {
                return Ok(Self {
                    compiler,
                    link_arguments,
                    compiler_version,
                    linker_version: version,
                    linker,
                    stop: stop.clone(),
                });
            }
            seen.push(version);
        }
        seen.retain(|version| !version.is_empty());
        let found =
            if seen.is_empty() { "none works".to_owned() } else { format!("found: {}", seen.join("; ")) };
        Err(Error::new(
            ErrorCode::Unsupported,
            format!("no linker here reads an order of functions ({found})"),
        )
        .with_hint(LINKER_HINT))
    }

    /// Compiles the sources to objects next to them, one per processor at a time; calls `each` after each.
    pub(crate) fn compile(&self, sources: &[String], folder: &Path, each: impl Fn() + Sync) -> Result<()> {
        let queue = Mutex::new(sources.iter());
        let work = || {
            while let Some(source) = queue.lock().ok().and_then(|mut rest| rest.next()) {
                self.run(COMPILE.iter().map(OsString::from).chain([OsString::from(source)]), folder)?;
                each();
            }
            Ok(())
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            handles.into_iter().try_for_each(|handle| {
                handle
                    .join()
                    .unwrap_or_else(|_| Err(Error::new(ErrorCode::Internal, "a compiling thread panicked")))
            })
        })
    }

    /// Links objects to a program; with an ordering file, in its order. All names are relative to the folder.
    pub(crate) fn link(
        &self,
        objects: &[String],
        order: Option<&str>,
        program: &str,
        folder: &Path,
    ) -> Result<()> {
        let order = order.map(|file| self.order_arguments(file)).unwrap_or_default();
        let arguments = self
            .link_arguments
            .iter()
            .cloned()
            .chain(["-o", program].map(OsString::from))
            .chain(objects.iter().map(OsString::from))
            .chain(order.into_iter().map(OsString::from));
        self.run(arguments, folder)
    }

    /// Arguments for the compiler to pass an ordering file to the linker.
    pub(crate) fn order_arguments(&self, file: &str) -> Vec<String> {
        self.linker.arguments.split_whitespace().map(|argument| argument.replace("FILE", file)).collect()
    }

    fn run(&self, arguments: impl IntoIterator<Item = OsString>, folder: &Path) -> Result<()> {
        let mut command =
            Command::new(&self.compiler, folder, TIME_LIMIT).with_arguments(arguments).stopped_by(&self.stop);
        // What a compiler that is ended leaves goes with the folder.
        command.environment.push(("TMPDIR".into(), folder.into()));
        run(&command, 0)?.successful(&command)?;
        Ok(())
    }
}

fn find_compiler(named: Option<&OsStr>) -> Result<(OsString, String)> {
    let names =
        named.map_or_else(|| ["cc", "gcc", "clang"].map(OsString::from).to_vec(), |name| vec![name.into()]);
    let mut last = None;
    for name in names {
        match probe(&name, &["--version"], COMPILER_HINT) {
            Ok(version) => return Ok((name, version)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| Error::new(ErrorCode::Unsupported, "no C compiler found")))
}
