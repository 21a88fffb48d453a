// SPDX-License-Identifier: MIT OR Apache-2.0
#![no_main]

sediment_fuzz::target!();
