// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that run beside others: a server that is measured while another program drives it, a counter that is attached to it.
//!
//! A [`Background`] program has a process group of its own. It is ended by a signal and waited for; dropped, it and all that
//! descend from it are ended, so that no error on the way leaves a server behind. A server that was given a signal to be ended
//! by is sent it first, and a few seconds: ended by force it would leave shared memory behind.
//!
//! [`Background::account`] reads what its processes have used so far from /proc: their own times and those of children that
//! they have waited for, so that a process which ends between two looks is not lost.

use crate::command::{
    Collector, Command, EndedProcess, Keep, Stop, Usage, descendants, end_group, feed, has_ended, kill_tree,
    outcome, reap, run, start,
};
use crate::failed;
use core::time::Duration;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sediment_core::Result;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Instant;

/// Bytes of a background program's output that are kept, the last ones.
const KEPT_OF_LOG: usize = 64 * 1024;

/// Interval between two looks at a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Time that a dropped program has to end after its signal.
const GRACE: Duration = Duration::from_secs(5);

/// A program that runs meanwhile.
#[derive(Debug)]
pub struct Background {
    child: Child,
    name: String,
    stop: Stop,
    started: Instant,
    output: Option<Collector>,
    errors: Option<Collector>,
    ended_by: Option<Signal>,
    /// Once it is, its id may be another's.
    reaped: bool,
}

/// Sign by which a server shows that it accepts work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// This command exits with 0.
    Command(Box<Command>),
    /// Something accepts connections at this TCP address, `host:port`.
    Port(String),
    /// Something accepts connections at this Unix socket.
    Socket(PathBuf),
    /// Its output holds this text.
    Log(String),
    /// It is perf, and has opened its counters.
    Counting,
}

/// Resources used by a set of processes so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Account {
    /// Seconds on a processor outside the kernel.
    pub user: f64,
    /// Seconds on a processor inside the kernel.
    pub system: f64,
    /// Page faults that needed no reading.
    pub minor_faults: u64,
    /// Page faults that had to read.
    pub major_faults: u64,
    /// Peak resident memory of the largest process that is there now, in bytes.
    pub peak_memory: u64,
    /// Number of processes.
    pub processes: usize,
}

