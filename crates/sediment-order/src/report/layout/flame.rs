// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the calls of a profile as a flame graph that begins at the functions without callers.
//!
//! **Problem.** A profile has counts of calls between functions, and no stacks. **Model.** As in gprof (Graham,
//! Kessler, McKusick: gprof: a Call Graph Execution Profiler, 1982), the work of a function is divided among its
//! callers by their numbers of calls. **Steps.** A walk from the functions without callers, heaviest calls first,
//! removes calls that close a cycle. The width of a function is the number of calls to it plus its share of the calls
//! below it, computed from the bottom up. Then each bar is placed below its caller; the widest [`MOST`] are drawn.
//! **Ties** are by number. Inferno is not used: it draws stacks, which a profile does not have, and its licence
//! (CDDL-1.0) is not one of this project's.

use super::data::PageData;
use super::pages::{class, percent};
use sediment_core::escape;
use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
/// Height of a bar.
const ROW: f64 = 17.0;
/// Width of a character.
const LETTER: f64 = 6.2;
/// Largest number of drawn bars, and largest depth.
const MOST: usize = 200;
const DEEPEST: usize = 40;
/// Smallest width of a bar.
const LEAST: f64 = 0.8;

/// A function in the graph without cycles.
#[derive(Debug, Clone, Default)]
struct Vertex {
    callees: Vec<(u32, f64)>,
    /// Number of calls from other functions of the graph.
    calls: f64,
    /// These calls, plus its shares of the calls below.
    width: f64,
}

/// The functions without cycles, and the functions at which bars begin.
struct Tree {
    vertices: Vec<Vertex>,
    roots: Vec<u32>,
}

/// A bar.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bar {
    function: u32,
    depth: usize,
    x: f64,
    width: f64,
}

/// A function on the path of the walk, with the number of its visited callees.
type OnWay = (u32, usize);

impl Tree {
    /// Makes it from calls: caller, callee and count.
    fn of(functions: usize, edges: &[(u32, u32, u64)]) -> Self {
        let mut callees: Vec<Vec<(u32, u64)>> = vec![Vec::new(); functions];
        let mut is_called = vec![false; functions];
        for (from, to, count) in edges.iter().filter(|(from, to, _)| from != to) {
            callees[*from as usize].push((*to, *count));
            is_called[*to as usize] = true;
        }
        for calls in &mut callees {
            calls.sort_by_key(|(to, count)| (std::cmp::Reverse(*count), *to));
        }
        let made = |function: &u32| callees[*function as usize].iter().map(|(_, count)| *count).sum::<u64>();
        let mut begins: Vec<u32> =
            (0..functions as u32).filter(|at| !callees[*at as usize].is_empty()).collect();
        begins.sort_by_cached_key(|at| (is_called[*at as usize], std::cmp::Reverse(made(at)), *at));
        let mut tree = Self { vertices: vec![Vertex::default(); functions], roots: Vec::new() };
        let mut state = vec![WalkState::Unseen; functions];
        for begin in begins {
            if state[begin as usize] == WalkState::Unseen {
                tree.roots.push(begin);
                tree.walk(begin, &callees, &mut state);
            }
        }
        tree
    }

    /// Adds the functions reached from one; a width is known when the walk leaves its function.
    fn walk(&mut self, begin: u32, callees: &[Vec<(u32, u64)>], state: &mut [WalkState]) {
        let mut way: Vec<OnWay> = vec![(begin, 0)];
        state[begin as usize] = WalkState::OnWay;
        while let Some((function, seen)) = way.last_mut() {
            let function = *function;
            let Some((to, count)) = callees[function as usize].get(*seen).copied() else {
                state[function as usize] = WalkState::Done;
                way.pop();
                continue;
            };
            *seen += 1;
            if state[to as usize] == WalkState::OnWay {
                continue;
            }
            self.vertices[function as usize].callees.push((to, count as f64));
            self.vertices[to as usize].calls += count as f64;
            if state[to as usize] == WalkState::Unseen {
                state[to as usize] = WalkState::OnWay;
                way.push((to, 0));
            }
        }
    }

    /// Returns the functions, callees before callers.
    fn callees_first(&self) -> Vec<u32> {
        let mut left: Vec<usize> = self.vertices.iter().map(|vertex| vertex.callees.len()).collect();
        let mut callers: Vec<Vec<u32>> = vec![Vec::new(); self.vertices.len()];
        for (vertex, at) in self.vertices.iter().zip(0..) {
            vertex.callees.iter().for_each(|(to, _)| callers[*to as usize].push(at));
        }
        let mut order: Vec<u32> =
            (0..self.vertices.len() as u32).filter(|at| left[*at as usize] == 0).collect();
        let mut next = 0;
        while let Some(function) = order.get(next).copied() {
            next += 1;
            for caller in &callers[function as usize] {
                left[*caller as usize] -= 1;
                if left[*caller as usize] == 0 {
                    order.push(*caller);
                }
            }
        }
        order
    }

    /// Computes the widths.
    fn measure(&mut self) {
        for function in self.callees_first() {
            let vertex = &self.vertices[function as usize];
            let below: f64 = vertex.callees.iter().map(|(to, count)| self.part(*to, *count)).sum();
            self.vertices[function as usize].width = vertex.calls + below;
        }
    }

