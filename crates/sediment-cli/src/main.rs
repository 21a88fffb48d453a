// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sediment program.
fn main() {}
