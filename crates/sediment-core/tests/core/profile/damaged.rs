// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damaged, hostile and huge input: an error with its line, never a panic, never more memory than the input is worth.

use sediment_core::profile::text::parse;
use sediment_core::skipped::Reason;
use support::said::says;

fn error(text: &str) -> String {
    match parse(text.as_bytes()) {
        Ok((profile, _)) => panic!("{text:?} was read as {profile:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_error_says_what_is_wrong_and_where() {
    for text in [
        "",
        " \n\n",
        "hello",
        "\x7fELF\x02\x01",
        "graph {\n a -- b\n}",
        "digraph {\n a -- b\n}",
        "digraph {\n a -> b",
        "digraph {\n \"a\nb",
        "digraph { a ->\n }",
        "digraph { a [size] }",
        "digraph { node -> a }",
        "digraph { a }\ndigraph { b }",
        "digraph { }",
        "digraph {\n a -> b [label=-0.5]\n}",
        "digraph {\n a -> b [label=nan]\n}",
        "digraph {\n a -> b [label=often]\n}",
        "digraph {\n a -> b [label=0.5]\n b -> c\n}",
        "digraph {\n a -> b [label=0.5]\n b -> c [label=\"5×\"]\n}",
        "digraph {\n sediment=two a }",
    ] {
        says("library/profile/damaged/an_error_says_what_is_wrong_and_where", error(text));
    }
}

#[test]
fn numbers_of_version_2_are_checked() {
    for statement in [
        "total=x",
        "unit=percent",
        "inputs=-1",
        "a [size=1.5]",
        "a [first=18446744073709551616]",
        "a [heat=warm]",
        "a [taken=yes]",
        "a [static=-1]",
        "a [samples=\"NaN\"]",
        "a -> b [count=-1]",
        "a -> b [count=0.5]",
        "a -> b [count=1, label=nan]",
        "a -> b [kind=virtual]",
        "a -> b [near=302231454903657293676544]",
        "unit=share a -> b [near=340282366920938463463374607431768211456]",
        "a -> b [near=1] a -> b [kind=direct]",
        "total=0 a -> b [count=1]",
        "total=9 unit=share a -> b [count=340282366920938463463374607431768211455] a -> b [count=1]",
        "a -> b [near=302231454903657293676543] a -> b [near=1]",
        "a [samples=302231454903657293676543] b [name=a, samples=1]",
        "subgraph cluster0 { label=x a [dso=y] }",
    ] {
        let text = format!("digraph {{ sediment=2\ntotal=10\n{statement}\n}}");
        assert!(error(&text).starts_with("line 3: "), "{statement}");
        says("library/profile/damaged/numbers_of_version_2_are_checked", error(&text));
    }
}

/// One label is one build of one package, however often it stands in a file.
#[test]
fn clusters_of_one_label_must_agree() {
    let with = |first: &str, second: &str| {
        let clusters =
            format!("subgraph cluster0 {{ label=x {first} a }}\nsubgraph cluster1 {{ label=x {second} b }}");
        format!("digraph {{ sediment=3\n{clusters}\n}}")
    };
    for (first, second) in [("build_id=ab12", "build_id=cd34"), ("package=\"x-1\"", "package=\"x-2\"")] {
        let error = error(&with(first, second));
        assert!(error.starts_with("line 3: "), "{error}");
        says("library/profile/damaged/clusters_of_one_label_must_agree", error);
    }
    for (first, second) in [("build_id=ab12", "build_id=AB12"), ("build_id=ab12", ""), ("", "build_id=ab12")]
    {
        let (profile, skipped) = parse(with(first, second).as_bytes()).unwrap();
        assert!(skipped.is_empty());
        assert_eq!(profile.functions().len(), 2, "functions of both");
        assert_eq!(profile.dsos().len(), 1);
        assert_eq!(profile.dsos()["x"].build_id.as_deref(), Some("ab12"));
    }
}

#[test]
fn a_newer_version_names_the_version_that_reads_it() {
    says("library/profile/damaged/a_newer_version", error("digraph { sediment=7 } anything"));
}

#[test]
fn every_cut_of_a_file_is_an_error() {
    let text = "digraph G {\n graph [sediment=2, total=4];\n subgraph cluster0 { graph [label=\"a\"]; \"f\"; }\n \
                \"f\" -> \"g\" [label=0.5, count=2];\n}";
    assert!(parse(text.as_bytes()).is_ok());
    for end in 0..text.len() {
        assert!(parse(&text.as_bytes()[..end]).is_err(), "cut after {end} bytes");
    }
}

#[test]
fn a_label_of_ten_megabytes_is_read_once_however_many_edges_have_it() {
    let long = "x\\\"".repeat(5_000_000);
    let edges: String = (0..20_000).map(|number| format!("a -> b{number} [label=1];\n")).collect();
    let text = format!("digraph {{ edge [color=\"{long}\", label=\"{long}\"];\n{edges}}}");
    let (profile, _) = parse(text.as_bytes()).unwrap();
    assert_eq!(profile.edge_count(), 20_000);
    let (profile, skipped) = parse(format!("digraph {{ a -> b -> \"{long}\" }}").as_bytes()).unwrap();
    assert_eq!((profile.function_count(), skipped.items(Reason::UnacceptableName)), (2, 1));
}

#[test]
fn nesting_without_end_costs_no_stack() {
    const DEPTH: usize = 300_000;
    /// Of subgraphs: `dot` reads a third of this.
    const NESTED: usize = 10_000;
    let nested = |depth: usize, open: &str, middle: &str, close: &str| {
        parse(format!("digraph {{ {}{middle}{} }}", open.repeat(depth), close.repeat(depth)).as_bytes())
    };
    let deep = |open: &str, middle: &str, close: &str| nested(DEPTH, open, middle, close);
    assert_eq!(nested(NESTED, "{", "a -> b", "}").unwrap().0.edge_count(), 1);
    let clusters = nested(NESTED, "subgraph cluster1 { label=x;", "a -> b", "}").unwrap().0;
    assert_eq!(clusters.dsos().len(), 1);
    let error = nested(NESTED + 1, "{", "a -> b", "}").unwrap_err();
    says("library/profile/damaged/nesting_without_end_costs_no_stack", error.to_string());
    assert_eq!(deep("a -> ", "b", " ").unwrap().0.edge_count(), 2);
    assert_eq!(deep("a, ", "b", " ").unwrap().0.function_count(), 2);
    assert_eq!(deep("<", "", ">").unwrap().0.function_count(), 0);
    assert!(deep("{", "a", "").is_err());
    assert!(deep("", "a", "}").is_err());
    // Each level is an end that holds all below: that is NESTED times NESTED edges.
    let error = nested(NESTED, "{a -> ", "b", "}").unwrap_err();
    says("library/profile/damaged/nesting_without_end_costs_no_stack", error.to_string());
}

#[test]
fn edges_of_subgraphs_cannot_multiply_beyond_measure() {
    let many: String = (0..3000).map(|number| format!("n{number} ")).collect();
    let message = error(&format!("digraph {{\n {{ {many} }} ->\n {{ {many} }} }}"));
    says("library/profile/damaged/edges_of_subgraphs_cannot_multiply_beyond_measure", message);
    let (profile, _) = parse(b"digraph { { a b c } -> { d e f } }").unwrap();
    assert_eq!(profile.edge_count(), 9);
}