    /// Width of this number of calls to a function.
    fn part(&self, to: u32, count: f64) -> f64 {
        let to = &self.vertices[to as usize];
        if to.calls > 0.0 { to.width * count / to.calls } else { 0.0 }
    }

    /// Returns the bars, callers before callees.
    fn bars(&self) -> Vec<Bar> {
        let all: f64 = self.roots.iter().map(|root| self.vertices[*root as usize].width).sum();
        if all <= 0.0 {
            return Vec::new();
        }
        let scale = WIDTH / all;
        let mut roots = self.roots.clone();
        roots.sort_by(|a, b| {
            let width = |at: &u32| self.vertices[*at as usize].width;
            width(b).total_cmp(&width(a)).then(a.cmp(b))
        });
        let (mut bars, mut x) = (Vec::new(), 0.0);
        for function in roots {
            let width = self.vertices[function as usize].width * scale;
            bars.push(Bar { function, depth: 0, x, width });
            x += width;
        }
        bars.retain(|bar| bar.width >= LEAST);
        let mut next = 0;
        // In wide trees, a walk by levels finds the widest bars first.
        while let Some(bar) = bars.get(next).copied().filter(|_| bars.len() < 40 * MOST) {
            next += 1;
            let vertex = &self.vertices[bar.function as usize];
            if bar.depth + 1 == DEEPEST || vertex.width <= 0.0 {
                continue;
            }
            let mut x = bar.x;
            let mut below: Vec<(u32, f64)> = vertex
                .callees
                .iter()
                .map(|(to, count)| (*to, bar.width * self.part(*to, *count) / vertex.width))
                .collect();
            below.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            for (function, width) in below.into_iter().take_while(|(_, width)| *width >= LEAST) {
                bars.push(Bar { function, depth: bar.depth + 1, x, width });
                x += width;
            }
        }
        bars
    }
}

/// State of a function during the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WalkState {
    Unseen,
    OnWay,
    Done,
}

/// Returns the widest bars; the caller of each is wider, and is among them.
fn widest(mut bars: Vec<Bar>) -> Vec<Bar> {
    bars.sort_by(|a, b| b.width.total_cmp(&a.width).then(a.depth.cmp(&b.depth)).then(a.x.total_cmp(&b.x)));
    bars.truncate(MOST);
    bars
}

/// Draws the graph; `None` without calls.
pub(super) fn flame(data: &PageData) -> Option<String> {
    let mut tree = Tree::of(data.names.len(), &data.edges);
    tree.measure();
    let bars = widest(tree.bars());
    let deepest = bars.iter().map(|bar| bar.depth).max()?;
    let mut svg = String::new();
    for bar in &bars {
        let name = &data.names[bar.function as usize];
        let share = bar.width / WIDTH;
        let (class, y) = (class(share), ROW * bar.depth as f64);
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" data-f=\"{}\" x=\"{:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\"><title>{}: {} of all calls</title></rect>",
            bar.function,
            bar.x,
            (bar.width - 0.6).max(0.4),
            ROW - 1.0,
            escape::svg(&super::map::tail(name, 60)),
            percent(share)
        );
        let fits = ((bar.width - 6.0) / LETTER) as usize;
        if fits >= 4 {
            let label = super::map::tail(name, fits - 1);
            let _ = writeln!(
                svg,
                "<text class=\"on-{class}\" x=\"{:.1}\" y=\"{}\">{}</text>",
                bar.x + 3.0,
                y + 12.5,
                escape::svg(&label)
            );
        }
    }
    let height = ROW * (deepest + 1) as f64;
    Some(format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Calls from above, by their share of all calls\">\n{svg}</svg>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(functions: usize, edges: &[(u32, u32, u64)]) -> Vec<(u32, usize, f64)> {
        let mut tree = Tree::of(functions, edges);
        tree.measure();
        widest(tree.bars()).into_iter().map(|bar| (bar.function, bar.depth, bar.width / WIDTH)).collect()
    }

    /// Main calls two functions, which both call a third one.
    #[test]
    fn shared_callees_are_parted_by_calls() {
        let bars = bars(4, &[(0, 1, 10), (0, 2, 10), (1, 3, 60), (2, 3, 20)]);
        assert_eq!(bars, [(0, 0, 1.0), (1, 1, 0.7), (3, 2, 0.6), (2, 1, 0.3), (3, 2, 0.2)]);
    }

    /// A cycle is cut at the call that closes it, and functions in cycles without other callers begin bars of their
    /// own.
    #[test]
    fn circles_end() {
        let cut = bars(3, &[(0, 1, 5), (1, 1, 900), (1, 2, 5), (2, 1, 700)]);
        assert_eq!(cut, [(0, 0, 1.0), (1, 1, 1.0), (2, 2, 0.5)]);
        assert_eq!(bars(2, &[(0, 1, 3), (1, 0, 2)]), [(0, 0, 1.0), (1, 1, 1.0)]);
        assert_eq!(bars(2, &[]), []);
    }
}
