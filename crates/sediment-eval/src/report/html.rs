// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report as one HTML file that needs nothing else: no script, no network; light, dark and print by its own style.

use super::document::{Part, Table};
use super::plots::plots;
use crate::Analysis;
use sediment::escape;
use sediment::report::page::page;
use std::fmt::Write as _;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c2330;--soft:#5a6475;--paper:#fff;--line:#d5dae2;--band:#e8edf4;
--good:#1a7f4b;--bad:#b3261e;--even:#2457a6;--open:#7a6a1f}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ef;--soft:#a3adbd;--paper:#14181f;--line:#343c49;--band:#232b38;
--good:#5fd397;--bad:#ff8f86;--even:#8ab4ff;--open:#e0c85e}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem;max-width:72rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;line-height:1.25}h2{font-size:1.3rem;margin-top:2.2rem;border-bottom:1px solid var(--line)}
h3{font-size:1.05rem;margin-top:1.6rem}h1,h2,h3,li,p{overflow-wrap:anywhere}
td,th{overflow-wrap:break-word;max-width:24rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem;margin:.5rem 0}
th,td{padding:.25rem .7rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{color:var(--soft);font-weight:600}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
th.n{white-space:normal}
figure{margin:1rem 0}figcaption{color:var(--soft);font-size:.85rem}
svg{width:100%;max-width:60rem;height:auto;font:12px system-ui,sans-serif}
text{fill:var(--ink)}.tick{fill:var(--soft)}.name{font-weight:600}
.margin{fill:var(--band)}.grid{stroke:var(--line)}.zero{stroke:var(--soft);stroke-width:1.5}
g line{stroke-width:2;stroke:currentColor}g circle{fill:currentColor}
.mean{stroke-dasharray:5 4;stroke-width:1.2}
.faster{color:var(--good)}.slower{color:var(--bad)}.equivalent{color:var(--even)}.inconclusive{color:var(--open)}
.build{color:var(--even)}.probe{color:var(--soft)}
td.faster,td.slower,td.equivalent,td.inconclusive{font-weight:700}
@media print{:root{--ink:#000;--soft:#444;--paper:#fff;--line:#bbb;--band:#eee;--good:#0b5c33;--bad:#8c1a14;--even:#173f7d;
--open:#5c4f12}body{padding:0;max-width:none;font-size:11px}table{font-size:10px}.scroll{overflow:visible}
th,td{padding:.15rem .35rem}.n{white-space:normal}table,figure{break-inside:avoid}h2,h3{break-after:avoid}}
";

pub(super) fn html(parts: &[Part], analysis: &Analysis) -> String {
    let title = parts.iter().find_map(|part| match part {
        Part::Heading(1, title) => Some(title.as_str()),
        _ => None,
    });
    let mut body = String::new();
    for part in parts {
        match part {
            Part::Heading(level, title) => {
                let _ = writeln!(body, "<h{level}>{}</h{level}>", escape::html(title));
            }
            Part::Paragraph(sentence) => {
                let _ = writeln!(body, "<p>{}</p>", escape::html(sentence));
            }
            Part::List(items) => {
                body.push_str("<ul>\n");
                for item in items {
                    let _ = writeln!(body, "<li>{}</li>", escape::html(item));
                }
                body.push_str("</ul>\n");
            }
            Part::Table(rows) => table(&mut body, rows),
            Part::Plots(workload) => {
                if let Some(workload) = analysis.workloads.get(*workload) {
                    body.push_str(&plots(analysis, workload));
                }
            }
        }
    }
    page(title.unwrap_or_default(), STYLE, &body)
}

fn table(page: &mut String, table: &Table) {
    page.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    for (title, number) in &table.columns {
        let class = if *number { " class=\"n\"" } else { "" };
        let _ = write!(page, "<th scope=\"col\"{class}>{}</th>", escape::html(title));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for (cell, (title, number)) in row.iter().zip(&table.columns) {
            let verdict = ["faster", "slower", "equivalent", "inconclusive"].contains(&cell.as_str());
            let class = match (number, verdict && title == "verdict") {
                (true, _) => " class=\"n\"".to_owned(),
                (false, true) => format!(" class=\"{cell}\""),
                (false, false) => String::new(),
            };
            let _ = write!(page, "<td{class}>{}</td>", escape::html(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}
