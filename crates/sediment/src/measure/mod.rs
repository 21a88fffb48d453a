// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`METERS`]: what a run of a program costs, on machines without hardware counters too. Starts processes, in a folder that
//! it is handed; knows nothing of layouts.
//!
//! To add a meter: one file here, one row in [`METERS`], a section of docs/measuring.md.