impl Background {
    /// Starts a program in a process group of its own. Its time limit is not looked at: whoever waits for it sets one.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &Command) -> Result<Self> {
        let stop = command.stop.clone().unwrap_or_default();
        let mut child = start(&command.clone().stopped_by(&stop), Stdio::piped())?;
        feed(&mut child, &command.input);
        let collect = |pipe: Box<dyn std::io::Read + Send>| Collector::start(pipe, Keep::Last(KEPT_OF_LOG));
        let output = child.stdout.take().map(|pipe| collect(Box::new(pipe)));
        let errors = child.stderr.take().map(|pipe| collect(Box::new(pipe)));
        Ok(Self {
            child,
            name: command.name(),
            stop,
            started: Instant::now(),
            output,
            errors,
            ended_by: None,
            reaped: false,
        })
    }

    /// The program, to be sent this signal and given a few seconds where it is dropped before its end.
    #[must_use]
    pub fn ended_by(mut self, signal: Signal) -> Self {
        self.ended_by = Some(signal);
        self
    }

    /// Waits until it takes work.
    ///
    /// # Errors
    /// When it ends before, when that takes longer than `limit`, or when its [`Stop`] is asked; the hint holds the last lines of
    /// its log.
    pub fn wait_until(&mut self, ready: &Ready, limit: Duration) -> Result<()> {
        let begun = Instant::now();
        loop {
            self.stop.check()?;
            if self.has_ended() {
                end_group(self.child.id());
                let log = self.log_as_hint();
                let how =
                    self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
                let error = failed(format!("{} ended before it was ready ({how})", self.name));
                self.reaped = true;
                return Err(error.with_hint(log));
            }
            if self.is_ready(ready, limit.saturating_sub(begun.elapsed())) {
                return Ok(());
            }
            if begun.elapsed() >= limit {
                let seconds = limit.as_secs_f64();
                let error = failed(format!("{} was not ready after {seconds} s", self.name));
                return Err(error.with_hint(self.log_as_hint()));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// True once the server accepts work; a command that asks it may take no longer than `left`.
    fn is_ready(&self, ready: &Ready, left: Duration) -> bool {
        match ready {
            Ready::Command(probe) => {
                let mut probe = probe.as_ref().clone().stopped_by(&self.stop);
                probe.time_limit = probe.time_limit.min(left);
                run(&probe, 0).is_ok_and(|ended| ended.successful(&probe).is_ok())
            }
            Ready::Port(address) => address.to_socket_addrs().is_ok_and(|mut addresses| {
                addresses.any(|address| TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok())
            }),
            Ready::Socket(path) => UnixStream::connect(path).is_ok(),
            Ready::Log(text) => self.log().contains(text.as_str()),
            Ready::Counting => self.counters_open(),
        }
    }

    /// True if the process has counters open, and as many as a moment ago.
    fn counters_open(&self) -> bool {
        let count = || {
            let files = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()));
            let links =
                files.into_iter().flatten().flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
            links.filter(|link| link.to_string_lossy().contains("[perf_event]")).count()
        };
        let before = count();
        thread::sleep(LOOK_AGAIN);
        before > 0 && before == count()
    }

    /// Its standard error and standard output so far, at most the last 64 KiB of each.
    #[must_use]
    pub fn log(&self) -> String {
        let said = |collector: &Option<Collector>| {
            let bytes = collector.as_ref().map(Collector::so_far).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        said(&self.output) + &said(&self.errors)
    }

    fn log_as_hint(&self) -> String {
        // What it said last may still be in the pipe.
        thread::sleep(LOOK_AGAIN);
        let lines = crate::command::last_lines(self.log().as_bytes(), 12);
        if lines.is_empty() {
            "no output".to_owned()
        } else {
            format!("last lines of its log:\n{}", lines.join("\n"))
        }
    }

    /// Waits a moment, in which a process that is about to end has ended.
    pub fn pause(&self) {
        thread::sleep(LOOK_AGAIN);
    }

    /// The process and all that descend from it, by their ids.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let mut all = descendants(self.child.id());
        all.insert(0, self.child.id());
        all
    }

    /// Resources used by its processes so far. Times have the resolution of the kernel's ticks, mostly 10 ms each.
    #[must_use]
    pub fn account(&self) -> Account {
        const LOOKS: usize = 100;
        // A process that ends meanwhile passes its account on to its parent, and would be counted twice or not at all: so all are
        // looked at again until none has come or gone.
        let mut sum = Account::default();
        for _ in 0..LOOKS {
            let before = self.processes();
            let found = account_of(&before);
            let is_whole = found.is_some();
            sum = found.unwrap_or(sum);
            if is_whole && self.processes() == before {
                break;
            }
        }
        sum
    }

    /// True if it has ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        has_ended(self.child.id())
    }

    /// Sends it the signal and waits for its end; after `limit` it is ended by force.
    ///
    /// # Errors
    /// When it had to be ended by force, cannot be waited for, or its [`Stop`] is asked meanwhile.
    pub fn end(mut self, signal: Signal, limit: Duration) -> Result<EndedProcess> {
        let id = self.child.id();
        if !self.has_ended() {
            send(id, signal);
        }
        let begun = Instant::now();
        while !self.has_ended() {
            // Dropping ends it, here and below.
            self.stop.check()?;
            if begun.elapsed() >= limit {
                let seconds = limit.as_secs_f64();
                self.ended_by = None;
                return Err(failed(format!("{} did not stop {seconds} s after {signal}", self.name))
                    .with_hint(self.log_as_hint()));
            }
            thread::sleep(LOOK_AGAIN);
        }
        end_group(id);
        let wall = self.started.elapsed();
        let (status, _) = reap(&mut self.child, wall)
            .map_err(|error| failed(format!("cannot wait for {}: {error}", self.name)))?;
        self.reaped = true;
        let (output, output_dropped) = self.output.take().map(Collector::finish).unwrap_or_default();
        let (errors, _) = self.errors.take().map(Collector::finish).unwrap_or_default();
        let mut ended = EndedProcess::of(id, outcome(status), errors);
        ended.usage = Usage { wall, ..Usage::default() };
        ended.output = output;
        ended.output_dropped = output_dropped;
        Ok(ended)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let id = self.child.id();
        if !self.reaped {
            if let Some(signal) = self.ended_by.filter(|_| !self.has_ended()) {
                send(id, signal);
                let begun = Instant::now();
                while !self.has_ended() && begun.elapsed() < GRACE {
                    thread::sleep(LOOK_AGAIN);
                }
            }
            kill_tree(id);
            end_group(id);
            let _ = self.child.wait();
        }
    }
}

