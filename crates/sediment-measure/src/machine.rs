// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the state of the measuring machine: its hardware, its settings and its other activity; and reports which of
//! these disturb a measurement, with the command that fixes each. This module changes nothing itself.
//!
//! Everything is read from `/proc`, `/sys` and `/etc` below a given root. Facts that the machine does not report are
//! omitted.

use super::processor::{self, Processor};
use sediment_process::command::probe;
use std::collections::BTreeSet;
use std::path::Path;

/// A disturbance of measurements on a machine, and its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The disturbance, and its effect on measurements.
    pub what: String,
    /// The command that fixes it temporarily; empty if there is none.
    pub command: String,
}

/// Hardware and settings of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineState {
    /// Facts by name, in the order of a table: first the hardware, then the settings.
    pub facts: Vec<(String, String)>,
    /// Disturbances.
    pub warnings: Vec<Warning>,
}

/// Counters of the whole machine at one moment; the difference of two shows the activity in between.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MachineActivity {
    stolen: u64,
    all: u64,
    waiting: Option<u64>,
    throttled: u64,
}

/// Number of processors that this process may use.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Reads the state below a root, `/` for this machine.
#[must_use]
pub fn state(root: &Path) -> MachineState {
    let mut state = MachineState::default();
    hardware(root, &mut state);
    settings(root, &mut state);
    state
}

struct Sysfs<'a>(&'a Path);

impl Sysfs<'_> {
    /// The content of a file without surrounding blanks; `None` if it is absent or empty.
    fn read(&self, path: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.0.join(path)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The value in the first line that begins with this key and a colon.
    fn cpuinfo(&self, text: &str, key: &str) -> Option<String> {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let value = lines.find(|(name, _)| name.trim() == key)?.1.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }
}

fn add(state: &mut MachineState, name: &str, value: Option<String>) {
    if let Some(value) = value {
        state.facts.push((name.to_owned(), value));
    }
}

fn warn(state: &mut MachineState, what: &str, command: &str) {
    state.warnings.push(Warning { what: what.to_owned(), command: command.to_owned() });
}

fn hardware(root: &Path, state: &mut MachineState) {
    let files = Sysfs(root);
    let cpuinfo = files.read("proc/cpuinfo").unwrap_or_default();
    let says = |key: &str| files.cpuinfo(&cpuinfo, key);
    let vendor = files.read("sys/class/dmi/id/sys_vendor");
    let product =
        files.read("sys/class/dmi/id/product_name").or_else(|| files.read("proc/device-tree/model"));
    let machine: Vec<String> = vendor.into_iter().chain(product).collect();
    add(state, "machine", (!machine.is_empty()).then(|| machine.join(" ").replace('\0', "")));
    add(state, "processor manufacturer", says("vendor_id").or_else(|| says("CPU implementer")));
    add(state, "processor family", says("cpu family").or_else(|| says("CPU architecture")));
    add(state, "processor model", says("model").or_else(|| says("CPU part")));
    add(state, "processor name", says("model name").or_else(|| says("Hardware")));
    add(state, "stepping", says("stepping").or_else(|| says("CPU revision")));
    add(state, "microcode", says("microcode"));
    add(state, "clock", clock(&files, &says("cpu MHz")));
    let processors = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    add(state, "processor cores", cores(&cpuinfo).map(|count| count.to_string()));
    add(state, "virtual processors", (processors > 0).then(|| processors.to_string()));
    let memory = files.read("proc/meminfo").and_then(|text| files.cpuinfo(&text, "MemTotal"));
    let kilobytes = memory.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    add(state, "ram", kilobytes.map(|kb| format!("{:.1} GiB", kb / (1024.0 * 1024.0))));
    add(state, "virtual machine", (!cpuinfo.is_empty()).then(|| yes(processor::is_virtual(&cpuinfo))));
    for event in ["iTLB-loads", "iTLB-load-misses"] {
        let counts = Processor::of(&cpuinfo).and_then(|processor| processor.counts(event)).flatten();
        add(state, &format!("{event} here"), counts.map(str::to_owned));
    }
}

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

