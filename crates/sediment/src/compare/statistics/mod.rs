// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pure statistics, one method a file, each checked against recorded results of scipy.
