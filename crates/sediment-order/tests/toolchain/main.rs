// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases that run real compilers, linkers and profilers.

mod advise;
mod align;
mod bolt;
mod example;
mod hostile_link;
mod instrumented;
mod lackey;
mod layout;
mod link;
mod llvm;
mod perf_data;
mod perf_text;
mod profile;
mod readers;
mod resolve;
mod section_names;
mod starts;
mod static_graph;
mod symbols;

use libtest_mimic::Arguments;

fn main() {
    let mut cases = Vec::new();
    cases.extend(advise::cases());
    cases.extend(bolt::cases());
    cases.extend(example::cases());
    cases.extend(align::cases());
    cases.extend(lackey::cases());
    cases.extend(instrumented::cases());
    cases.extend(layout::cases());
    cases.extend(link::cases());
    cases.extend(llvm::cases());
    cases.extend(perf_data::cases());
    cases.extend(readers::cases());
    cases.extend(perf_text::cases());
    cases.extend(profile::cases());
    cases.extend(resolve::cases());
    cases.extend(section_names::cases());
    cases.extend(starts::cases());
    cases.extend(static_graph::cases());
    cases.extend(symbols::cases());
    libtest_mimic::run(&Arguments::from_args(), cases).exit();
}
