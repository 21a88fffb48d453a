// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorded starts that are made up from a seed, and as LLVM's indexed profile of temporal traces.

#![allow(clippy::unwrap_used)] // tests may fail loudly
#![allow(dead_code, unreachable_pub)] // each program that includes it uses its part

use sediment_core::callgraph::FunctionId;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// So many starts of a program of so many functions. The functions belong to features of forty; each start uses some of the features,
/// in an order that they mostly share, and of each most functions, mostly in the same order.
pub fn starts(functions: u32, count: usize, seed: u64) -> Vec<Vec<FunctionId>> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = move |bound: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (((state >> 32) * u64::from(bound)) >> 32) as u32
    };
    // Functions are strewn over the file.
    let mut strewn: Vec<u32> = (0..functions).collect();
    for at in (1..strewn.len()).rev() {
        strewn.swap(at, below(at as u32 + 1) as usize);
    }
    let features: Vec<&[u32]> = strewn.chunks(40).collect();
    (0..count)
        .map(|_| {
            let mut used: Vec<(u32, usize)> = (0..features.len())
                .filter_map(
                    |feature| if below(3) == 0 { Some((feature as u32 + below(6), feature)) } else { None },
                )
                .collect();
            used.sort_unstable();
            let mut start = Vec::new();
            for (_, feature) in used {
                let mut ran: Vec<(u32, u32)> = (0u32..)
                    .zip(features[feature])
                    .filter_map(
                        |(place, function)| {
                            if below(5) > 0 { Some((place + below(4), *function)) } else { None }
                        },
                    )
                    .collect();
                ran.sort_unstable();
                start.extend(ran.into_iter().map(|(_, function)| FunctionId(function)));
            }
            start
        })
        .collect()
}

/// Writes them as a profile that `llvm-profdata order` and lld read; functions are called n0, n1 and so on.
pub fn write_profile(functions: u32, starts: &[Vec<FunctionId>], folder: &Path) -> PathBuf {
    let count = starts.len();
    let mut text = format!(":ir\n:temporal_prof_traces\n{count}\n{count}\n");
    for start in starts {
        let names: Vec<String> = start.iter().map(|function| format!("n{}", function.0)).collect();
        writeln!(text, "1\n{}", names.join(",")).unwrap();
    }
    for function in 0..functions {
        write!(text, "n{function}\n{}\n1\n1\n\n", function + 1).unwrap();
    }
    let (source, profile) = (folder.join("starts.proftext"), folder.join("starts.profdata"));
    std::fs::write(&source, text).unwrap();
    let made = Command::new("llvm-profdata-19").arg("merge").arg(&source).arg("-o").arg(&profile).status();
    assert!(made.unwrap().success());
    profile
}
