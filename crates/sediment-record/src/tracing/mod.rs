// SPDX-License-Identifier: MIT OR Apache-2.0
//! Following processes by ptrace: what recorders that trace have in common, and no recorder alone.
//!
//! - `system` makes programs, stops and resumes threads, and waits for them; `mappings` and `memory` read and write what they have; `groups` has limits of it;
//!   `machine` knows the processor
//! - `apart` has the two processes of a recording, the front and the recorder, and `jobs` their place at a terminal
//! - `starting` begins and ends with a program, `join` takes on processes that run; `rights` and `refusal` say why that is not allowed

pub mod apart;
pub(crate) mod groups;
mod jobs;
pub(crate) mod join;
pub(crate) mod machine;
pub(crate) mod mappings;
pub(crate) mod memory;
pub(crate) mod refusal;
pub(crate) mod rights;
pub(crate) mod starting;
pub(crate) mod system;
