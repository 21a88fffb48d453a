// SPDX-License-Identifier: MIT OR Apache-2.0
//! The indented blocks of a page with their marks. A mark is the comment before its block.

/// The use of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// `run`: run as written.
    Run,
    /// `run in a tree: SCRIPT`: run by a script that reads the page, in a tree of another system.
    InTree(String),
    /// `run elsewhere: FILES`: run by these scripts or tests, which have the same commands.
    Elsewhere(Vec<String>),
    /// `shown: REASON`: commands that no test runs.
    Shown,
    /// `file: NAME`: the contents of a file.
    File(String),
    /// `text`: no commands, such as output.
    Text,
    /// `before: COMMANDS`: preconditions of the page, which are run without being shown. They belong to no block.
    Before,
}

impl Mark {
    /// Other comments in a page are not marks.
    fn read(comment: &str) -> Option<Self> {
        let (name, value) =
            comment.split_once(": ").map_or((comment, None), |(name, value)| (name, Some(value)));
        match (name, value) {
            ("run", None) => Some(Mark::Run),
            ("run in a tree", Some(script)) => Some(Mark::InTree(script.to_owned())),
            ("run elsewhere", Some(files)) => {
                Some(Mark::Elsewhere(files.split(", ").map(str::to_owned).collect()))
            }
            ("shown", Some(reason)) if reason.len() > 10 => Some(Mark::Shown),
            ("file", Some(file)) => Some(Mark::File(file.to_owned())),
            ("text", None) => Some(Mark::Text),
            ("before", Some(_)) => Some(Mark::Before),
            _ => None,
        }
    }
}

/// A block, and its first line, from 1.
#[derive(Debug, PartialEq, Eq)]
pub struct PageBlock {
    pub mark: Mark,
    pub line: usize,
    pub text: String,
}

/// Returns the indented blocks of a page, including those in list items, with their marks.
pub fn blocks(page: &str) -> Result<Vec<PageBlock>, String> {
    let mut blocks: Vec<PageBlock> = Vec::new();
    let mut mark: Option<Mark> = None;
    // Indentation of the open block, and number of blank lines after its last line.
    let mut open: Option<(usize, usize)> = None;
    let mut after_blank = true;
    for (number, line) in page.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        let mut is_mark = false;
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if text.is_empty() {
            open = open.map(|(of, blanks)| (of, blanks + 1));
        } else if let Some((of, blanks)) = open.filter(|(of, _)| indent >= *of) {
            let block = blocks.last_mut().expect("a block is open");
            block.text += &"\n".repeat(blanks);
            block.text += &format!("{}\n", &line[of..]);
            open = Some((of, 0));
        } else if indent >= 4 && after_blank {
            let mark = mark.take().ok_or_else(|| format!("line {number}: a block without a mark: {text}"))?;
            blocks.push(PageBlock { mark, line: number, text: format!("{text}\n") });
            open = Some((indent, 0));
        } else {
            open = None;
            if let Some(comment) = text.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
                is_mark = true;
                match Mark::read(comment) {
                    Some(Mark::Before) => {
                        let text = format!("{}\n", &comment["before: ".len()..]);
                        blocks.push(PageBlock { mark: Mark::Before, line: number, text });
                    }
                    read => mark = read.or(mark),
                }
            }
        }
        // A comment ends a paragraph, like a blank line.
        after_blank = text.is_empty() || is_mark;
    }
    mark.map_or(Ok(blocks), |_| Err("the last mark has no block".to_owned()))
}

pub fn marks_are_read() {
    let page = "Words.\n\n<!-- before: touch a -->\n<!-- run -->\n\n    one\n\n      two\n\nMore.\n\n<!-- end -->\n\n- An item\n\n  <!-- file: b.c -->\n\n      int b;\n  end\n\n\
                <!-- shown: it has no network -->\n\n    three\n\nThe same:\n\n<!-- run elsewhere: a, b/c -->\n    four\n";
    let found = blocks(page).unwrap();
    let found: Vec<(&Mark, usize, &str)> =
        found.iter().map(|block| (&block.mark, block.line, &*block.text)).collect();
    let expected = [
        (&Mark::Before, 3, "touch a\n"),
        (&Mark::Run, 6, "one\n\n  two\n"),
        (&Mark::File("b.c".to_owned()), 18, "int b;\n"),
        (&Mark::Shown, 23, "three\n"),
        (&Mark::Elsewhere(vec!["a".to_owned(), "b/c".to_owned()]), 28, "four\n"),
    ];
    assert_eq!(found, expected);
    let wrong = [
        "\n    one\n",
        "<!-- end -->\n    one\n",
        "<!-- shown: why -->\n\n    one\n",
        "<!-- walk -->\n\n    one\n",
        "<!-- run -->\n",
    ];
    for page in wrong {
        assert!(blocks(page).is_err(), "{page}");
    }
}

/// The commands of a block, without comments.
pub fn commands(block: &str) -> impl Iterator<Item = String> {
    let lines = block.lines().map(|line| line.split(" #").next().unwrap_or_default());
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).filter(|line| !line.is_empty())
}
