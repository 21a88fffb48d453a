// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real programs: interpreters that load modules, a browser, compilers, shells and pipes.

use super::bench::{Bench, Room};
use super::fault::{Fault, FaultKind};
use super::made::{THREADS, WORKS};
use super::parameters::Parameters;
use super::plan::{TERM, attached, code_is_whole, difference, let_go, record, seconds, words_of};
use super::processes;
use super::scenario::{Scenario, special};
use std::path::Path;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let whole = |name, words: fn(&Room<'_>) -> Vec<String>| {
        special(name, move |bench, parameters| same(bench, parameters, words, false))
    };
    let cut = |name, words: fn(&Room<'_>) -> Vec<String>| {
        special(name, move |bench, parameters| same(bench, parameters, words, true))
            .ranges(|ranges| ranges.time = (50, 2500))
    };
    vec![
        whole("python_imports_its_library", |_| script("python3", "modules.py"))
            .needs(&["python3"])
            .all_calls(),
        cut("python_let_go_while_it_imports", |_| script("python3", "modules.py")).needs(&["python3"]),
        special("python_attached_to_while_it_imports", python_attached).needs(&["python3"]),
        whole("perl_loads_modules", |_| words_of(&["perl", "-e", PERL])).needs(&["perl"]),
        whole("node_loads_modules", |_| words_of(&["node", "-e", NODE]))
            .needs(&["node"])
            .short(0)
            .at_most(20),
        whole("php_loads_extensions", |_| words_of(&["php", "-r", PHP])).needs(&["php"]),
        whole("ruby_loads_libraries", |_| words_of(&["ruby", "-e", RUBY])).needs(&["ruby"]),
        whole("a_browser", browser).needs(&["chromium"]).short(0).at_most(20).all_calls(),
        cut("a_browser_let_go", browser).needs(&["chromium"]).short(0).at_most(20),
        whole("a_compiler_through_its_driver", |_| words_of(&["sh", "-c", COMPILE])),
        whole("a_database", database).needs(&["sqlite3"]),
        cut("a_database_let_go", database).needs(&["sqlite3"]),
        whole("pipes_of_a_shell", |_| words_of(&["bash", "-c", PIPES])).needs(&["bash"]),
        whole("a_program_replaced_while_it_is_tested", replaced),
        whole("a_file_system_is_unmounted", unmounted).needs(&["unshare"]),
        whole("jobs_of_a_shell", |_| words_of(&["bash", "-c", JOBS])).needs(&["bash"]),
    ]
}

fn programs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torture/programs")
}

fn script(interpreter: &str, name: &str) -> Vec<String> {
    vec![interpreter.to_owned(), programs().join(name).to_str().unwrap().to_owned()]
}

const PERL: &str = "use strict; my $sum = 0; for my $module (qw(POSIX Socket Fcntl List::Util Data::Dumper Storable Time::HiRes \
    Digest::MD5 Digest::SHA Encode IO::Socket File::Find Sys::Hostname Hash::Util B MIME::Base64 Compress::Zlib)) { \
    eval qq(require $module; 1) or next; $sum += $_ for 1 .. 5000; } print qq($sum\\n); print Digest::SHA::sha256_hex(q(x) x 100000), \
    qq(\\n); exit 9;";
const NODE: &str = "const sum = []; for (const name of require('module').builtinModules) { if (/^_|inspector|sys$|punycode|wasi|test|sqlite/.test(name)) \
    continue; require(name); sum.push(name.length); } const { createHash } = require('crypto'); \
    console.log(createHash('sha256').update('x'.repeat(100000)).digest('hex')); process.exitCode = 9;";
const PHP: &str = "foreach (get_loaded_extensions() as $name) { $sum = ($sum ?? 0) + strlen($name); } \
    for ($i = 0; $i < 200; $i++) { $text = hash('sha256', ($text ?? '') . json_encode(range(0, 200))); } echo $sum, ' ', $text, PHP_EOL; exit(9);";
