// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attributes of profiles: of nodes, edges, the graph and its clusters.

/// Makes an enum with a slot for each attribute of one kind of object: the discriminant is the slot.
macro_rules! attributes {
    ($(#[$doc:meta])* $name:ident, $count:literal: $($variant:ident = $spelling:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(in crate::profile) enum $name { $($variant),+ }

        impl $name {
            pub(in crate::profile) const COUNT: usize = $count;
            const ALL: [(&'static str, Self); $count] = [$(($spelling, Self::$variant)),+];

            /// Returns the slot of the attribute with this name.
            pub(in crate::profile) fn place(name: &[u8]) -> Option<usize> {
                $(
                    if name == $spelling.as_bytes() {
                        return Some(Self::$variant as usize);
                    }
                )+
                None
            }

            /// Returns the attribute's name.
            pub(in crate::profile) fn spelling(place: usize) -> &'static str {
                Self::ALL[place].0
            }
        }
    };
}

attributes! {
    /// Of a function. Its `label` is only drawn.
    Nodes, 14:
    Label = "label", Name = "name", Dso = "dso", File = "file", Size = "size", Samples = "samples", First = "first",
    Static = "static", Heat = "heat", Alias = "alias", Taken = "taken", Entry = "entry", Blocks = "blocks",
    Counters = "counters",
}

attributes! {
    /// Of an edge.
    Edges, 5:
    Label = "label", Count = "count", Near = "near", Static = "static", Kind = "kind",
}

attributes! {
    /// Of the graph and of clusters: the first four are a cluster's, the others the graph's.
    Graphs, 15:
    Label = "label", BuildId = "build_id", Package = "package", Unresolved = "unresolved",
    Sediment = "sediment", Source = "source", Unit = "unit", Total = "total", Arch = "arch", Inputs = "inputs",
    BlocksUnit = "blocks_unit", BlocksTotal = "blocks_total", CountersTotal = "counters_total",
    Covered = "covered", Uncertain = "uncertain",
}

impl Graphs {
    /// Number of attributes of clusters, which subgraphs inherit.
    pub(in crate::profile) const OF_CLUSTERS: usize = 4;
}
