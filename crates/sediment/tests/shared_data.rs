// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases over real recordings that are not part of the project; ignored where `../shared/data` is absent.

mod support;

use libtest_mimic::Arguments;

fn main() {
    let cases = Vec::new();
    libtest_mimic::run(&Arguments::from_args(), cases).exit();
}
