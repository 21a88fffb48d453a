// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files whose code is recorded, each with its plan, which is made once for all processes that map the file.

use super::plan::SitePlan;
use super::plan_cache::PlanCache;
use crate::tracing::mappings::{self, ProcessMapping};
use nix::unistd::Pid;
use sediment_core::binary;
use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A file with code.
#[derive(Debug)]
pub(super) struct PlannedModule {
    /// Path as seen by the processes.
    pub(super) path: String,
    pub(super) plan: SitePlan,
}

/// Identity of a file in the system: path, inode, device, size, time of its last change.
type Identity = (String, u64, u64, u64, i64, i64);

/// All mapped files.
#[derive(Debug)]
pub(super) struct PlannedModules {
    all: Vec<Rc<PlannedModule>>,
    by_identity: HashMap<Identity, Option<usize>>,
    /// Base names of files that are not recorded.
    excluded: BTreeSet<String>,
    cache: PlanCache,
    /// Time spent on plans.
    pub(super) planning: Duration,
}

impl PlannedModules {
    pub(super) fn new(excluded: BTreeSet<String>, cache: PlanCache) -> Self {
        Self { all: Vec::new(), by_identity: HashMap::new(), excluded, cache, planning: Duration::ZERO }
    }

    pub(super) fn get(&self, index: usize) -> &Rc<PlannedModule> {
        &self.all[index]
    }

    /// True if a function begins at an address of a file.
    pub(super) fn is_function(&self, (module, address): (usize, u64)) -> bool {
        self.all[module].plan.functions.binary_search(&address).is_ok()
    }

    pub(super) fn all(&self) -> &[Rc<PlannedModule>] {
        &self.all
    }

    /// Returns the file that a process has mapped; None if it cannot be read.
    pub(super) fn of(&mut self, process: Pid, mapping: &ProcessMapping) -> Option<usize> {
        let identity = identity(process, mapping);
        if let Some(known) = self.by_identity.get(&identity) {
            return *known;
        }
        let begun = Instant::now();
        let found = mappings::content(process, mapping).filter(|bytes| !bytes.is_empty()).map(|bytes| {
            let mut plan = SitePlan::of(&bytes, binary::build_id(&bytes), &self.cache);
            let name = base_name(&mapping.path);
            let is_excluded = self.excluded.contains(name)
                || plan.soname.as_ref().is_some_and(|soname| self.excluded.contains(soname));
            if is_excluded {
                plan.leave_alone("excluded");
            }
            self.all.push(Rc::new(PlannedModule { path: mapping.path.clone(), plan }));
            self.all.len() - 1
        });
        self.planning += begun.elapsed();
        self.by_identity.insert(identity, found);
        found
    }
}

fn identity(process: Pid, mapping: &ProcessMapping) -> Identity {
    let about = std::fs::metadata(format!("/proc/{process}/root{}", mapping.path)).ok();
    let about = about.filter(|about| about.ino() == mapping.inode);
    let (device, size, seconds, nanoseconds) =
        about.map_or((0, 0, 0, 0), |about| (about.dev(), about.size(), about.mtime(), about.mtime_nsec()));
    (mapping.path.clone(), mapping.inode, device, size, seconds, nanoseconds)
}

/// Name of a file without its folder, and without the kernel's suffix for a removed file.
pub(super) fn base_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}
