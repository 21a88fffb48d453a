// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views of finished values for people and programs: text in, text out, every name through [`sediment_core::escape`].

pub mod call_graph;
pub mod layout;
