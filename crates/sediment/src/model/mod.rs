// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pure scores of an order.
