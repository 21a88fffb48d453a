// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions for the ids of a [`CallGraph`](crate::callgraph::CallGraph).

use crate::callgraph::FunctionId;
use crate::profile::FunctionKey;
use std::collections::HashSet;

/// Table with the identity of each id of a [`CallGraph`](crate::callgraph::CallGraph).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionTable {
    /// Identity of each function, by id.
    pub keys: Vec<FunctionKey>,
    /// Further names of functions, from the profile.
    pub aliases: Vec<(FunctionKey, FunctionId)>,
    /// Functions with block counts: these counts decide their cold parts.
    pub counted: HashSet<FunctionId>,
    /// Address of each function in the binary, by id; empty without a binary.
    pub addresses: Vec<u64>,
}

impl FunctionTable {
    /// All names with their functions.
    pub fn names(&self) -> impl Iterator<Item = (&FunctionKey, FunctionId)> {
        let own = (0..).map(FunctionId).zip(&self.keys).map(|(id, key)| (key, id));
        own.chain(self.aliases.iter().map(|(key, id)| (key, *id)))
    }
}
