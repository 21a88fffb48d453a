// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the picture of a layout: what it shows, with names of any kind, and how large it is.

use sediment_core::binary::{Binary, BinaryFunction};
use sediment_core::callgraph::GroupKind;
use sediment_core::profile::{FunctionKey, Profile};
use sediment_order::report::layout::{
    self, Layout, LayoutReport, MeasuredMisses, ProfileByName, ProfileCalls, ProfiledFunction,
    ReportedProgram, SplitFunction,
};
use std::collections::BTreeSet;

fn function(name: &str, address: u64, size: u64) -> BinaryFunction {
    BinaryFunction {
        name: name.to_owned(),
        address,
        size,
        section: ".text".to_owned(),
        file: None,
        local: false,
        ifunc: false,
        untyped: false,
    }
}

fn key(name: &str) -> FunctionKey {
    FunctionKey { dso: None, name: name.to_owned(), file: None }
}

fn seen(weight: u64) -> ProfiledFunction {
    ProfiledFunction { weight, group: GroupKind::Hot, first: Some(weight) }
}

/// Makes this many functions of 300 bytes. Every tenth was called, the last one most often.
fn program(functions: u64) -> (Binary, Vec<(FunctionKey, ProfiledFunction)>) {
    let name = |at: u64| format!("function_with_a_name_of_usual_length_{at}");
    let binary = (0..functions).map(|at| function(&name(at), 0x40_1000 + 304 * at, 300)).collect();
    let heat = (0..functions).step_by(10).map(|at| (key(&name(at)), seen(1 + at * at))).collect();
    (Binary { functions: binary, ..Binary::default() }, heat)
}