fn clock(files: &Sysfs<'_>, now: &Option<String>) -> Option<String> {
    let most = files.read("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    let most = most.and_then(|text| text.parse::<f64>().ok()).map(|khz| khz / 1e6);
    let now = now.as_ref().and_then(|text| text.parse::<f64>().ok()).map(|mhz| mhz / 1e3);
    match (now, most) {
        (Some(now), Some(most)) => Some(format!("{now:.2} GHz, at most {most:.2} GHz")),
        (Some(one), None) | (None, Some(one)) => Some(format!("{one:.2} GHz")),
        (None, None) => None,
    }
}

/// Number of distinct pairs of package and core.
fn cores(cpuinfo: &str) -> Option<usize> {
    let mut found = BTreeSet::new();
    for processor in cpuinfo.split("\n\n") {
        let says = |key: &str| {
            let mut lines = processor.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
        };
        if let (Some(package), Some(core)) = (says("physical id"), says("core id")) {
            found.insert((package, core));
        }
    }
    (!found.is_empty()).then_some(found.len())
}

fn settings(root: &Path, state: &mut MachineState) {
    let files = Sysfs(root);
    let cpu = "sys/devices/system/cpu";
    let on = |text: Option<String>| text.map(|text| yes(text == "1"));
    add(state, "SMT in use", on(files.read(&format!("{cpu}/smt/active"))));
    let governor = files.read(&format!("{cpu}/cpu0/cpufreq/scaling_governor"));
    if governor.as_deref().is_some_and(|governor| governor != "performance") {
        warn(
            state,
            "the processor's frequency follows the load: short runs are measured at changing frequencies",
            "sudo cpupower frequency-set --governor performance",
        );
    }
    add(state, "governor", governor.or_else(|| Some("unknown".to_owned())));
    add(state, "frequency driver", files.read(&format!("{cpu}/cpu0/cpufreq/scaling_driver")));
    turbo(&files, state);
    add(state, "isolated processors", files.read(&format!("{cpu}/isolated")));
    let chosen = |text: String| {
        let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        inside.map_or(text.clone(), |(word, _)| word.to_owned())
    };
    add(
        state,
        "transparent huge pages",
        files.read("sys/kernel/mm/transparent_hugepage/enabled").map(chosen),
    );
    let aslr = files.read("proc/sys/kernel/randomize_va_space");
    if aslr.as_deref().is_some_and(|level| level != "2") {
        warn(
            state,
            "addresses are not randomised: all runs share one random address layout",
            "sudo sysctl kernel.randomize_va_space=2",
        );
    }
    add(state, "address randomisation (ASLR)", aslr);
    let paranoid = files.read("proc/sys/kernel/perf_event_paranoid");
    if paranoid.as_deref().and_then(|text| text.parse::<i32>().ok()).is_some_and(|level| level > 2) {
        warn(
            state,
            "perf may not count for ordinary users here (kernel.perf_event_paranoid above 2)",
            "sudo sysctl kernel.perf_event_paranoid=2",
        );
    }
    add(state, "perf_event_paranoid", paranoid);
    let watchdog = files.read("proc/sys/kernel/nmi_watchdog");
    if watchdog.as_deref() == Some("1") {
        warn(
            state,
            "the kernel's NMI watchdog occupies one hardware counter",
            "sudo sysctl kernel.nmi_watchdog=0",
        );
    }
    add(state, "NMI watchdog", on(watchdog));
    add(state, "kernel", files.read("proc/sys/kernel/osrelease"));
    let release = files.read("etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    add(state, "distribution", name.map(|name| name.trim_matches('"').to_owned()));
    battery(root, state);
    load(&files, state);
}

fn turbo(files: &Sysfs<'_>, state: &mut MachineState) {
    let off = files.read("sys/devices/system/cpu/intel_pstate/no_turbo").map(|text| text == "1");
    let on = files.read("sys/devices/system/cpu/cpufreq/boost").map(|text| text == "1");
    let Some(on) = off.map(|off| !off).or(on) else { return };
    if on {
        let command = if off.is_some() {
            "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
        } else {
            "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
        };
        warn(state, "turbo is on: the frequency depends on the temperature and on other cores", command);
    }
    add(state, "turbo", Some(yes(on)));
}

fn battery(root: &Path, state: &mut MachineState) {
    let Ok(supplies) = std::fs::read_dir(root.join("sys/class/power_supply")) else { return };
    let mut online: Vec<String> = supplies
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("online")).ok())
        .map(|text| text.trim().to_owned())
        .collect();
    online.sort();
    if online.is_empty() {
        return;
    }
    let mains = online.iter().any(|text| text == "1");
    add(state, "mains power", Some(yes(mains)));
    if !mains {
        warn(state, "the machine runs on its battery", "");
    }
}

