// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers under load, attached to and detached repeatedly: every connection stays open, and every answer is correct.

use super::bench::{Bench, Made, Room, WatchedCommand};
use super::fault::{Fault, FaultKind};
use super::made::{POLLS, SERVES};
use super::parameters::Parameters;
use super::plan::{TERM, attached, code_is_whole, let_go, nobody, record, seconds, words_of};
use super::processes;
use super::real::expect_end;
use super::scenario::{Scenario, special};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let own = |name, made: Made| special(name, move |bench, parameters| own_server(bench, parameters, made));
    vec![
        own("a_server_of_threads_under_load", SERVES).ranges(|ranges| ranges.time = (100, 700)),
        own("a_server_of_events_under_load", POLLS).ranges(|ranges| ranges.time = (100, 700)),
        special("redis_under_load", redis).needs(&["redis-server"]).short(0).at_most(20),
        special("nginx_under_load", nginx).needs(&["nginx"]).short(0).at_most(20),
        postgresql_row("postgresql_under_load", "postgres").all_calls(),
        postgresql_row("postgresql_under_load_for_first_uses", "postgres")
            .ranges(|ranges| ranges.startup = (1, 1)),
    ]
}

fn postgresql_row(name: &'static str, server: &'static str) -> Scenario {
    let run = move |bench: &Bench, parameters: &Parameters| postgresql(bench, parameters, server);
    special(name, run).needs(&[server, "pgbench", "initdb"]).short(0).at_most(1)
}

/// Requests lines over one connection until told to end; an error describes a wrong answer.
type Client = fn(&str, &AtomicBool, &AtomicU64) -> Result<(), String>;

/// Records a process several times while clients send requests, and checks its code after each recording. Returns the
/// number of answers.
fn under_load(
    room: &Room<'_>,
    parameters: &Parameters,
    (target, program): (&WatchedCommand, i32),
    (address, client): (&str, Client),
    times: u32,
) -> Result<u64, Fault> {
    let (over, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    let (over, answers) = (&over, &answers);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..parameters.threads.max(2))
            .map(|_| scope.spawn(move || client(address, over, answers)))
            .collect();
        let recorded = (0..times).try_for_each(|_| record_once(room, parameters, target, program));
        // Any remaining change would have an effect now.
        std::thread::sleep(Duration::from_millis(50));
        over.store(true, Ordering::Relaxed);
        let lost: Vec<String> =
            clients.into_iter().filter_map(|client| client.join().unwrap().err()).collect();
        recorded?;
        match lost.first() {
            Some(why) => {
                Err(Fault::new(FaultKind::Changed, format!("{} connections were lost: {why}", lost.len())))
            }
            None => Ok(()),
        }
    })?;
    Ok(answers.load(Ordering::Relaxed))
}

fn record_once(
    room: &Room<'_>,
    parameters: &Parameters,
    target: &WatchedCommand,
    program: i32,
) -> Result<(), Fault> {
    let mut words = record(room, parameters);
    words.extend(seconds(parameters));
    words.extend(["--pid".to_owned(), program.to_string()]);
    let mut recorder = room.start("recorder", &words);
    attached(&recorder, program)?;
    let report = recorder.wait()?;
    let said =
        format!("recorder ended with {:?}, said: {}; {}", report.command, recorder.err(), target.err());
    let_go(target)?;
    code_is_whole(target, false).map_err(|fault| fault.and(&said))?;
    if report.command.code() != 0 {
        return Err(Fault::new(FaultKind::Lost, said));
    }
    room.profile().map_err(|why| Fault::new(FaultKind::Lost, format!("{why}; {said}")))
}

fn own_server(bench: &Bench, parameters: &Parameters, made: Made) -> Result<(), Fault> {
    let room = bench.room_of(parameters);
    let mut target = room.start("recorded", &[room.place(&made)]);
    target.printed("ready\n")?;
    let port = std::fs::read_to_string(room.path.join("port")).unwrap_or_default();
    let program = target.program(made.name)?;
    let address = format!("127.0.0.1:{}", port.trim());
    let answers = under_load(&room, parameters, (&target, program), (&address, sums), 3)?;
    processes::signal(program, TERM);
    let report = target.wait()?;
    expect_end(report.command.code(), 7, &target.out(), "ready\nwell\n")?;
    if answers == 0 {
        return Err(Fault::new(FaultKind::Changed, "nothing was answered"));
    }
    Ok(())
}

