// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases that run real compilers, linkers and profilers.

#[path = "toolchain/advise.rs"]
mod advise;
#[path = "toolchain/align.rs"]
mod align;
#[path = "toolchain/bolt.rs"]
mod bolt;
#[path = "support/graphs.rs"]
mod graphs;
#[path = "toolchain/hostile_link.rs"]
mod hostile_link;
#[path = "toolchain/instrumented.rs"]
mod instrumented;
#[path = "support/json.rs"]
mod json;
#[path = "toolchain/lackey.rs"]
mod lackey;
#[path = "toolchain/layout.rs"]
mod layout;
#[path = "toolchain/link.rs"]
mod link;
#[path = "support/lld.rs"]
mod lld;
#[path = "toolchain/llvm.rs"]
mod llvm;
#[path = "toolchain/perf_data.rs"]
mod perf_data;
#[path = "support/perf_data_writer.rs"]
mod perf_data_writer;
#[path = "toolchain/perf_text.rs"]
mod perf_text;
#[path = "toolchain/profile.rs"]
mod profile;
#[path = "toolchain/readers.rs"]
mod readers;
#[path = "toolchain/resolve.rs"]
mod resolve;
#[path = "support/said.rs"]
mod said;
#[path = "support/sample_profile_text.rs"]
mod sample_profile_text;
#[path = "toolchain/section_names.rs"]
mod section_names;
#[path = "toolchain/starts.rs"]
mod starts;
#[path = "toolchain/static_graph.rs"]
mod static_graph;
mod support;
#[path = "toolchain/symbols.rs"]
mod symbols;
#[path = "support/temporal_traces.rs"]
mod temporal_traces;

use libtest_mimic::Arguments;

fn main() {
    let mut cases = Vec::new();
    cases.extend(advise::cases());
    cases.extend(bolt::cases());
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
