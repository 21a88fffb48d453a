// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wrapper runs the same linker as without it, in an equal process.

use super::harmless::{LONGEST, done, run, with_objects};
use crate::build::{BuildFolder, said};
use libtest_mimic::Trial;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{self, Need, case};

pub fn cases() -> Vec<Trial> {
    let gcc = Need::Program("gcc");
    let strace = [gcc, Need::Program("strace")];
    vec![
        case("the_linker_is_the_one_that_would_have_run", &[gcc], the_same_linker),
        case("copies_of_the_wrapper_end", &[gcc, Need::Program("timeout")], copies),
        case("the_linker_gets_the_process_as_it_was", &[gcc], as_it_was),
        case("few_system_calls_before_the_linker_and_the_same_in_it", &strace, system_calls),
    ]
}

/// Starts a program as a child with these settings: `ignore=SIGNAL`, `block=SIGNAL`, `close=FILE`, `open=FILE`,
/// `umask=MODE`.
const CALLER: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
  if (fork() == 0) {
    int at = 1;
    for (; strcmp(words[at], "--"); at++) {
      char *value = strchr(words[at], '=') + 1;
      sigset_t set;
      sigemptyset(&set);
      switch (words[at][0]) {
      case 'i': signal(atoi(value), SIG_IGN); break;
      case 'b': sigaddset(&set, atoi(value)); sigprocmask(SIG_BLOCK, &set, 0); break;
      case 'c': close(atoi(value)); break;
      case 'o': dup2(open("a.c", O_RDONLY), atoi(value)); break;
      case 'u': umask(strtol(value, 0, 8)); break;
      }
    }
    execv(words[at + 1], words + at + 2);
    _exit(127);
  }
  int status;
  wait(&status);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
"#;

/// A linker that writes its process state to `state`, in its own folder.
const STAND_IN: &str = r#"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
extern char **environ;
int main(int count, char **words) {
  char path[4096] = {0}, place[4096], found[4096];
  int own[3] = {0};
  DIR *files = opendir("/proc/self/fd");
  char text[65536] = {0};
  for (struct dirent *file; (file = readdir(files));) {
    int number = atoi(file->d_name);
    if (file->d_name[0] == '.' || number == dirfd(files)) continue;
    snprintf(place, sizeof place, "/proc/self/fd/%d", number);
    memset(found, 0, sizeof found);
    if (readlink(place, found, sizeof found - 1) > 0) sprintf(text + strlen(text), "file %d %s\n", number, found);
  }
  closedir(files);
  readlink("/proc/self/exe", path, sizeof path - 1);
  strcpy(strrchr(path, '/') + 1, "state");
  mode_t mask = umask(0);
  FILE *out = fopen(path, "w");
  for (int at = 0; at < count; at++) fprintf(out, "word %s\n", words[at]);
  for (char **at = environ; *at; at++) fprintf(out, "variable %s\n", *at);
  fprintf(out, "%sumask %o\nfolder %s\npriority %d\n", text, mask, getcwd(found, sizeof found), getpriority(PRIO_PROCESS, 0));
  for (int at = 0; at < RLIM_NLIMITS; at++) {
    struct rlimit limit;
    getrlimit(at, &limit);
    fprintf(out, "limit %d %lu %lu\n", at, limit.rlim_cur, limit.rlim_max);
  }
  FILE *status = fopen("/proc/self/status", "r");
  while (fgets(found, sizeof found, status))
    if (!strncmp(found, "Sig", 3) && found[3] != 'Q' || !strncmp(found, "Shd", 3) || !strncmp(found, "NoNew", 5) || !strncmp(found, "Seccomp:", 8) || !strncmp(found, "Threads", 7)) fputs(found, out);
  return 7;
}
"#;

/// Makes a folder with both programs: the first as `called`, the second as `tools/ld`.
fn programs(build: &BuildFolder, called: &[&str]) {
    std::fs::create_dir(build.path("tools")).unwrap();
    for (name, text, output) in [("caller", CALLER, "caller"), ("stand-in", STAND_IN, "tools/ld")] {
        std::fs::write(build.path(&format!("{name}.c")), text).unwrap();
        let mut compiler = Command::new("gcc");
        compiler.args(["-w", "-o", output, &format!("{name}.c")]).current_dir(build.0.path());
        done(compiler.env_remove("PROF_DIR"));
    }
    for name in called {
        let path = build.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy(build.path("caller"), path).unwrap();
    }
}

