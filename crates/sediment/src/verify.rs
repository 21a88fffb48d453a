// SPDX-License-Identifier: MIT OR Apache-2.0
//! The linked ELF against the order.