const RUBY: &str = "%w[json set zlib digest stringio strscan date etc socket bigdecimal psych ripper objspace].each { |name| \
    begin; require name; rescue LoadError; end }; text = ''; 100.times { text = Digest::SHA256.hexdigest(text + (0..200).to_a.to_s) }; \
    puts text; exit 9";
const COMPILE: &str = "printf '#include <stdio.h>\\n#include <stdlib.h>\\nint main(void) { puts(\"compiled\"); return 9; }\\n' > input.c && \
    cc -O2 -pipe -o compiled input.c && sha256sum < compiled && ./compiled";
const PIPES: &str = "set -o pipefail; seq 1 20000 | sort -rn | head -n 5000 | gzip -c | gzip -dc | sha256sum; \
    tar cf - /usr/include/linux 2>/dev/null | tar tf - | wc -l; yes | head -n 3; find /usr/include -name 's*.h' | sort | xargs cat | cksum; \
    (kill -SEGV $BASHPID); echo $?; ulimit -t 1; (while :; do :; done); echo $?; exit 9";
const JOBS: &str = "set -m; sleep 30 & kill -STOP %1; sleep 0.1; jobs | sed 's/ .*sleep/ sleep/'; kill -CONT %1; kill %1; wait %1; echo $?; \
    trap 'echo caught' USR1; kill -USR1 $$; (exit 3) & wait $!; echo $?; coproc cat; echo through >&${COPROC[1]}; \
    read line <&${COPROC[0]}; echo $line; exit 9";

/// Many different SQL statements at the end, so that the shell executes new functions all the time.
fn database(room: &Room<'_>) -> Vec<String> {
    let text = "create table t(a integer primary key, b text, c real); with recursive n(x) as (select 1 union all select x + 1 from n where x < 20000) \
        insert into t select x, printf('%08x', x * 7919 % 65536), x * 0.5 from n; create index i on t(b); analyze; \
        select count(*), sum(a), avg(c), min(b), max(b) from t; select b, count(*) from t group by b having count(*) > 1 order by 2 desc, 1 limit 5; \
        select group_concat(a) from (select a from t where b like '%1f%' order by c desc limit 20); update t set c = c + 1 where a % 3 = 0; \
        delete from t where a % 7 = 0; begin; insert into t(b, c) select upper(b), -c from t where a < 2000; rollback; \
        create view v as select t1.a, t2.b from t t1 join t t2 on t1.a = t2.a + 1; select count(*), sum(length(b)) from v; \
        create trigger g after insert on t begin update t set c = 0 where a = new.a; end; insert into t(b, c) values ('x', 5); select c from t where b = 'x'; \
        select a, sum(c) over (order by a rows 3 preceding) from t where a < 12; select json_group_array(b) from (select b from t limit 5); \
        select strftime('%Y-%j', 0, 'unixepoch', '+' || a || ' days') from t where a < 9; vacuum; pragma integrity_check; select * from missing; select 1/0;";
    std::fs::write(room.path.join("input.sql"), text).unwrap();
    words_of(&["sh", "-c", "sqlite3 :memory: <input.sql 2>&1; exit 9"])
}

/// As in configure and `make check`: different programs with the same name, one after the other.
fn replaced(room: &Room<'_>) -> Vec<String> {
    room.place(&WORKS);
    room.place(&THREADS);
    let script = "for program in works threads works; do rm -f conftest; cp $program conftest; ./conftest 50 2; echo $?; done; \
        cp threads new; mv new conftest; ./conftest 50 2; exit 32";
    words_of(&["sh", "-c", script])
}

/// A file system can be unmounted once its programs have ended.
fn unmounted(room: &Room<'_>) -> Vec<String> {
    room.place(&WORKS);
    let script = "mkdir -p mounted && mount -t tmpfs none mounted && cp works mounted || exit 32; \
        for time in 1 2 3 4; do mounted/works 50 1; done; umount mounted; echo $?; exit 9";
    words_of(&["unshare", "-rm", "sh", "-c", script])
}

