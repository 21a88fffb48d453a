// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of orders from a profile to the check of a linked file, on goldens and generated inputs.

mod arrange;
mod bad_input;
mod block_counts;
mod cut;
mod engine;
mod error_codes;
mod forecast;
mod layout;
mod link;
mod model;
mod report_layout;
mod resident;
mod settings;
mod unprofiled;
mod verify;
mod wrapper;
