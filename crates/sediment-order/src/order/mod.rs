// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes from a profile the order in which a linker places its functions: [`compute`].
//!
//! **Steps.** [`build()`] the call graph of the selected functions; one sequence of them by an [`algorithms`] entry, or
//! by the default of a release ([`versions`]), which keeps the input order of a program that fits the caches
//! ([`resident`]); unprofiled functions after the profiled ones, by a compiler's graph ([`place_unprofiled`]); groups
//! for start-up and steady state ([`arrange`]); an older order, changed only where this pays ([`keep`](mod@keep)).

pub mod algorithms;
mod build;
pub mod cut;
pub mod forecast;
mod groups;
pub mod keep;
pub mod left_out;
pub mod resident;
mod score;
mod unprofiled;
pub mod versions;

pub(crate) use build::held;
pub use build::{
    BuiltGraph, PlacedShare, Selection, build, code_shingles, first_uses, is_estimated, placed_share,
};
pub use groups::{AIMS, Aim, GroupingInput, HOT_SHARE, arrange};
pub use score::{FaultCurve, fault_curve, predicted_misses};
pub use unprofiled::{Standing, Unprofiled, place_unprofiled, unprofiled};

use crate::model::AssumedLayout;
use algorithms::affinity::{ExpectedOrder, WeightedTrace};
use algorithms::{Algorithm, AlgorithmOptions, INPUT};
use forecast::ForecastProgram;
use keep::KeptOrder;
use sediment_core::binary::names;
use sediment_core::callgraph::{FunctionId, GroupKind, Order, OrderGroup};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::functions::FunctionTable;
use sediment_core::profile::Profile;
use sediment_core::profile::source::ProfileSource;
use std::collections::{HashMap, HashSet};
use versions::{Engine, LATEST};

/// Parameters of [`compute`]. The default gives the default order of this release.
#[derive(Debug, Clone, Copy)]
pub struct OrderRequest<'a> {
    /// Method that puts the functions into one sequence.
    pub method: OrderMethod<'a>,
    /// Goal of the order; None: the method's default.
    pub aim: Option<Aim>,
    /// Recorded runs, by the ids of the graph, for engines that use runs.
    pub workloads: &'a [WeightedTrace<'a>],
    /// An older order, which is changed only where this pays.
    pub older: Option<&'a Older>,
}

impl Default for OrderRequest<'_> {
    fn default() -> Self {
        Self { method: OrderMethod::Engine(LATEST), aim: None, workloads: &[], older: None }
    }
}

impl OrderRequest<'_> {
    /// Returns the effective goal. None for a classic algorithm and for an engine without goals, whose orders stay as
    /// they are.
    fn served(&self, profile: &Profile) -> Option<Aim> {
        let knows_aims = matches!(self.method, OrderMethod::Engine(engine) if engine.knows_runs);
        self.aim.or_else(|| knows_aims.then(|| default_aim(profile)))
    }

    /// True if [`compute`] compares goals with the program as it is linked, if the selection is a binary: starts were
    /// recorded, and no goal is given.
    #[must_use]
    pub fn compares_with_linked(&self, profile: &Profile) -> bool {
        self.aim.is_none() && self.served(profile).is_some_and(|aim| aim != Aim::Steady)
    }
}

/// Returns the goal of a profile's order: the start if all recordings are from `record --startup`, both if some of them
/// are.
fn default_aim(profile: &Profile) -> Aim {
    let of_starts =
        |source: &&String| ProfileSource::from(source.as_str()).event == ProfileSource::FIRST_USES;
    match profile.source.iter().filter(of_starts).count() {
        0 => AIMS[0].0,
        count if count == profile.source.len() => Aim::Startup,
        _ => Aim::Both,
    }
}

/// Chooses the first goal, beginning with the profile's own, with an order that is not worse than the linker's layout:
/// the start touches no more pages, and there are no more misses. `None` if every order is worse; the profile's own
/// goal if the linker's layout is unknown.
fn no_worse_than_linked(
    profile: &Profile,
    input: &GroupingInput<'_>,
    built: &BuiltGraph,
    sequence: &[FunctionId],
) -> Result<Option<Aim>> {
    let program = ForecastProgram::new(profile, built, &[])?;
    let own = default_aim(profile);
    let Some(linked) = program.linked() else { return Ok(Some(own)) };
    let pages = |layout: AssumedLayout<'_>| fault_curve(input, layout).all;
    let outlook = program.outlook(linked);
    let is_no_worse = |aim: &Aim| {
        let order: Vec<FunctionId> = arrange(input, sequence, *aim).functions().collect();
        let layout = AssumedLayout::Packed(&order);
        pages(layout) <= pages(linked) && program.outlook(layout).no_worse_than(&outlook)
    };
    let goals = [Aim::Startup, Aim::Both, Aim::Steady].into_iter();
    Ok(goals.skip_while(|aim| *aim != own).find(is_no_worse))
}

