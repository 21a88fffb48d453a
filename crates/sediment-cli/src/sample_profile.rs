// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sample profiles of compilers: executions by source line.

use clap::ValueEnum;
use sediment_core::skipped::Skipped;
use sediment_read::counters::line_profile::{Family, Lines, gcc, llvm};

/// Format of a sample profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SampleFormat {
    /// Sample profile for clang (-fprofile-sample-use=FILE) and rustc
    LlvmSample,
    /// Sample profile for GCC 12 to 15 (-fauto-profile=FILE)
    #[value(name = "gcc-sample-2")]
    GccSample2,
    /// The same for GCC 16
    #[value(name = "gcc-sample-3")]
    GccSample3,
}

impl SampleFormat {
    /// Compilers whose discriminators it has.
    pub(crate) fn family(self) -> Family {
        match self {
            Self::LlvmSample => Family::Llvm,
            Self::GccSample2 | Self::GccSample3 => Family::Gcc,
        }
    }

    /// File name where nobody gives one. GCC itself looks for `fbdata.afdo`.
    pub(crate) fn usual_name(self) -> &'static str {
        match self {
            Self::LlvmSample => "sediment.prof",
            Self::GccSample2 | Self::GccSample3 => "fbdata.afdo",
        }
    }

    /// The content of a file.
    pub(crate) fn bytes(self, lines: &Lines) -> (Vec<u8>, Skipped) {
        match self {
            Self::GccSample2 => gcc::auto_profile(lines, gcc::Version::Two),
            Self::GccSample3 => gcc::auto_profile(lines, gcc::Version::Three),
            Self::LlvmSample => {
                let (text, skipped) = llvm::sample_profile(lines);
                (text.into_bytes(), skipped)
            }
        }
    }
}