/// Writes a script that prints its name.
fn says(path: &Path, name: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\necho {name}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn the_same_linker() {
    let build = BuildFolder::new();
    let callers = ["make", "bash", "timeout", "rustc", "clang", "x86_64-linux-gnu-clang++-19", "collect2"];
    let called: Vec<String> = callers.iter().map(|name| format!("compiler/{name}")).collect();
    programs(&build, &called.iter().map(String::as_str).collect::<Vec<_>>());
    for folder in ["compiler", "first", "path", "own", "later"] {
        says(&build.path(folder).join("ld"), folder);
    }
    // Folders on PATH with a file that cannot be executed, with a folder of this name, and a missing folder.
    std::fs::create_dir_all(build.path("folder/ld")).unwrap();
    std::fs::create_dir(build.path("data")).unwrap();
    std::fs::write(build.path("data/ld"), "").unwrap();
    let wrapper = build.path("wrapper/ld");
    let path = ["nowhere", "folder", "data", "path", "later"].map(|name| build.path(name));
    let path = std::env::join_paths(path.iter().cloned().chain(["/usr/bin".into(), "/bin".into()])).unwrap();
    let compiler_path =
        std::env::join_paths([build.path("wrapper"), build.path("nowhere"), build.path("first")]).unwrap();
    let rows: &[(&str, bool, &[&str], &str)] = &[
        // A caller that is not a compiler runs the first one on PATH, whatever is next to the caller, and whatever
        // COMPILER_PATH contains.
        ("make", false, &[], "path"),
        ("bash", false, &[], "path"),
        ("timeout", false, &[], "path"),
        ("rustc", false, &[], "path"),
        ("make", true, &[], "path"),
        ("clang", false, &[], "compiler"),
        ("clang", true, &[], "first"),
        ("clang", true, &["-B", "wrapper", "-B", "own"], "own"),
        ("x86_64-linux-gnu-clang++-19", false, &[], "compiler"),
        ("collect2", true, &[], "first"),
        ("collect2", false, &[], "path"),
    ];
    for (caller, with_compiler_path, words, expected) in rows {
        for profiles in [false, true] {
            let mut command = Command::new(build.path("compiler").join(caller));
            command.arg("umask=022").arg("--").arg(&wrapper).arg(&wrapper).arg("a.o").args(*words);
            command.current_dir(build.0.path()).env("PATH", &path);
            for name in ["PROF_DIR", "SEDIMENT_LOG", "SEDIMENT_LD", "COMPILER_PATH", "COLLECT_GCC"] {
                command.env_remove(name);
            }
            if *with_compiler_path {
                command.env("COMPILER_PATH", &compiler_path);
            }
            if profiles {
                std::fs::create_dir_all(build.path("none")).unwrap();
                command.env("PROF_DIR", build.path("none"));
            }
            let output = run(&mut command);
            let said_by = String::from_utf8_lossy(&output.stdout);
            assert_eq!(
                said_by.trim(),
                *expected,
                "{caller} {with_compiler_path} {words:?}: {}",
                said(&output)
            );
        }
    }
}

/// Two copies of the wrapper before a linker, before each other, and alone.
fn copies() {
    let build = BuildFolder::new();
    programs(&build, &["collect2"]);
    for name in ["one", "two"] {
        std::fs::create_dir(build.path(name)).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_sediment"), build.path(name).join("ld")).unwrap();
    }
    says(&build.path("real/ld"), "real");
    let rows: &[(&str, &[&str], &str)] = &[
        ("one/ld", &["one", "two", "real"], "real"),
        ("two/ld", &["one", "two", "real"], "real"),
        ("one/ld", &["two", "one", "real"], "real"),
        ("one/ld", &["one", "two", "one", "two", "real"], "real"),
        ("one/ld", &["real", "two", "one"], "real"),
        ("one/ld", &["two", "one"], ""),
        ("one/ld", &["one", "two"], ""),
        ("one/ld", &["one"], ""),
    ];
    for (called, folders, expected) in rows {
        let list = std::env::join_paths(folders.iter().map(|name| build.path(name))).unwrap();
        for variable in ["PATH", "COMPILER_PATH", "SEDIMENT_LD"] {
            let called = build.path(called);
            let mut command = Command::new(support::program("timeout").unwrap());
            command.args(["-k", "1", LONGEST]).arg(build.path("collect2")).args(["umask=022", "--"]);
            command.arg(&called).arg(&called).arg("a.o").env_remove("PROF_DIR").env_remove("SEDIMENT_LD");
            match variable {
                "PATH" => command.env_remove("COMPILER_PATH").env("PATH", &list),
                "SEDIMENT_LD" => command.env("SEDIMENT_LD", "ld").env("PATH", &list),
                _ => command.env("COLLECT_GCC", "gcc").env("COMPILER_PATH", &list).env("PATH", "/nowhere"),
            };
            let output = command.output().unwrap();
            let (text, said) = (String::from_utf8_lossy(&output.stdout).into_owned(), said(&output));
            assert_eq!(text.trim(), *expected, "{called:?} {variable} {folders:?}: {said}");
            assert_eq!(
                output.status.code(),
                Some(i32::from(expected.is_empty())),
                "{variable} {folders:?}: {said}"
            );
        }
    }
}

fn as_it_was() {
    let build = BuildFolder::new();
    programs(&build, &["collect2"]);
    std::fs::create_dir(build.path("none")).unwrap();
    let state = build.path("tools/state");
    let list = std::env::join_paths([build.path("wrapper"), build.path("tools")]).unwrap();
    let settings: &[&[&str]] = &[
        &["umask=022"],
        &["umask=077", "ignore=13"],
        &["umask=0", "ignore=2", "ignore=15", "block=10", "block=13"],
        &["umask=022", "close=0"],
        &["umask=022", "close=0", "close=1", "close=2"],
        &["umask=022", "open=5", "open=9"],
    ];
    for setting in settings {
        for profiles in [None, Some("none"), Some("other")] {
            let run = |program: &str| {
                let program = build.path(program);
                let mut command = Command::new(build.path("collect2"));
                command.args(*setting).arg("--").arg(&program).arg(&program);
                command.args(["-o", "prog", "x y", "", "main.o"]).current_dir(build.0.path());
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                command
                    .env_clear()
                    .env("COLLECT_GCC", "gcc")
                    .env("COMPILER_PATH", &list)
                    .env("PATH", "/usr/bin:/bin");
                if let Some(folder) = profiles {
                    command.env("PROF_DIR", build.path(folder));
                }
                let _ = std::fs::remove_file(&state);
                assert_eq!(command.status().unwrap().code(), Some(7), "{setting:?}");
                std::fs::read_to_string(&state).unwrap()
            };
            std::fs::create_dir_all(build.path("other")).unwrap();
            std::fs::copy(build.path("profiles/prog.prof"), build.path("other/another.prof")).unwrap();
            let (plain, wrapped) = (run("tools/ld"), run("wrapper/ld"));
            assert!(plain == wrapped, "{setting:?} {profiles:?}\n--- without\n{plain}\n--- with\n{wrapped}");
        }
    }
}

fn system_calls() {
    let build = with_objects();
    programs(&build, &["collect2"]);
    std::fs::copy(support::program("ld.bfd").unwrap(), build.path("tools/ld")).unwrap();
    // As long as in distributions, with GCC's own two folders.
    let first = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin"].map(Into::into);
    let path =
        std::env::join_paths(first.into_iter().chain([build.path("tools"), "/usr/bin".into()])).unwrap();
    let compiler_path = ["wrapper", "nowhere", "nothing"].map(|name| build.path(name));
    let compiler_path = std::env::join_paths(compiler_path).unwrap();
    for by_gcc in [true, false] {
        let calls = |wrapped: bool| {
            let _ = std::fs::remove_file(build.path("prog"));
            let called = match (wrapped, by_gcc) {
                (true, _) => build.path("wrapper/ld"),
                (false, true) => build.path("tools/ld"),
                (false, false) => "ld".into(),
            };
            let mut command = Command::new(support::program("strace").unwrap());
            command.args(["-o", "calls"]).arg(called).args(["-e", "main", "--unresolved-symbols=ignore-all"]);
            command.args(["-o", "prog", "a.o", "b.o", "main.o"]).current_dir(build.0.path());
            command.env_clear().env("PATH", &path);
            if by_gcc {
                command.env("COLLECT_GCC", "gcc").env("COMPILER_PATH", &compiler_path);
            }
            done(&mut command);
            let text = std::fs::read_to_string(build.path("calls")).unwrap();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let last = lines.iter().rposition(|line| line.starts_with("execve(")).unwrap();
            (lines[..last].to_vec(), lines[last..].to_vec())
        };
        same_calls(calls(false), calls(true));
    }
}

/// Few system calls before the linker's own, none of which changes anything, and the same calls in the linker.
fn same_calls(
    (before_plain, plain): (Vec<String>, Vec<String>),
    (before, wrapped): (Vec<String>, Vec<String>),
) {
    let name = |line: &String| line.split('(').next().unwrap().to_owned();
    assert!(before_plain.is_empty());
    assert!(before.len() <= 61, "{} calls:\n{}", before.len(), before.join("\n"));
    let changing = [
        "write",
        "creat",
        "unlink",
        "mkdir",
        "rename",
        "ftruncate",
        "chmod",
        "umask",
        "chdir",
        "rt_sigprocmask",
        "kill",
    ];
    for line in &before {
        let opens_to_write = line.starts_with("open")
            && (line.contains("O_WRONLY") || line.contains("O_RDWR") || line.contains("O_CREAT"));
        assert!(!opens_to_write && !changing.iter().any(|call| name(line).starts_with(call)), "{line}");
    }
    let [plain, wrapped] = [plain, wrapped].map(|lines| lines.iter().map(name).collect::<Vec<_>>());
    assert!(plain == wrapped, "other calls of the linker\n{}\n{}", plain.join(" "), wrapped.join(" "));
}