fn send(process: u32, signal: Signal) {
    if let Ok(process) = i32::try_from(process) {
        let _ = kill(Pid::from_raw(process), signal);
    }
}

/// The signal of this name, with or without `SIG`.
///
/// # Errors
/// When there is none.
pub fn signal(name: &str) -> Result<Signal> {
    let upper = name.to_ascii_uppercase();
    let full = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    full.parse().map_err(|_| {
        failed(format!("unknown signal {}", name.escape_debug()))
            .with_hint("for example TERM, INT, QUIT, HUP")
    })
}

/// Sums the resources of these processes; None where one of them is gone, or is just passing its account on.
fn account_of(processes: &[u32]) -> Option<Account> {
    let mut sum = Account::default();
    for process in processes {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).ok();
        add_stat(&mut sum, &read("stat")?)?;
        if let Some(peak) = crate::command::high_water_mark(&read("status").unwrap_or_default()) {
            sum.peak_memory = sum.peak_memory.max(peak);
        }
    }
    Some(sum)
}

/// Adds a line of /proc/ID/stat: its faults and times, and those of children waited for. Ticks are 1/100 s on every platform
/// that Linux runs programs of (`sysconf(_SC_CLK_TCK)`). None where it is no such line, or the process is being removed.
fn add_stat(sum: &mut Account, stat: &str) -> Option<()> {
    const TICKS_PER_SECOND: f64 = 100.0;
    // Behind the name come fields 3 (state) and on.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    if *fields.first()? == "X" {
        return None;
    }
    let field =
        |number: usize| fields.get(number - 3).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    sum.minor_faults += field(10) + field(11);
    sum.major_faults += field(12) + field(13);
    sum.user += (field(14) + field(16)) as f64 / TICKS_PER_SECOND;
    sum.system += (field(15) + field(17)) as f64 / TICKS_PER_SECOND;
    sum.processes += 1;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_counts_children_that_were_waited_for() {
        let mut sum = Account::default();
        let stat = "17 (a (b) c) S 5 17 1 0 -1 4194304 100 20 3 1 250 50 25 5 20 0 1 0 9 9 9";
        add_stat(&mut sum, stat).unwrap();
        assert_eq!((sum.minor_faults, sum.major_faults, sum.processes), (120, 4, 1));
        assert!((sum.user - 2.75).abs() < 1e-9 && (sum.system - 0.55).abs() < 1e-9);
        assert_eq!(add_stat(&mut sum, ""), None);
        assert_eq!(add_stat(&mut sum, &stat.replace(" S ", " X ")), None);
        assert_eq!(sum.processes, 1);
    }

    /// Children come and go all the time; what they used stays on the account.
    #[test]
    fn an_account_never_falls() {
        let script = "while :; do dd if=/dev/zero of=/dev/null bs=16M count=1 2>/dev/null; done";
        let command = Command::new("sh", "/", Duration::from_secs(60)).with_arguments(["-c", script]);
        let server = Background::start(&command).unwrap();
        let mut last = Account::default();
        for _ in 0..250 {
            let now = server.account();
            assert!(
                now.minor_faults >= last.minor_faults
                    && now.user + now.system >= last.user + last.system - 1e-9,
                "{now:?} after {last:?}"
            );
            last = now;
        }
        assert!(last.minor_faults > 0);
    }

    #[test]
    fn signals_have_their_names() {
        assert_eq!(signal("INT").unwrap(), Signal::SIGINT);
        assert_eq!(signal("sigterm").unwrap(), Signal::SIGTERM);
        assert!(signal("STOPIT").is_err());
    }
}
