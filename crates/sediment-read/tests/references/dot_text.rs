// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes graphs by the grammar of DOT, in all its ways of saying the same.

use sediment_core::random::Generator;

struct DotGenerator {
    numbers: Generator,
    text: String,
    depth: usize,
    /// True for shares, as in version 1; otherwise counts.
    shares: bool,
}

/// Makes the graph with this number.
pub(crate) fn graph(number: u64) -> Vec<u8> {
    let mut numbers = Generator::stream(number, 11);
    let shares = numbers.below(4) == 0;
    let mut writer = DotGenerator { numbers, text: String::new(), depth: 0, shares };
    writer.graph();
    writer.text.into_bytes()
}

impl DotGenerator {
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.numbers.below(of.len())]
    }

    fn chance(&mut self, of: usize) -> bool {
        self.numbers.below(of) == 0
    }

    fn put(&mut self, text: &str) {
        self.text.push_str(text);
        let between =
            self.one(&["", " ", " ", "\n", "\t", "\r\n", " /* a -> b */ ", " // ; }\n", "\n# line\n"]);
        // Without a blank, the word would merge with the next.
        self.text.push_str(if between.is_empty() { " " } else { between });
    }

    fn graph(&mut self) {
        if self.chance(6) {
            self.put("strict");
        }
        let kind = if self.chance(40) { "graph" } else { self.one(&["digraph", "digraph", "DiGraph"]) };
        self.put(kind);
        if self.chance(2) {
            self.id();
        }
        self.put("{");
        if !self.shares {
            self.put("graph [sediment=2, total=100000, unit=calls]");
        }
        // An edge without a weight is an error, which should be rare.
        if !self.chance(8) {
            self.put("edge [");
            self.edge_attribute();
            self.put("];");
        }
        for _ in 0..2 + self.numbers.below(9) {
            self.statement();
        }
        if !self.chance(60) {
            self.put("}");
        }
        if self.chance(50) {
            let behind = self.one(&["digraph { }", "}", "a", ";"]);
            self.put(behind);
        }
    }

    fn statement(&mut self) {
        let kind = self.numbers.below(14);
        match kind {
            0..3 => self.nodes(),
            3..8 => self.edges(),
            8..10 => {
                self.subgraph();
                if self.chance(6) {
                    self.attributes(Self::node_attribute);
                }
            }
            10 => {
                let kind = self.numbers.below(3);
                self.put(["node", "edge", "Graph"][kind]);
                self.attributes([Self::node_attribute, Self::edge_attribute, Self::cluster_attribute][kind]);
            }
            11 | 12 => self.cluster_attribute(),
            _ => self.put("/* ; } */"),
        }
        // After nothing, a `;` is an empty statement, which DOT does not have.
        if kind < 13 && self.chance(2) || self.chance(60) {
            self.put(";");
        }
    }

    fn nodes(&mut self) {
        self.node();
        while self.chance(5) {
            self.put(",");
            self.node();
        }
        if !self.chance(3) {
            self.attributes(Self::node_attribute);
        }
    }

    fn edges(&mut self) {
        self.end();
        for _ in 0..1 + self.numbers.below(2) {
            self.put("->");
            self.end();
        }
        if !self.chance(3) {
            self.attributes(Self::edge_attribute);
        }
    }

    fn end(&mut self) {
        if self.depth < 4 && self.chance(6) {
            self.subgraph();
            return;
        }
        self.node();
        if self.chance(8) {
            self.put(",");
            self.node();
        }
    }

    fn node(&mut self) {
        self.id();
        if self.chance(10) {
            let port = self.one(&[":n", ":port", ":\"p q\":sw", ":a:c"]);
            self.put(port);
        }
    }

    fn id(&mut self) {
        let id = self.one(&[
            "a",
            "b",
            "c",
            "d",
            "a",
            "b",
            "\"a\"",
            "_x1",
            "é",
            "12",
            "-.5",
            "7.",
            "\"two words\"",
            "\"a\" + \"b\"",
            "\"e\\\"f\"",
            "\"cut \\\nhere\"",
            "\"back\\slash\"",
            "\"two\\\\\"",
            "<h<i>j>",
            "\"node\"",
            "a1b",
            "\"a@V1\"",
            "\"f@plt\"",
            "\"a;b->c\"",
            "\"/* no */\"",
            "3a",
            "\"\"",
        ]);
        self.put(id);
    }

    fn subgraph(&mut self) {
        if self.depth >= 4 {
            return self.node();
        }
        self.depth += 1;
        let head = self.one(&[
            "{",
            "subgraph {",
            "subgraph s {",
            "subgraph cluster0 {",
            "subgraph cluster1 {",
            "SubGraph \"cluster x\" {",
        ]);
        self.put(head);
        if head.contains("cluster") && !self.chance(5) {
            let label =
                self.one(&["label=l", "graph [label=\"lib.so\"]", "label=\"/usr/lib/m.so\"", "label=<h<i>>"]);
            self.put(label);
            self.put(";");
        }
        for _ in 0..self.numbers.below(4) {
            self.statement();
        }
        self.put("}");
        self.depth -= 1;
    }

    fn attributes(&mut self, attribute: fn(&mut Self)) {
        while {
            self.put("[");
            for _ in 0..self.numbers.below(3) {
                attribute(self);
                let between = self.one(&["", ",", ";"]);
                self.put(between);
            }
            self.put("]");
            self.chance(6)
        } {}
    }

    fn node_attribute(&mut self) {
        let attribute = self.one(&[
            "size=16",
            "size=\"32\"",
            "samples=3",
            "first=0",
            "static=0.25",
            "heat=hot",
            "alias=g",
            "taken=1",
            "entry=0",
            "color=red",
            "label=\"drawn\"",
            "name=\"other\"",
            "file=\"a.c\"",
            "dso=\"lib.so\"",
            "size=-1",
            "blocks=\"8f3a90c1:1=2 2=? 7=8; 1:1=1\"",
            "blocks=\"1f:3=18 3=2\"",
        ]);
        self.put(attribute);
    }

    fn edge_attribute(&mut self) {
        let shares =
            ["label=0.5", "label=\"0.25\"", "label=0.000000000000001", "label=.5", "weight=3", "key=k"];
        let counts = [
            "count=3",
            "count=\"7\"",
            "near=9",
            "static=0.5",
            "kind=direct",
            "label=0.25",
            "count = 4",
            "key=k",
            "key=\"l\"",
            "style=bold",
            "headport=n",
        ];
        let attribute = if self.shares { self.one(&shares) } else { self.one(&counts) };
        self.put(attribute);
    }

    fn cluster_attribute(&mut self) {
        let attribute = self.one(&[
            "label=k",
            "label=\"lib.so\"",
            "build_id=ab01",
            "package=\"p 1\"",
            "total=99",
            "source=\"perf, x\"",
            "rank=same",
            "inputs=2",
            "arch=\"x86_64\"",
        ]);
        self.put(attribute);
    }
}