/// Returns the texts that a reader of the page sees, each once.
fn words(page: &str) -> String {
    let page = page.split("<script").next().unwrap();
    let texts = page.split('>').filter_map(|part| part.split('<').next());
    let texts = texts.map(str::trim).filter(|text| text.contains(' ') && !text.contains('{'));
    let without_numbers = |text: &str| {
        let words = text
            .split(' ')
            .map(|word| if word.starts_with(|c: char| c.is_ascii_digit()) { "1" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    let texts: BTreeSet<String> = texts.flat_map(str::lines).map(without_numbers).collect();
    let of_functions = |text: &&String| !text.starts_with("function_");
    texts.iter().filter(of_functions).cloned().collect::<Vec<_>>().join("\n")
}

fn drawn(binary: &Binary, heat: &[(FunctionKey, ProfiledFunction)]) -> String {
    let heat_of = ProfileByName::of(heat.iter().map(|(key, seen)| (key, *seen)));
    let before = layout::linked("before", binary, &heat_of);
    let mut order: Vec<_> = heat.iter().collect();
    order.sort_by_key(|(key, seen)| (std::cmp::Reverse(seen.weight), key.name.clone()));
    let after = layout::predicted("after", &before, order.iter().map(|(key, _)| key.name.as_str()));
    let functions = before.functions.iter().map(|function| (function.address, "part.o".to_owned())).collect();
    let program = ReportedProgram {
        name: "program".to_owned(),
        before,
        after,
        objects: functions,
        ..ReportedProgram::default()
    };
    page_of("program", "a note", program)
}

fn page_of(title: &str, note: &str, program: ReportedProgram<'_>) -> String {
    layout::html(&LayoutReport {
        title: title.to_owned(),
        programs: vec![program],
        notes: vec![note.to_owned()],
        most_pages: 48,
        ..LayoutReport::default()
    })
}

/// Checks that each tag is opened as often as it is closed.
fn is_well_formed(page: &str) {
    for tag in ["svg", "title", "table", "section", "div", "text", "ul", "li", "h1", "h2", "h3", "p", "style"]
    {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "<{tag}>");
    }
    for reach in ["<img", "<link", "<image", "<use", "@import", "eval("] {
        assert!(!page.contains(reach), "{reach}: nothing loads");
    }
    // The page contains only our own script, allowed by its hash, and data, which is not executed.
    assert_eq!(page.matches("<script>").count(), 1);
    let data = page.matches("<script type=\"application/json\"").count();
    assert_eq!(page.matches("<script").count(), 1 + data);
    let policy =
        page.split("Content-Security-Policy\" content=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(!page.contains("NaN") && !page.contains("inf\""));
}

#[test]
fn twenty_thousand_functions_make_a_small_file() {
    let (binary, heat) = program(20_000);
    let page = drawn(&binary, &heat);
    is_well_formed(&page);
    assert!(page.len() < 3 << 20, "{} bytes", page.len());
    assert_eq!(page, drawn(&binary, &heat), "the same every time");
    // 2,000 functions of 300 bytes ran: they need 149 pages of 4 KiB and lie on all 1,485.
    assert!(page.contains("<td>90 %</td>"), "the table of shares");
    assert!(page.contains("18000"));
    for axis in ["2 MiB", ">0 KiB<", ">32 KiB<", ">96 KiB<", ">128 KiB<"] {
        assert!(page.contains(axis), "{axis}");
    }
    support::golden("report/layout.txt", &(words(&page) + "\n"));
}

/// Returns the horizontal position where a curve reaches 90 % of the calls, as a share of the picture's width.
fn reach_of(page: &str, class: &str) -> f64 {
    let points = page.split(&format!("<polyline class=\"{class}\" points=\"")).nth(1).unwrap();
    let points = points.split('"').next().unwrap().split(' ');
    let points: Vec<(f64, f64)> = points
        .map(|point| point.split_once(',').unwrap())
        .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
        .collect();
    let (bottom, top) = (points[0].1, points[points.len() - 1].1);
    let at = points.iter().find(|(_, y)| bottom - y >= 0.9 * (bottom - top)).unwrap().0;
    at / 760.0
}

#[test]
fn curves_of_large_programs_do_not_lie_at_the_left_edge() {
    let (binary, heat) = program(20_000);
    let page = drawn(&binary, &heat);
    assert!(page.contains("(logarithmic scale)"));
    // 149 of 1,485 pages would be a tenth of a linear axis.
    let after = reach_of(&page, "after");
    assert!(after > 0.5 && reach_of(&page, "before") > after, "{after}");
    // 49 of 350 pages, as in a database, would be a seventh of a linear axis.
    let (binary, _) = program(4700);
    let heat: Vec<_> =
        binary.functions.iter().step_by(7).map(|function| (key(&function.name), seen(1000))).collect();
    let page = drawn(&binary, &heat);
    assert!(page.contains("(logarithmic scale)"));
    // A third of the pages is not a small part, so the axis is linear.
    let heat: Vec<_> =
        binary.functions.iter().step_by(3).map(|function| (key(&function.name), seen(1000))).collect();
    let page = drawn(&binary, &heat);
    assert!(!page.contains("(logarithmic scale)"));
    assert!((0.2..0.5).contains(&reach_of(&page, "after")), "{}", reach_of(&page, "after"));
}

#[test]
fn an_order_needs_fewer_pages_than_before() {
    let (binary, heat) = program(4000);
    let page = drawn(&binary, &heat);
    let page = page.split("<h2>Share of calls").nth(1).unwrap();
    let row = page.split("<td>99.9 %</td>").nth(1).unwrap();
    let cells: Vec<u64> = row
        .split("<td>")
        .skip(1)
        .take(2)
        .map(|cell| cell.split('<').next().unwrap().parse().unwrap())
        .collect();
    assert!(cells[1] * 5 < cells[0], "{cells:?}");
}

#[test]
fn hostile_names_are_shown_and_do_nothing() {
    let names: Vec<String> = support::hostile::names().into_iter().map(|(_, name)| name).collect();
    let functions = names.iter().zip(0..).map(|(name, at)| function(name, 0x1000 + 64 * at, 60)).collect();
    let binary = Binary { functions, ..Binary::default() };
    let heat: Vec<_> = names.iter().map(|name| (key(name), seen(5))).collect();
    let page = drawn(&binary, &heat);
    is_well_formed(&page);
    assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
    let named = page_of("<b>&\"'", "<script>", ReportedProgram::default());
    assert!(named.contains("&lt;b&gt;&amp;&quot;&#39;") && named.contains("&lt;script&gt;"), "{named}");
    is_well_formed(&named);
}

/// Returns the data of a program, as the page's script reads it.
fn data(page: &str) -> serde_json::Value {
    let data = page.split("class=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    serde_json::from_str(data).unwrap()
}

#[test]
fn data_has_each_function_once_with_both_addresses() {
    let (binary, heat) = program(40);
    let found = data(&drawn(&binary, &heat));
    assert_eq!(found["n"].as_array().unwrap().len(), 40);
    assert_eq!(found["p"], serde_json::json!([0, 10, 10, 10]));
    // Before: from the beginning of the page, one function after the other.
    assert_eq!(found["b"]["d"][0], 0);
    assert_eq!(found["b"]["d"][1], 304);
    // After: the heaviest functions are first, the others keep their sequence.
    assert_eq!(found["a"]["i"].as_array().unwrap()[..10], [30, 1, 20, 1, 10, 1, 0, 10, 11, 9]);
    let heats: Vec<u64> = found["w"].as_array().unwrap().iter().map(|w| w.as_u64().unwrap()).collect();
    assert!((999_999_990..=1_000_000_000).contains(&heats.iter().sum::<u64>()), "{heats:?}");
}

#[test]
fn functions_that_are_in_one_layout_alone_are_counted() {
    let names = |names: &[&'static str]| Layout {
        title: String::new(),
        functions: names
            .iter()
            .zip(1..)
            .map(|(name, at)| layout::LayoutFunction {
                name,
                address: 4096 * at,
                size: 64,
                seen: Some(seen(at)),
                id: None,
            })
            .collect(),
    };
    let program = ReportedProgram {
        before: names(&["a", "twin", "twin", "gone"]),
        after: names(&["twin", "new", "a", "twin"]),
        ..ReportedProgram::default()
    };
    let found = data(&page_of("p", "", program));
    assert_eq!(found["n"], serde_json::json!(["a", "twin", "twin", "gone", "new"]));
    assert_eq!(found["a"]["i"], serde_json::json!([1, 1, 4, 1, 0, 1, 2, 1]));
}

#[test]
fn two_hundred_thousand_functions_and_none_are_drawn() {
    let (binary, heat) = program(200_000);
    let page = drawn(&binary, &heat);
    is_well_formed(&page);
    assert!(page.len() < 40 << 20, "{} bytes", page.len());
    let (binary, _) = program(1);
    let page = drawn(&binary, &[]);
    is_well_formed(&page);
    assert!(page.contains("no calls of this program"));
    is_well_formed(&of_long_name());
}

/// Makes the page of a function whose name has the maximum length.
fn of_long_name() -> String {
    let name = "long_".repeat(819) + "x";
    let binary = Binary { functions: vec![function(&name, 0x1000, 64)], ..Binary::default() };
    drawn(&binary, &[(key(&name), seen(7))])
}

#[test]
fn damaged_sizes_and_gaps_are_bounded() {
    let functions =
        vec![function("zero", 16, 0), function("vast", 32, u64::MAX), function("far", 1 << 44, 100)];
    let binary = Binary { functions, ..Binary::default() };
    let heat: Vec<_> = ["zero", "vast", "far"].map(|name| (key(name), seen(7))).into();
    let page = drawn(&binary, &heat);
    is_well_formed(&page);
    assert!(page.len() < 8 << 20, "{} bytes", page.len());
}

/// Makes a profile in which `main` of prog calls the other functions of prog, and one of them calls into libc.so.6.
fn profile_with_a_library() -> Profile {
    let mut profile = Profile::default();
    let at =
        |dso: &str, name: &str| FunctionKey { dso: Some(dso.to_owned()), name: name.to_owned(), file: None };
    let calls = [("prog", "main", "prog", "work", 3), ("prog", "work", "libc.so.6", "malloc", 97)];
    for (from_dso, from, to_dso, to, count) in calls {
        let [from, to] = [at(from_dso, from), at(to_dso, to)].map(|key| profile.function(key));
        profile.edge_mut(from, to).count = Some(count);
    }
    profile
}

#[test]
fn libraries_have_their_calls_and_counts_are_of_one_base() {
    let profile = profile_with_a_library();
    let keys: Vec<FunctionKey> =
        ["main", "work"].map(|name| FunctionKey { dso: Some("prog".to_owned()), ..key(name) }).into();
    let heat = ProfileByName::of(keys.iter().zip([0, 3]).map(|(key, weight)| (key, seen(weight))));
    let functions = vec![function("main", 0x1000, 64), function("work", 0x1040, 64)];
    let binary = Binary { functions, ..Binary::default() };
    let before = layout::linked("before", &binary, &heat);
    let program = ReportedProgram {
        name: "prog".to_owned(),
        after: before.clone(),
        before,
        calls: ProfileCalls::of(&profile, &keys),
        ..ReportedProgram::default()
    };
    let found = data(&page_of("p", "", program));
    assert_eq!(found["n"], serde_json::json!(["main", "work", "malloc"]));
    assert_eq!((&found["c"], &found["t"]), (&serde_json::json!(100), &serde_json::json!(3)));
    assert_eq!(found["v"], serde_json::json!([97]));
    // The caller is stored as the difference from the previous one, then callee and count.
    assert_eq!(found["e"], serde_json::json!([0, 1, 3, 1, 2, 97]));
}

#[test]
fn data_has_linkage_names_where_others_are_shown() {
    let names = ["_ZN3srv3fooEi", "_ZN3srv3barEi", "plain"];
    let functions = names.iter().zip(0..).map(|(name, at)| function(name, 0x1000 + 64 * at, 60)).collect();
    let binary = Binary { functions, ..Binary::default() };
    let found = data(&drawn(&binary, &[(key(names[0]), seen(5))]));
    assert_eq!(found["n"], serde_json::json!(["srv::foo(int)", "srv::bar(int)", "plain"]));
    // The first eight characters and the last two are the same as in the previous name.
    assert_eq!(found["l"], serde_json::json!(["00_ZN3srv3fooEi", "82bar", ""]));
    let (binary, heat) = program(40);
    assert_eq!(data(&drawn(&binary, &heat))["l"], serde_json::json!([]));
}

#[test]
fn hot_and_cold_parts_have_their_bytes_and_weights() {
    let parted =
        |name: &str, weights| SplitFunction { name: name.to_owned(), bytes: 300, cold_bytes: 100, weights };
    let split =
        vec![parted("other_graph", None), parted("work", Some([1000, 10])), parted("quiet", Some([0, 0]))];
    let page = page_of("p", "", ReportedProgram { split, ..ReportedProgram::default() });
    let table = page.split("<h2>Hot and cold parts").nth(1).unwrap().split("</table>").next().unwrap();
    let rows: Vec<String> = table
        .split("<tr>")
        .skip(2)
        .map(|row| {
            let texts = row.split('>').filter_map(|part| part.split('<').next());
            texts.map(str::trim).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" | ")
        })
        .collect();
    assert_eq!(
        rows,
        [
            "work | 100.0 % | 300 bytes | 100 bytes | 1.00 %",
            "quiet | none | 300 bytes | 100 bytes | none",
            "other_graph | not known | 300 bytes | 100 bytes | not known",
        ]
    );
    // This is three quarters of the bar.
    assert!(table.contains("width=\"45.0\""), "{table}");
}

#[test]
fn small_files_are_one_tile_that_no_name_can_imitate() {
    let names: Vec<String> = (0..300).map(|at| format!("f{at}")).collect();
    let functions =
        names.iter().zip(0..).map(|(name, at)| function(name, 0x1000 + 512 * at, 500 - at)).collect();
    let binary = Binary { functions, ..Binary::default() };
    let heat: Vec<_> = names.iter().map(|name| (key(name), seen(1))).collect();
    let heat_of = ProfileByName::of(heat.iter().map(|(key, seen)| (key, *seen)));
    let before = layout::linked("before", &binary, &heat_of);
    let objects = before
        .functions
        .iter()
        .zip(["/smaller files", "smaller files"].into_iter().chain(names.iter().map(String::as_str)))
        .map(|(function, file)| (function.address, file.to_owned()))
        .collect();
    let page = page_of(
        "p",
        "",
        ReportedProgram { after: before.clone(), before, objects, ..ReportedProgram::default() },
    );
    assert_eq!(page.matches("data-rest=\"\"").count(), 1);
    assert_eq!(page.matches(" data-o=\"").count(), 240);
    let rest = page.split("data-rest=\"\"").nth(1).unwrap().split("</title>").next().unwrap();
    assert!(rest.contains("smaller files: ") && rest.contains(" in 61 functions, "), "{rest}");
}

#[test]
fn regions_scroll_by_keyboard_and_have_names_of_their_own() {
    let (binary, heat) = program(100);
    let heat_of = ProfileByName::of(heat.iter().map(|(key, seen)| (key, *seen)));
    let of = |name: &str| {
        let before = layout::linked("before", &binary, &heat_of);
        let split = vec![SplitFunction::default()];
        ReportedProgram {
            name: name.to_owned(),
            after: before.clone(),
            before,
            split,
            ..ReportedProgram::default()
        }
    };
    for names in [&["one"][..], &["one", "\"two<"]] {
        let programs: Vec<ReportedProgram<'_>> = names.iter().map(|name| of(name)).collect();
        let page = layout::html(&LayoutReport { programs, most_pages: 48, ..LayoutReport::default() });
        is_well_formed(&page);
        let mut labels = BTreeSet::new();
        for (at, _) in page.match_indices(" role=\"region\"") {
            let tag = &page[page[..at].rfind('<').unwrap()..];
            let tag = &tag[..tag.find('>').unwrap()];
            assert!(tag.contains("tabindex="), "{tag}");
            let label = tag.split("aria-label=\"").nth(1).unwrap().split('"').next().unwrap();
            assert!(labels.insert(label.to_owned()), "two regions are {label}");
        }
        assert!(labels.len() >= 10 * names.len(), "{labels:?}");
        for scrolls in ["class=\"scroll\"", "class=\"wide\""] {
            for (at, _) in page.match_indices(scrolls) {
                let tag = page[at..].split('>').next().unwrap();
                assert!(tag.contains("tabindex=\"0\" role=\"region\""), "{tag}");
            }
        }
    }
}

#[test]
fn headlines_tell_simulated_misses_from_counted_ones() {
    let (binary, heat) = program(100);
    let heat_of = ProfileByName::of(heat.iter().map(|(key, seen)| (key, *seen)));
    let headline = |measured: Option<MeasuredMisses>| {
        let before = layout::linked("before", &binary, &heat_of);
        let program = ReportedProgram {
            after: before.clone(),
            before,
            misses: Some(0.01),
            ..ReportedProgram::default()
        };
        let page =
            layout::html(&LayoutReport { programs: vec![program], measured, ..LayoutReport::default() });
        let line = page.split("class=\"headline\">").nth(1).unwrap().split("</p>").next().unwrap();
        line.split("; ").nth(1).unwrap().replace('\u{a0}', " ")
    };
    let measured = |is_simulated| Some(MeasuredMisses { ratio: 0.29, is_simulated });
    assert_eq!(headline(None), "iTLB misses -99 % predicted");
    assert_eq!(headline(measured(true)), "iTLB misses -99 % predicted, -71 % simulated");
    assert_eq!(headline(measured(false)), "iTLB misses -99 % predicted, -71 % measured");
    let more = MeasuredMisses { ratio: 1.2, is_simulated: false };
    assert_eq!(headline(Some(more)), "iTLB misses -99 % predicted, +20 % measured");
    assert_eq!(
        headline(Some(MeasuredMisses { ratio: 1.001, ..more })),
        "iTLB misses -99 % predicted, 0 % measured"
    );
}

#[test]
fn heaviest_pages_are_counted_as_they_are() {
    let lines = |functions: u64| {
        let (binary, heat) = program(functions);
        let page = drawn(&binary, &heat);
        let text = page.split("Heaviest pages, function by function").nth(1).unwrap();
        text.split("<p>").nth(1).unwrap().split('.').next().unwrap().to_owned()
    };
    assert_eq!(lines(1), "The page with the most calls, by address");
    assert_eq!(lines(40), "The 3 pages with the most calls, by address");
    assert_eq!(lines(4000), "The 48 pages with the most calls, by address");
}