/// Method that puts all functions into one sequence.
#[derive(Debug, Clone, Copy)]
pub enum OrderMethod<'a> {
    /// The default of some release.
    Engine(&'static Engine),
    /// An algorithm of the user's choice.
    Algorithm(&'static Algorithm, AlgorithmOptions<'a>),
}

/// An older order.
#[derive(Debug, Clone)]
pub struct Older {
    /// The name of its file, for messages.
    pub file: String,
    /// Linkage names, in their order.
    pub names: Vec<String>,
    /// If moving a function gains less than this, it stays where it is; a share of the older order's cost, from 0 to 1.
    pub threshold: f64,
}

/// An order, and the data that it was computed from.
#[derive(Debug, Clone)]
pub struct Ordering {
    /// The order.
    pub order: Order,
    /// The ordered functions, and the meaning of their ids.
    pub built: BuiltGraph,
    /// Rank of first use by id; `None` if it is not known.
    pub first: Vec<Option<u64>>,
    /// The sequence before it was arranged in groups, and its forecast.
    pub outcome: ExpectedOrder,
    /// Unprofiled functions, ranked by a compiler's graph; None if the method or the profile has none.
    pub unprofiled: Option<Unprofiled>,
    /// True if the order is based on a compiler's estimates only.
    pub is_estimated: bool,
    /// Goal of the order; None if it stays as a classic algorithm made it, or lists nothing.
    pub served: Option<Aim>,
    /// True if every order is worse for the recorded starts than the linker's layout, so this one lists nothing.
    pub is_best_as_linked: bool,
    /// True if the hot functions keep their input order, because the program fits the caches ([`resident`]).
    pub keeps_input_order: bool,
    /// Result of keeping an older order.
    pub kept: Option<KeptOlder>,
}

/// Result of keeping an older order.
#[derive(Debug, Clone)]
pub struct KeptOlder {
    /// The order between the two, and what moved.
    pub kept: KeptOrder,
    /// The functions of the older order that are still there, each name once.
    pub known: Vec<FunctionId>,
    /// Number of names in the older order that the graph lacks.
    pub gone: usize,
}

impl Ordering {
    /// Returns the graph and the first uses, as input of [`arrange`] and the scores.
    #[must_use]
    pub fn input(&self) -> GroupingInput<'_> {
        GroupingInput { graph: &self.built.graph, first: &self.first }
    }
}

/// Orders the selected functions of a profile.
///
/// # Errors
/// The errors of [`build()`] and [`compute_built`].
pub fn compute(profile: &Profile, selection: &Selection<'_>, request: &OrderRequest<'_>) -> Result<Ordering> {
    compute_built(profile, build(profile, selection)?, request)
}

/// Computes an order like [`compute`], for a graph that was already built from this profile: requests that refer to
/// functions by ids need one.
///
/// # Errors
/// If no function of the older order is in the graph, or a sum of weights exceeds the limit of a graph.
pub fn compute_built(profile: &Profile, built: BuiltGraph, request: &OrderRequest<'_>) -> Result<Ordering> {
    let first = first_uses(profile, &built.table);
    let is_estimated = is_estimated(profile);
    let knows_input_order = built.is_in_input_order && !is_estimated;
    let resident = match request.method {
        OrderMethod::Engine(engine) if engine.keeps_resident && knows_input_order => {
            resident::order(&built.graph)
        }
        _ => None,
    };
    let keeps_input_order = resident.is_some();
    let mut outcome = match request.method {
        OrderMethod::Engine(engine) => match resident {
            Some(order) => ExpectedOrder { order, start: INPUT, cost: 1.0 },
            None => engine.sequence(&built.graph, request.workloads),
        },
        OrderMethod::Algorithm(algorithm, options) => {
            ExpectedOrder { order: (algorithm.run)(&built.graph, &options), start: algorithm, cost: 1.0 }
        }
    };
    let aim = request.served(profile);
    let unprofiled = match aim {
        Some(_) => unprofiled(profile, &built.graph, &built.table)?,
        None => None,
    };
    if let Some(unprofiled) = &unprofiled {
        outcome.order = place_unprofiled(&outcome.order, unprofiled);
    }
    let input = GroupingInput { graph: &built.graph, first: &first };
    let chosen = if request.compares_with_linked(profile) {
        let chosen = no_worse_than_linked(profile, &input, &built, &outcome.order)?;
        // A user of an older order has chosen an order already, so the changes to it are compared only with it.
        chosen.or(request.older.map(|_| Aim::Steady))
    } else {
        aim
    };
    let is_best_as_linked = aim.is_some() && chosen.is_none();
    let order = match chosen {
        Some(aim) => arrange(&input, &outcome.order, aim),
        None if is_best_as_linked => Order { groups: Vec::new() },
        None => algorithms::grouped(&built.graph, outcome.order.clone()),
    };
    let mut ordering = Ordering {
        order,
        built,
        first,
        outcome,
        unprofiled,
        is_estimated,
        served: chosen,
        is_best_as_linked,
        // In an order by first use, no function keeps its place.
        keeps_input_order: keeps_input_order && matches!(chosen, Some(Aim::Steady | Aim::Both)),
        kept: None,
    };
    if let Some(older) = request.older {
        let kept = keep_older(&ordering, older, request.workloads)?;
        ordering.order = in_runs(&ordering, &kept.kept.order);
        ordering.kept = Some(kept);
    }
    Ok(ordering)
}

