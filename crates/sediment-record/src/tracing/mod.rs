// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows processes with ptrace: the code that does not depend on what is recorded.
//!
//! - `system` starts programs, stops and resumes threads, and waits for them; `mappings` reads what they map; `groups` has the
//!   limits of memory, `filters` what filters of system calls allow; `machine` depends on the processor
//! - `apart` has the two processes of a recording, the front and the recorder, and `jobs` their job control at a
//!   terminal
//! - `starting` starts a program and waits for its end, `join` attaches to running processes; `rights` and `refusal`
//!   give the reasons if that is not allowed

pub mod apart;
pub(crate) mod filters;
pub(crate) mod groups;
mod jobs;
pub(crate) mod join;
pub(crate) mod machine;
pub(crate) mod mappings;
pub(crate) mod refusal;
pub(crate) mod rights;
pub(crate) mod starting;
pub(crate) mod system;
