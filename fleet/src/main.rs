// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `sediment-fleet`.

/// Programs that parse with many threads are faster with it, and it returns freed memory to the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    sediment_fleet::main()
}
