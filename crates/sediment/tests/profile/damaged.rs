// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damaged, hostile and huge input: an error with its line, never a panic, never more memory than the input is worth.

use sediment::profile::text::parse;
use sediment::skipped::Reason;

fn error(text: &str) -> String {
    match parse(text.as_bytes()) {
        Ok((profile, _)) => panic!("{text:?} was read as {profile:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_error_says_what_is_wrong_and_where() {
    for (text, expected) in [
        ("", "line 1: the file is empty where a profile should be"),
        (" \n\n", "line 1: the file is empty where a profile should be"),
        ("hello", "line 1: expected `digraph` (found \"hello\")"),
        (
            "\x7fELF\x02\x01",
            "line 1: a byte that starts no word of the DOT language (found \"\x7fELF\x02\x01\")",
        ),
        ("graph {\n a -- b\n}", "line 1: an undirected graph (found \"graph {\")"),
        ("digraph {\n a -- b\n}", "line 2: an undirected edge in a call graph (found \"-- b\")"),
        ("digraph {\n a -> b", "line 2: expected a statement or `}`, but the file ends"),
        ("digraph {\n \"a\nb", "line 2: a quoted text that does not end (found \"\"a\")"),
        ("digraph { a ->\n }", "line 2: expected a node or a subgraph after `->` (found \"}\")"),
        ("digraph { a [size] }", "line 1: expected `=` after the name of an attribute (found \"] }\")"),
        ("digraph { node -> a }", "line 1: expected `[` after `node`, `edge` or `graph` (found \"-> a }\")"),
        ("digraph { a }\ndigraph { b }", "line 2: something follows the graph (found \"digraph { b }\")"),
        ("digraph { }", "line 1: the graph has no functions"),
        ("digraph {\n a -> b [label=-0.5]\n}", "line 2: the label of an edge is negative (found \"-0.5\")"),
        (
            "digraph {\n a -> b [label=nan]\n}",
            "line 2: the label of an edge is not a number (NaN) (found \"nan\")",
        ),
        (
            "digraph {\n a -> b [label=often]\n}",
            "line 2: the label of an edge is no number (found \"often\")",
        ),
        (
            "digraph {\n a -> b [label=0.5]\n b -> c\n}",
            "line 3: the edge from `b` to `c` has no weight, and other edges have one",
        ),
        (
            "digraph {\n a -> b [label=0.5]\n b -> c [label=\"5×\"]\n}",
            "line 3: shares and call counts as labels of edges in one graph",
        ),
        (
            "digraph {\n sediment=two a }",
            "line 2: the graph's `sediment` is no version of the profile format (found \"two a }\")",
        ),
    ] {
        assert_eq!(error(text), expected, "{text:?}");
    }
}

#[test]
fn numbers_of_version_2_are_checked() {
    for (statement, expected) in [
        ("total=x", "`total` is no number (found \"x\")"),
        ("unit=percent", "`unit` is none of calls, share (found \"percent\")"),
        ("inputs=-1", "`inputs` is negative (found \"-1\")"),
        ("a [size=1.5]", "`size` is no number (found \"1.5\")"),
        ("a [first=18446744073709551616]", "`first` is too large (found \"18446744073709551616\")"),
        ("a [heat=warm]", "`heat` is none of hot, startup, exit, cold (found \"warm\")"),
        ("a [taken=yes]", "`taken` is neither 0 nor 1 (found \"yes\")"),
        ("a [static=-1]", "`static` is negative (found \"-1\")"),
        ("a [samples=\"NaN\"]", "`samples` is not a number (NaN) (found \"NaN\")"),
        ("a -> b [count=-1]", "`count` is negative (found \"-1\")"),
        ("a -> b [count=0.5]", "`count` is no number (found \"0.5\")"),
        ("a -> b [count=1, label=nan]", "the label of an edge is not a number (NaN) (found \"nan\")"),
        ("a -> b [kind=virtual]", "`kind` is none of direct, indirect, thunk, uncertain (found \"virtual\")"),
        (
            "a -> b [near=302231454903657293676544]",
            "`near` is 2^78 or more, which no count of calls is (found \"302231454903657293676544\")",
        ),
        (
            "unit=share a -> b [near=340282366920938463463374607431768211456]",
            "`near` is too large (found \"340282366920938463463374607431768211456\")",
        ),
        (
            "a -> b [near=1] a -> b [kind=direct]",
            "the edge from `a` to `b` has no weight, and other edges have one",
        ),
        ("total=0 a -> b [count=1]", "calls are counted, but the graph's `total` is missing or 0"),
        (
            "total=9 unit=share a -> b [count=340282366920938463463374607431768211455] a -> b [count=1]",
            "a repeated edge adds up to more than 128 bits hold",
        ),
        (
            "a -> b [near=302231454903657293676543] a -> b [near=1]",
            "a repeated edge adds up to 2^78 or more, which no count of calls is",
        ),
        (
            "a [samples=302231454903657293676543] b [name=a, samples=1]",
            "the `samples` of a function add up to 2^78 or more, which no count of calls is",
        ),
        (
            "subgraph cluster0 { label=x a [dso=y] }",
            "`dso` names another DSO than the cluster that lists the function (found \"y\")",
        ),
    ] {
        let text = format!("digraph {{ sediment=2\ntotal=10\n{statement}\n}}");
        assert_eq!(error(&text), format!("line 3: {expected}"), "{statement}");
    }
}

#[test]
fn a_newer_version_names_the_version_that_reads_it() {
    let expected = "line 1: a profile of version 7: it takes a sediment that reads version 7, this one reads 1 to 3 \
                    (found \"7 } anything\")";
    assert_eq!(error("digraph { sediment=7 } anything"), expected);
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
    assert!(error.to_string().starts_with("line 1: subgraphs nested more than 10000 deep"), "{error}");
    assert_eq!(deep("a -> ", "b", " ").unwrap().0.edge_count(), 2);
    assert_eq!(deep("a, ", "b", " ").unwrap().0.function_count(), 2);
    assert_eq!(deep("<", "", ">").unwrap().0.function_count(), 0);
    assert!(deep("{", "a", "").is_err());
    assert!(deep("", "a", "}").is_err());
    // Each level is an end that holds all below: that is NESTED times NESTED edges.
    assert!(nested(NESTED, "{a -> ", "b", "}").unwrap_err().to_string().contains("multiply"));
}

#[test]
fn edges_of_subgraphs_cannot_multiply_beyond_measure() {
    let many: String = (0..3000).map(|number| format!("n{number} ")).collect();
    let message = error(&format!("digraph {{\n {{ {many} }} ->\n {{ {many} }} }}"));
    assert!(message.starts_with("line 2: edges of subgraphs multiply to more than "), "{message}");
    let (profile, _) = parse(b"digraph { { a b c } -> { d e f } }").unwrap();
    assert_eq!(profile.edge_count(), 9);
}
