// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of what reads recordings and resolves them, on goldens and generated inputs.

mod gcov;
mod instrumented;
mod lackey;
mod perf_data;
mod perf_text;
mod read_llvm;
mod read_otlp;
mod read_pprof;
mod readers;
mod recognise;
mod resolve;
mod static_graph;
mod trace;
