// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that run while others do: a server that is measured while another program drives it, or a counter attached
//! to it.
//!
//! A [`Background`] program has a process group of its own. [`Background::end`] sends it a signal and waits for it.
//! Dropping it ends it and all its descendants, so that no error leaves a server running. A server with a configured
//! signal receives that signal first and has a few seconds to end, because a killed server would leave shared memory
//! allocated.
//!
//! [`Background::account`] reads the resources used by its processes from /proc. They include the times of children
//! that the processes have waited for, so a process that ends between two reads is not lost.

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

/// Number of last bytes of a background program's output that are kept.
const KEPT_OF_LOG: usize = 64 * 1024;

/// Interval between two checks of a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Time that a dropped program has to end after its signal.
const GRACE: Duration = Duration::from_secs(5);

/// A program in the background.
#[derive(Debug)]
pub struct Background {
    child: Child,
    name: String,
    stop: Stop,
    started: Instant,
    output: Option<Collector>,
    errors: Option<Collector>,
    ended_by: Option<Signal>,
    /// True once it was waited for: its id may then be another process's.
    reaped: bool,
}

/// Sign that a server accepts work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// This command exits with 0.
    Command(Box<Command>),
    /// A TCP address, `host:port`, accepts connections.
    Port(String),
    /// A Unix socket accepts connections.
    Socket(PathBuf),
    /// Its output holds this text.
    Log(String),
    /// The program is perf and has opened its counters.
    Counting,
}

/// Resources used so far by a set of processes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Account {
    /// Seconds of processor time outside the kernel.
    pub user: f64,
    /// Seconds of processor time inside the kernel.
    pub system: f64,
    /// Page faults without a read from disk.
    pub minor_faults: u64,
    /// Page faults with a read from disk.
    pub major_faults: u64,
    /// Peak resident memory of the largest running process, in bytes.
    pub peak_memory: u64,
    /// Number of processes.
    pub processes: usize,
}

impl Background {
    /// Starts a program in a process group of its own. Ignores its time limit: the caller that waits for it sets one.
    ///
    /// # Errors
    /// If it cannot be started.
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

    /// Sets the signal that the program receives, with a few seconds to end, when it is dropped before its end.
    #[must_use]
    pub fn ended_by(mut self, signal: Signal) -> Self {
        self.ended_by = Some(signal);
        self
    }

    /// Waits until it accepts work.
    ///
    /// # Errors
    /// If it ends first, if that takes longer than `limit`, or if its [`Stop`] is set; the hint has the last lines of
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

    /// True once the server accepts work. A command that checks this may take at most `left`.
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

    /// True if the process has open counters, and as many as a moment ago.
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

    /// Its standard error and standard output so far, the last 64 KiB of each.
    #[must_use]
    pub fn log(&self) -> String {
        let said = |collector: &Option<Collector>| {
            let bytes = collector.as_ref().map(Collector::so_far).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        said(&self.output) + &said(&self.errors)
    }

    fn log_as_hint(&self) -> String {
        // Its last output may still be in the pipe.
        thread::sleep(LOOK_AGAIN);
        let lines = crate::command::last_lines(self.log().as_bytes(), 12);
        if lines.is_empty() {
            "no output".to_owned()
        } else {
            format!("last lines of its log:\n{}", lines.join("\n"))
        }
    }

    /// Waits briefly, so that a process that is about to end has ended.
    pub fn pause(&self) {
        thread::sleep(LOOK_AGAIN);
    }

    /// Ids of the process and all its descendants.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let mut all = descendants(self.child.id());
        all.insert(0, self.child.id());
        all
    }

    /// Resources used so far by its processes. Times have the resolution of the kernel's ticks, mostly 10 ms each.
    #[must_use]
    pub fn account(&self) -> Account {
        const LOOKS: usize = 100;
        // A process that ends meanwhile adds its resources to its parent's, and would be counted twice or not at all.
        // So all are read again until no process has started or ended.
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

    /// True if it ended without our signal.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        has_ended(self.child.id())
    }

    /// Sends it the signal and waits for its end; kills it after `limit`.
    ///
    /// # Errors
    /// If it had to be killed, cannot be waited for, or its [`Stop`] is set meanwhile.
    pub fn end(mut self, signal: Signal, limit: Duration) -> Result<EndedProcess> {
        let id = self.child.id();
        if !self.has_ended() {
            send(id, signal);
        }
        let begun = Instant::now();
        while !self.has_ended() {
            // Dropping it ends it, here and below.
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

/// Returns the signal with this name, with or without `SIG`.
///
/// # Errors
/// If there is none.
pub fn signal(name: &str) -> Result<Signal> {
    let upper = name.to_ascii_uppercase();
    let full = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    full.parse().map_err(|_| {
        failed(format!("unknown signal {}", name.escape_debug()))
            .with_hint("for example TERM, INT, QUIT, HUP")
    })
}

/// Sums the resources of these processes; `None` if one of them is gone or just adding its resources to its parent's.
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

/// Adds the faults and times in a line of /proc/ID/stat, including children that were waited for. A tick is 1/100 s on
/// every platform on which Linux runs programs (`sysconf(_SC_CLK_TCK)`). `None` if the line is malformed or the process
/// is being removed.
fn add_stat(sum: &mut Account, stat: &str) -> Option<()> {
    const TICKS_PER_SECOND: f64 = 100.0;
    // After the name come the fields from 3 (state) on.
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

    /// Children start and end all the time; their resources stay in the sum.
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