fn load(files: &Sysfs<'_>, state: &mut MachineState) {
    let load = files.read("proc/loadavg");
    let one_minute =
        load.as_ref().and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0);
    let cpuinfo = files.read("proc/cpuinfo").unwrap_or_default();
    let processors = cpuinfo.lines().filter(|line| line.starts_with("processor")).count().max(1);
    if one_minute > 0.5 * processors as f64 {
        let what = format!(
            "the machine is busy with other work: load {one_minute} on {processors} processors; runs disturb each other"
        );
        warn(state, &what, "");
    }
    let first_three = |text: String| text.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
    add(state, "load at the start", load.map(first_three));
}

/// Versions of the installed tools that a report names.
#[must_use]
pub fn tools() -> Vec<(String, String)> {
    let tools: &[(&str, &str, &[&str])] = &[
        ("compiler (cc)", "cc", &["--version"]),
        ("linker (ld)", "ld", &["--version"]),
        ("valgrind", "valgrind", &["--version"]),
    ];
    tools
        .iter()
        .filter_map(|(name, tool, arguments)| Some(((*name).to_owned(), probe(*tool, arguments, "").ok()?)))
        .collect()
}

/// Activity of the machine since boot, read below a root.
#[must_use]
pub fn activity(root: &Path) -> MachineActivity {
    let files = Sysfs(root);
    let stat = files.read("proc/stat").unwrap_or_default();
    let times: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    let pressure = files.read("proc/pressure/cpu").unwrap_or_default();
    let waiting = pressure.lines().next().and_then(|line| line.split_once("total=")?.1.parse().ok());
    let throttle = "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count";
    MachineActivity {
        // user nice system idle iowait irq softirq steal; guest times are in user already.
        stolen: times.get(7).copied().unwrap_or(0),
        all: times.iter().take(8).sum(),
        waiting,
        throttled: files.read(throttle).and_then(|text| text.parse().ok()).unwrap_or(0),
    }
}

/// A measurement in a virtual machine gets a warning if the hypervisor took more than this share of the time.
const MUCH_STOLEN: f64 = 0.01;

/// A measurement gets a warning if a task waited for a processor for more than this share of the time.
const MUCH_WAITED: f64 = 0.2;

