// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorders: each starts a program and leaves a recording, in a folder that it is handed.
