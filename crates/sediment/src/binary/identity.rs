// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which cluster of a profile belongs to a binary.