/// Disturbances between two readings this many seconds apart.
#[must_use]
pub fn between(before: &MachineActivity, after: &MachineActivity, seconds: f64) -> MachineState {
    let mut state = MachineState::default();
    let all = after.all.saturating_sub(before.all);
    if all > 0 {
        let stolen = after.stolen.saturating_sub(before.stolen) as f64 / all as f64;
        add(&mut state, "time stolen by the hypervisor", Some(format!("{:.2} %", 100.0 * stolen)));
        if stolen > MUCH_STOLEN {
            let what = format!(
                "the hypervisor took {:.1} % of the processors' time for other guests",
                100.0 * stolen
            );
            warn(&mut state, &what, "");
        }
    }
    if let (Some(before), Some(after), true) = (before.waiting, after.waiting, seconds > 0.0) {
        let share = after.saturating_sub(before) as f64 / 1e6 / seconds;
        add(
            &mut state,
            "time in which a task waited for a processor (PSI)",
            Some(format!("{:.1} %", 100.0 * share)),
        );
        if share > MUCH_WAITED {
            let what =
                format!("other work: tasks waited for a processor in {:.0} % of the time", 100.0 * share);
            warn(&mut state, &what, "");
        }
    }
    if after.throttled > before.throttled {
        warn(&mut state, "the processor slowed itself down because of heat", "");
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact<'a>(state: &'a MachineState, name: &str) -> Option<&'a str> {
        state.facts.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn pairs_of_package_and_core_are_cores() {
        let text = "processor\t: 0\nphysical id\t: 0\ncore id\t: 0\n\nprocessor\t: 1\nphysical id\t: 0\ncore id\t: 0\n\n\
            processor\t: 2\nphysical id\t: 0\ncore id\t: 1\n";
        assert_eq!(cores(text), Some(2));
        assert_eq!(cores("processor : 0\n"), None);
    }

    #[test]
    fn a_laptop_is_described_and_warned_of() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let file = folder.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        put(
            "proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 158\nmodel name\t: Some CPU\n\
             stepping\t: 9\nmicrocode\t: 0xf0\ncpu MHz\t\t: 3000.0\nphysical id\t: 0\ncore id\t: 0\nflags\t\t: fpu ht\n",
        );
        put("proc/meminfo", "MemTotal:       33554432 kB\n");
        put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
        put("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
        put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        put("proc/sys/kernel/randomize_va_space", "0\n");
        put("proc/sys/kernel/nmi_watchdog", "1\n");
        put("proc/sys/kernel/perf_event_paranoid", "4\n");
        put("sys/class/power_supply/AC/online", "0\n");
        put("proc/loadavg", "3.00 1.00 0.50 1/200 999\n");
        let state = state(folder.path());
        assert_eq!(fact(&state, "processor model"), Some("158"));
        assert_eq!(fact(&state, "ram"), Some("32.0 GiB"));
        assert_eq!(fact(&state, "turbo"), Some("yes"));
        assert_eq!(fact(&state, "transparent huge pages"), Some("madvise"));
        assert_eq!(fact(&state, "virtual machine"), Some("no"));
        let commands: Vec<&str> = state.warnings.iter().map(|w| w.command.as_str()).collect();
        assert_eq!(
            commands,
            [
                "sudo cpupower frequency-set --governor performance",
                "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo",
                "sudo sysctl kernel.randomize_va_space=2",
                "sudo sysctl kernel.perf_event_paranoid=2",
                "sudo sysctl kernel.nmi_watchdog=0",
                "",
                "",
            ]
        );
    }

    #[test]
    fn an_empty_machine_says_nothing_and_breaks_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let state = state(folder.path());
        assert_eq!(fact(&state, "processor model"), None);
        assert!(state.warnings.is_empty());
        assert_eq!(
            between(&MachineActivity::default(), &activity(folder.path()), 1.0),
            MachineState::default()
        );
    }

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let before = MachineActivity { stolen: 10, all: 1000, waiting: Some(0), throttled: 0 };
        let after = MachineActivity { stolen: 60, all: 2000, waiting: Some(500_000), throttled: 1 };
        let state = between(&before, &after, 10.0);
        assert_eq!(fact(&state, "time stolen by the hypervisor"), Some("5.00 %"));
        assert_eq!(fact(&state, "time in which a task waited for a processor (PSI)"), Some("5.0 %"));
        assert_eq!(state.warnings.len(), 2);
    }
}