/// Computes the order between an older one and the new one.
fn keep_older(ordering: &Ordering, older: &Older, workloads: &[WeightedTrace<'_>]) -> Result<KeptOlder> {
    let graph = &ordering.built.graph;
    let (known, gone) =
        functions_of(ordering, &older.names).map_err(|error| error.with_input(older.file.clone()))?;
    let new: Vec<FunctionId> = ordering.order.functions().collect();
    let traces: Vec<_> = workloads.iter().map(|workload| workload.trace).collect();
    let cost = |order: &[FunctionId]| predicted_misses(graph, &traces, order);
    let kept = keep::keep(graph, &known, &new, older.threshold, &cost);
    Ok(KeptOlder { kept, known, gone })
}

/// Returns the functions of a table that an ordering file lists, each at its first position in the file: by name, and
/// by object file if the file gives one. Names that the table lacks are skipped.
pub fn functions_named<'a>(
    table: &FunctionTable,
    listed: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> Vec<FunctionId> {
    let mut by_name: HashMap<&str, Vec<(Option<&str>, FunctionId)>> = HashMap::new();
    for (key, id) in table.names() {
        by_name.entry(key.name.as_str()).or_default().push((key.file.as_deref(), id));
    }
    let mut placed = HashSet::new();
    let mut functions = Vec::new();
    for (name, object) in listed {
        let all = by_name.get(name).map_or(&[][..], Vec::as_slice);
        let is_of = |source: Option<&str>| object.is_some_and(|object| names::compiled_to(source, object));
        let of_file: Vec<_> = all.iter().copied().filter(|(source, _)| is_of(*source)).collect();
        let meant = if of_file.is_empty() { all } else { of_file.as_slice() };
        functions.extend(meant.iter().map(|(_, id)| *id).filter(|id| placed.insert(*id)));
    }
    functions
}

/// Returns the functions of these names, and the number of names that the graph lacks. A cold part does not count as
/// missing, because it is placed with its function.
fn functions_of(ordering: &Ordering, names: &[String]) -> Result<(Vec<FunctionId>, usize)> {
    // Functions of the same name are placed together, at the position of the heaviest one.
    let mut by_name: HashMap<&str, FunctionId> = HashMap::new();
    let weights = ordering.built.graph.weights();
    for id in ordering.order.functions() {
        let name = ordering.built.table.keys[id.index()].name.as_str();
        let heaviest = by_name.entry(name).or_insert(id);
        if weights[id.index()] > weights[heaviest.index()] {
            *heaviest = id;
        }
    }
    let known: Vec<FunctionId> =
        names.iter().filter_map(|name| by_name.get(name.as_str())).copied().collect();
    if known.is_empty() {
        return Err(Error::new(ErrorCode::NotInProfile, "no function of this order is in the profile")
            .with_hint("was the order computed for another program?"));
    }
    let parts: HashSet<String> = names.iter().map(|name| names::cold_part(name)).collect();
    let is_gone = |name: &&String| !by_name.contains_key(name.as_str()) && !parts.contains(*name);
    Ok((known, names.iter().filter(is_gone).count()))
}

/// Splits the functions into runs of the same groups, because an older order has no groups.
fn in_runs(ordering: &Ordering, functions: &[FunctionId]) -> Order {
    let mut kinds = vec![GroupKind::Unprofiled; ordering.built.graph.len()];
    for group in &ordering.order.groups {
        for function in &group.functions {
            kinds[function.index()] = group.kind;
        }
    }
    let runs = functions.chunk_by(|a, b| kinds[a.index()] == kinds[b.index()]);
    let group = |run: &[FunctionId]| OrderGroup { kind: kinds[run[0].index()], functions: run.to_vec() };
    Order { groups: runs.map(group).collect() }
}
