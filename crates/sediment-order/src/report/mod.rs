// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views of results for people and programs. They return text, in which every name is escaped by
//! [`sediment_core::escape`].

pub mod call_graph;
pub mod layout;
