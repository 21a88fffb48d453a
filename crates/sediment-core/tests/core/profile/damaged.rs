// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of damaged, hostile and huge input: it gives an error with its line, never a panic, and takes memory only in
//! proportion to its size.

use sediment_core::profile::text::parse;
use sediment_core::skipped::Reason;
use sediment_core::{Error, ErrorCode, ErrorLocation};

fn error(text: &str) -> Error {
    match parse(text.as_bytes()) {
        Ok((profile, _)) => panic!("{text:?} was read as {profile:?}"),
        Err(error) => error,
    }
}

#[test]
fn an_error_says_what_is_wrong_and_where() {
    for (text, line, found) in [
        ("", 1, ""),
        (" \n\n", 1, ""),
        ("hello", 1, "hello"),
        ("\x7fELF\x02\x01", 1, "ELF"),
        ("graph {\n a -- b\n}", 1, "graph {"),
        ("digraph {\n a -- b\n}", 2, "-- b"),
        ("digraph {\n a -> b", 2, ""),
        ("digraph {\n \"a\nb", 2, "\"\"a"),
        ("digraph { a ->\n }", 2, "}"),
        ("digraph { a [size] }", 1, "] }"),
        ("digraph { node -> a }", 1, "-> a }"),
        ("digraph { a }\ndigraph { b }", 2, "digraph { b }"),
        ("digraph { }", 1, ""),
        ("digraph {\n a -> b [label=-0.5]\n}", 2, "-0.5"),
        ("digraph {\n a -> b [label=nan]\n}", 2, "nan"),
        ("digraph {\n a -> b [label=often]\n}", 2, "often"),
        ("digraph {\n a -> b [label=0.5]\n b -> c\n}", 3, "`c`"),
        ("digraph {\n a -> b [label=0.5]\n b -> c [label=\"5×\"]\n}", 3, ""),
        ("digraph {\n sediment=two a }", 2, "two"),
    ] {
        let error = error(text);
        assert_eq!(error.location(), Some(ErrorLocation::Line(line)), "{error}");
        assert!(error.to_string().contains(found), "{error}");
    }
}

#[test]
fn numbers_of_version_2_are_checked() {
    for (statement, named) in [
        ("total=x", "`total`"),
        ("unit=percent", "percent"),
        ("inputs=-1", "`inputs`"),
        ("a [size=1.5]", "`size`"),
        ("a [first=18446744073709551616]", "`first`"),
        ("a [heat=warm]", "`heat`"),
        ("a [taken=yes]", "`taken`"),
        ("a [static=-1]", "`static`"),
        ("a [samples=\"NaN\"]", "`samples`"),
        ("a -> b [count=-1]", "`count`"),
        ("a -> b [count=0.5]", "`count`"),
        ("a -> b [count=1, label=nan]", "nan"),
        ("a -> b [kind=virtual]", "`kind`"),
        ("a -> b [near=302231454903657293676544]", "2^78"),
        ("unit=share a -> b [near=340282366920938463463374607431768211456]", "`near`"),
        ("a -> b [near=1] a -> b [kind=direct]", "`a`"),
        ("total=0 a -> b [count=1]", "`total`"),
        (
            "total=9 unit=share a -> b [count=340282366920938463463374607431768211455] a -> b [count=1]",
            "2^128",
        ),
        ("a -> b [near=302231454903657293676543] a -> b [near=1]", "2^78"),
        ("a [samples=302231454903657293676543] b [name=a, samples=1]", "`samples`"),
        ("subgraph cluster0 { label=x a [dso=y] }", "`dso`"),
    ] {
        let text = format!("digraph {{ sediment=2\ntotal=10\n{statement}\n}}");
        let error = error(&text);
        assert_eq!(error.location(), Some(ErrorLocation::Line(3)), "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
}

/// Clusters with the same label are one build of one package, however often the label occurs in a file.
#[test]
fn clusters_of_one_label_must_agree() {
    let with = |first: &str, second: &str| {
        let clusters =
            format!("subgraph cluster0 {{ label=x {first} a }}\nsubgraph cluster1 {{ label=x {second} b }}");
        format!("digraph {{ sediment=3\n{clusters}\n}}")
    };
    for (first, second) in [("build_id=ab12", "build_id=cd34"), ("package=\"x-1\"", "package=\"x-2\"")] {
        let error = error(&with(first, second));
        assert_eq!(error.location(), Some(ErrorLocation::Line(3)), "{error}");
        assert!(error.to_string().contains(first.split('=').next().unwrap()), "{error}");
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
    let error = error("digraph { sediment=7 } anything");
    assert!(error.code() == ErrorCode::NewerVersion && error.to_string().contains("version 7"), "{error}");
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
    /// Nesting depth of subgraphs: `dot` reads a third of this.
    const NESTED: usize = 10_000;
    let nested = |depth: usize, open: &str, middle: &str, close: &str| {
        parse(format!("digraph {{ {}{middle}{} }}", open.repeat(depth), close.repeat(depth)).as_bytes())
    };
    let deep = |open: &str, middle: &str, close: &str| nested(DEPTH, open, middle, close);
    assert_eq!(nested(NESTED, "{", "a -> b", "}").unwrap().0.edge_count(), 1);
    let clusters = nested(NESTED, "subgraph cluster1 { label=x;", "a -> b", "}").unwrap().0;
    assert_eq!(clusters.dsos().len(), 1);
    let error = nested(NESTED + 1, "{", "a -> b", "}").unwrap_err();
    assert!(error.to_string().contains(&NESTED.to_string()), "{error}");
    assert_eq!(deep("a -> ", "b", " ").unwrap().0.edge_count(), 2);
    assert_eq!(deep("a, ", "b", " ").unwrap().0.function_count(), 2);
    assert_eq!(deep("<", "", ">").unwrap().0.function_count(), 0);
    assert!(deep("{", "a", "").is_err());
    assert!(deep("", "a", "}").is_err());
    // Each level is an end of an edge that contains all levels below. This would make NESTED times NESTED edges.
    let error = nested(NESTED, "{a -> ", "b", "}").unwrap_err();
    assert!(error.to_string().contains("74287"), "{error}");
}

#[test]
fn edges_of_subgraphs_cannot_multiply_beyond_measure() {
    let many: String = (0..3000).map(|number| format!("n{number} ")).collect();
    let error = error(&format!("digraph {{\n {{ {many} }} ->\n {{ {many} }} }}"));
    assert_eq!(error.location(), Some(ErrorLocation::Line(2)), "{error}");
    assert!(error.to_string().contains("69761"), "{error}");
    let (profile, _) = parse(b"digraph { { a b c } -> { d e f } }").unwrap();
    assert_eq!(profile.edge_count(), 9);
}
