// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics that follow from others of the same run: per unit of work, and ratios such as instructions per cycle.