fn browser(room: &Room<'_>) -> Vec<String> {
    let page = room.path.join("page.html");
    let text = "<!doctype html><title>page</title><p id=p>before</p><canvas id=c></canvas><script>\
        let sum = 0; for (let i = 0; i < 1e5; i++) sum += i % 7; const c = document.getElementById('c').getContext('2d'); \
        c.fillRect(1, 1, 5, 5); document.getElementById('p').textContent = 'after ' + sum + ' ' + \
        c.getImageData(2, 2, 1, 1).data[3];</script>";
    std::fs::write(&page, text).unwrap();
    let _ = std::fs::remove_dir_all(room.path.join("data"));
    let mut words = words_of(&[
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
    ]);
    words.extend(words_of(&[
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]));
    words.extend(words_of(&["--disable-default-apps", "--disable-crash-reporter", "--disable-breakpad"]));
    words.push(format!("--user-data-dir={}", room.path.join("data").display()));
    words.extend(["--dump-dom".to_owned(), format!("file://{}", page.display())]);
    words
}

/// Runs a command without and with the recorder, to its end; `cut`: detached by `--seconds` earlier.
fn same(
    bench: &Bench,
    parameters: &Parameters,
    words: fn(&Room<'_>) -> Vec<String>,
    cut: bool,
) -> Result<(), Fault> {
    let room = bench.room();
    let mut without = room.start("without", &words(&room));
    let expected = without.wait()?;
    let words = words(&room);
    let mut recorded = record(&room, parameters);
    if cut {
        recorded.extend(seconds(parameters));
    }
    recorded.push("--".to_owned());
    recorded.extend(words);
    let mut watched = room.start("recorded", &recorded);
    let report = watched.wait()?;
    let said = format!("recorder ended with {:?}, said: {}", report.command, watched.err());
    if report.command.code() != expected.command.code() {
        let killed = report.command.code() > 128 && expected.command.code() < 128;
        let lost = room.profile().is_err() && watched.out() == without.out();
        let kind = if killed {
            FaultKind::Killed
        } else if lost {
            FaultKind::Lost
        } else {
            FaultKind::Changed
        };
        return Err(Fault::new(kind, format!("it ended with {:?} without; {said}", expected.command)));
    }
    if let Some(difference) = difference(&watched.out(), &without.out()) {
        return Err(Fault::new(FaultKind::Changed, format!("{difference}; {said}")));
    }
    room.profile().map_err(|why| Fault::new(FaultKind::Lost, format!("{why}; {said}")))
}

/// Two recordings of an interpreter that keeps loading modules.
fn python_attached(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    let room = bench.room();
    let mut target = room.start("recorded", &script("python3", "loop.py"));
    target.printed("ready\n")?;
    let program = target.command()?;
    for _ in 0..2 {
        let mut words = record(&room, parameters);
        words.extend(seconds(parameters));
        words.extend(["--pid".to_owned(), program.to_string()]);
        let mut recorder = room.start("recorder", &words);
        attached(&recorder, program)?;
        let report = recorder.wait()?;
        let said = format!("recorder ended with {:?}, said: {}", report.command, recorder.err());
        let_go(&target)?;
        code_is_whole(&target, false).map_err(|fault| fault.and(&said))?;
        if report.command.code() != 0 {
            return Err(Fault::new(FaultKind::Lost, said));
        }
        room.profile().map_err(|why| Fault::new(FaultKind::Lost, format!("{why}; {said}")))?;
    }
    processes::signal(program, TERM);
    let report = target.wait()?;
    expect_end(report.command.code(), 9, &target.out(), "ready\nwell\n")
}

/// Returns a fault if a program ended or printed differently.
pub(crate) fn expect_end(code: i32, expected: i32, out: &str, expected_out: &str) -> Result<(), Fault> {
    if code != expected {
        let kind = if code > 128 { FaultKind::Killed } else { FaultKind::Changed };
        return Err(Fault::new(kind, format!("it ended with {code} instead of {expected}, printed {out:?}")));
    }
    difference(out, expected_out).map_or(Ok(()), |difference| Err(Fault::new(FaultKind::Changed, difference)))
}
