// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sample profiles of LLVM, printed from a known tree of bodies.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A body: what was called in it, and what was inlined into it.
#[derive(Debug, Clone, Default)]
pub struct Body {
    pub name: String,
    pub calls: Vec<(String, u64)>,
    pub inlined: Vec<Body>,
}

impl Body {
    /// A function of this number among so many, with up to `depth` bodies within each other.
    pub fn generate(number: u64, among: u64, depth: u32, next: &mut dyn FnMut(u64) -> u64) -> Self {
        let name = |number: u64| match number % 3 {
            0 => format!("f{number}"),
            1 => format!("_ZN3abc{number}fEv.llvm.{}", 1000 + number),
            _ => format!("g_h{number}.__uniq.77"),
        };
        let calls = (0..next(4)).map(|_| (name(next(among)), 1 + next(500))).collect();
        let bodies = if depth == 0 { 0 } else { next(3) };
        let inlined = (0..bodies).map(|_| Self::generate(next(among), among, depth - 1, next)).collect();
        Self { name: name(number), calls, inlined }
    }

    /// Its cost, with all that was inlined.
    pub fn total(&self) -> u64 {
        let own: u64 = self.calls.iter().map(|(_, count)| count).sum::<u64>() + 7;
        own + self.inlined.iter().map(Self::total).sum::<u64>()
    }

    fn lines(&self, depth: usize, text: &mut String) {
        let indent = " ".repeat(depth);
        writeln!(text, "{indent}1.3: 7").unwrap();
        for (line, (callee, count)) in (2..).zip(&self.calls) {
            writeln!(text, "{indent}{line}: {count} {callee}:{count}").unwrap();
        }
        for (line, body) in (20..).zip(&self.inlined) {
            writeln!(text, "{indent}{line}: {}:{}", body.name, body.total()).unwrap();
            body.lines(depth + 1, text);
        }
    }

    /// As a body with others in it.
    pub fn nested(&self) -> String {
        let mut text = format!("{}:{}:5\n", self.name, self.total());
        self.lines(1, &mut text);
        text + " !CFGChecksum: 281479271677951\n"
    }

    /// As one function for each context.
    pub fn by_context(&self) -> String {
        let mut text = String::new();
        self.contexts("", false, &mut text);
        text
    }

    fn contexts(&self, before: &str, inlined: bool, text: &mut String) {
        let context = format!("{before}{}", self.name);
        let own: u64 = self.calls.iter().map(|(_, count)| count).sum::<u64>() + 7;
        let alone = Self { inlined: Vec::new(), ..self.clone() };
        writeln!(text, "[{context}]:{own}:5").unwrap();
        alone.lines(1, text);
        if inlined {
            writeln!(text, " !Attributes: 1").unwrap();
        }
        for (line, body) in (20..).zip(&self.inlined) {
            body.contexts(&format!("{context}:{line} @ "), true, text);
        }
    }

    /// All that was called in it and in what was inlined, by name.
    pub fn add_calls(&self, caller: &str, calls: &mut BTreeMap<(String, String), u128>) {
        for (callee, count) in &self.calls {
            *calls.entry((format!("-:{caller}"), format!("-:{callee}"))).or_default() += u128::from(*count);
        }
        self.inlined.iter().for_each(|body| body.add_calls(caller, calls));
    }
}
