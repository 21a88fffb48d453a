// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions behind the ids of a [`CallGraph`](crate::callgraph::CallGraph).

use crate::callgraph::FunctionId;
use crate::profile::FunctionKey;
use std::collections::HashSet;

/// Identity of each id of a [`CallGraph`](crate::callgraph::CallGraph).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionTable {
    /// Identity of each function, by id.
    pub keys: Vec<FunctionKey>,
    /// Further names of functions, as the profile has them too.
    pub aliases: Vec<(FunctionKey, FunctionId)>,
    /// Functions whose blocks were counted: their cold parts are made by these counts.
    pub counted: HashSet<FunctionId>,
    /// Address of each function in the binary, by id; empty where no binary was given.
    pub addresses: Vec<u64>,
}

impl FunctionTable {
    /// All names, with what they are of.
    pub fn names(&self) -> impl Iterator<Item = (&FunctionKey, FunctionId)> {
        let own = (0..).map(FunctionId).zip(&self.keys).map(|(id, key)| (key, id));
        own.chain(self.aliases.iter().map(|(key, id)| (key, *id)))
    }
}