fn connect(address: &str) -> Result<BufReader<TcpStream>, String> {
    let stream = TcpStream::connect(address).map_err(|error| format!("connecting: {error}"))?;
    stream.set_read_timeout(Some(super::bench::step_limit())).unwrap();
    stream.set_nodelay(true).unwrap();
    Ok(BufReader::new(stream))
}

fn line(stream: &mut BufReader<TcpStream>, asked: &str) -> Result<String, String> {
    stream.get_mut().write_all(asked.as_bytes()).map_err(|error| format!("asking: {error}"))?;
    let mut answer = String::new();
    match stream.read_line(&mut answer) {
        Ok(0) => Err("the connection was closed".to_owned()),
        Ok(_) => Ok(answer),
        Err(error) => Err(format!("no answer: {error}")),
    }
}

/// Our own servers' clients: long connections and short ones.
fn sums(address: &str, over: &AtomicBool, answers: &AtomicU64) -> Result<(), String> {
    let mut round = 0u32;
    let mut long = connect(address)?;
    while !over.load(Ordering::Relaxed) {
        let asked = format!("line {round}\n");
        let sum = asked.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        let mut short = (round % 8 == 0).then(|| connect(address)).transpose()?;
        let answer = line(short.as_mut().unwrap_or(&mut long), &asked)?;
        if answer != format!("{sum}\n") {
            return Err(format!("{answer:?} instead of {sum}"));
        }
        answers.fetch_add(1, Ordering::Relaxed);
        round += 1;
    }
    Ok(())
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn until_it_listens(target: &WatchedCommand, address: &str) -> Result<(), Fault> {
    target.until("does not listen", || TcpStream::connect(address).ok().map(drop))
}

fn redis(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    fn counts(address: &str, over: &AtomicBool, answers: &AtomicU64) -> Result<(), String> {
        let mut stream = connect(address)?;
        let key = format!("key{:?}", std::thread::current().id()).replace(['(', ')'], "");
        let mut count = 0u64;
        while !over.load(Ordering::Relaxed) {
            count += 1;
            let answer = line(&mut stream, &format!("INCR {key}\r\n"))?;
            if answer != format!(":{count}\r\n") {
                return Err(format!("{answer:?} instead of {count}"));
            }
            for asked in [
                format!("LPUSH list{key} {count}\r\n"),
                format!("ZADD set{key} {count} m{}\r\n", count % 100),
            ] {
                if !line(&mut stream, &asked)?.starts_with(':') {
                    return Err("a command was refused".to_owned());
                }
            }
            answers.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
    let room = bench.room();
    let port = free_port();
    let mut words =
        words_of(&["redis-server", "--bind", "127.0.0.1", "--save", "", "--daemonize", "no", "--port"]);
    words.push(port.to_string());
    let mut target = room.start("recorded", &words);
    let address = format!("127.0.0.1:{port}");
    until_it_listens(&target, &address)?;
    let program = target.command()?;
    under_load(&room, parameters, (&target, program), (&address, counts), 4)?;
    processes::signal(program, TERM);
    let code = target.wait()?.command.code();
    expect_end(code, 0, "", "")
}

fn nginx(bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
    fn pages(address: &str, over: &AtomicBool, answers: &AtomicU64) -> Result<(), String> {
        let mut stream = connect(address)?;
        while !over.load(Ordering::Relaxed) {
            let head = line(&mut stream, "GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
            if !head.starts_with("HTTP/1.1 200") {
                return Err(format!("{head:?}"));
            }
            let mut length = 0;
            loop {
                let mut header = String::new();
                stream.read_line(&mut header).map_err(|error| error.to_string())?;
                if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap_or(0);
                }
                if header == "\r\n" || header.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            std::io::Read::read_exact(&mut stream, &mut body).map_err(|error| error.to_string())?;
            if body != page() {
                return Err("another page".to_owned());
            }
            answers.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
    let room = bench.room();
    let port = free_port();
    std::fs::write(room.path.join("page"), page()).unwrap();
    let folder = room.path.display();
    let user = if nobody().is_empty() { "" } else { "user root;" };
    let configuration = format!(
        "{user} daemon off; worker_processes 2; pid {folder}/nginx.pid; error_log {folder}/errors; events {{}} http {{ access_log off; \
         keepalive_requests 100000000; client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3; uwsgi_temp_path \
         {folder}/4; scgi_temp_path {folder}/5; server {{ listen 127.0.0.1:{port}; root {folder}; }} }}"
    );
    std::fs::write(room.path.join("nginx.conf"), configuration).unwrap();
    let words = words_of(&["nginx", "-p", room.path.to_str().unwrap(), "-e", "errors", "-c", "nginx.conf"]);
    let mut target = room.start("recorded", &words);
    let address = format!("127.0.0.1:{port}");
    until_it_listens(&target, &address)?;
    let program = target.command()?;
    under_load(&room, parameters, (&target, program), (&address, pages), 4)?;
    processes::signal(program, TERM);
    let code = target.wait()?.command.code();
    expect_end(code, 0, "", "")
}

fn page() -> Vec<u8> {
    (0..20_000u32).map(|index| b'a' + (index * 7 % 23) as u8).collect()
}

/// PostgreSQL under pgbench for SEDIMENT_SERVER_SECONDS (600): attached to and detached every second; its sums must be
/// right at the end.
fn postgresql(bench: &Bench, parameters: &Parameters, server: &str) -> Result<(), Fault> {
    let room = bench.room();
    let seconds = super::number("SEDIMENT_SERVER_SECONDS").unwrap_or(600);
    let port = free_port();
    let folder = room.path.display();
    let done = |words: &[&str]| -> Result<String, Fault> {
        let words: Vec<String> = nobody().into_iter().chain(words_of(words)).collect();
        let mut watched = room.start("tool", &words);
        let report = watched.wait()?;
        match report.command.code() {
            0 => Ok(watched.out()),
            code => Err(Fault::new(
                FaultKind::Changed,
                format!("{} ended with {code}: {}", words.join(" "), watched.err()),
            )),
        }
    };
    let (data, at) = (format!("{folder}/data"), port.to_string());
    done(&["initdb", "-D", &data, "-U", "test", "--no-locale", "-E", "UTF8", "-A", "trust"])?;
    let words = [
        server,
        "-D",
        &data,
        "-p",
        &at,
        "-k",
        room.path.to_str().unwrap(),
        "-c",
        "listen_addresses=127.0.0.1",
    ];
    let mut target =
        room.start("recorded", &nobody().into_iter().chain(words_of(&words)).collect::<Vec<_>>());
    let connection = ["-h", "127.0.0.1", "-p", &at, "-U", "test"];
    until_it_listens(&target, &format!("127.0.0.1:{port}"))?;
    let ask = |sql: &str| done(&[&["psql"], &connection[..], &["-d", "postgres", "-Atc", sql]].concat());
    target.until("does not answer", || ask("select 1").ok().filter(|answer| answer == "1\n"))?;
    done(&[&["pgbench", "-i", "-q", "-s", "2"], &connection[..], &["postgres"]].concat())?;
    let time = seconds.to_string();
    let load: Vec<&str> =
        [&["pgbench", "-c", "6", "-j", "2", "-T", &time], &connection[..], &["postgres"]].concat();
    let mut clients = room.start("clients", &nobody().into_iter().chain(words_of(&load)).collect::<Vec<_>>());
    let program = target.program(server)?;
    let mut parameters = parameters.clone();
    parameters.time = 500;
    let clients_id = clients.command()?;
    let mut times = 0;
    while std::path::Path::new(&format!("/proc/{clients_id}/exe")).exists() {
        record_once(&room, &parameters, &target, program)?;
        times += 1;
        std::thread::sleep(Duration::from_millis(300));
    }
    // pgbench runs for its time, and fails if it loses a connection.
    let report = clients.wait()?;
    let said = clients.out();
    let whole =
        said.contains("number of failed transactions: 0 (0.000%)") && !clients.err().contains("aborted");
    if report.command.code() != 0 || !whole {
        return Err(Fault::new(
            FaultKind::Changed,
            format!("pgbench ended with {:?}: {} {said}", report.command, clients.err()),
        ));
    }
    let sums = ask(
        "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history) and \
         (select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers)",
    )?;
    let counted = ask("select count(*) from pgbench_history")?;
    eprintln!("PostgreSQL was attached to {times} times in {seconds} s, in {} transactions", counted.trim());
    processes::signal(program, 2);
    let code = target.wait()?.command.code();
    expect_end(code, 0, &sums, "t\n")
}
