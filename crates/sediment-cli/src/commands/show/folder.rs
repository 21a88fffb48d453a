// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment show FOLDER` lists the profiles for builds, with a line for each file, and the file that is used if
//! several have a profile of the same program.

use super::output::{ProfileFile, RepeatedPrograms, ShowDirOutput};
use crate::files;
use crate::inputs::read_profile;
use crate::output::Schema;
use crate::ui::Ui;
use crate::wrapper::{Profiles, settings};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

pub(super) fn run(folder: &Path, as_json: bool, ui: &Ui) -> Result<()> {
    let settings = settings::of_folder(folder)?;
    settings::check_older(folder, &settings)?;
    let profiles = Profiles::open(folder, ui)?;
    let (mut text, mut entries, mut read_any) = (String::new(), Vec::new(), false);
    for path in profiles.files() {
        let name = files::display(path);
        match files::expect_regular(path).and_then(|()| read_profile(path, ui)) {
            Ok(profile) => {
                let _ = writeln!(text, "{}", super::headline(&name, &profile));
                entries.push(ProfileFile {
                    file: name,
                    functions: Some(profile.function_count()),
                    edges: Some(profile.edge_count()),
                    left_out: None,
                });
                read_any = true;
            }
            Err(error) => {
                // Files that were already read when the folder was opened were reported then.
                if path.extension().is_some_and(|ending| ending == "prof") {
                    ui.warn(&format!("skipped {name}: {error}"));
                }
                let left_out = Some(error.to_string());
                entries.push(ProfileFile { file: name, left_out, ..ProfileFile::default() });
            }
        }
    }
    if entries.is_empty() || !read_any {
        return Err(Error::new(ErrorCode::NotFound, "no readable profile in this folder")
            .with_input(files::display(folder))
            .with_hint("profiles are named NAME.gv or PROGRAM.prof"));
    }
    // Files that both have profiles of several programs are listed once.
    let mut several: BTreeMap<(&Path, &Path), Vec<&str>> = BTreeMap::new();
    for (label, counts, others) in profiles.in_several_files() {
        for other in others {
            several.entry((counts, other)).or_default().push(label);
        }
    }
    for ((counts, other), labels) in &several {
        let _ = writeln!(
            text,
            "{} and {} both have a profile of {}; the one in {} is used",
            files::display(counts),
            files::display(other),
            labels.join(", "),
            files::display_name(counts)
        );
    }
    if as_json {
        let several = several.iter().map(|((counts, other), programs)| RepeatedPrograms {
            counts: files::display(counts),
            other: files::display(other),
            programs,
        });
        let in_several_files = several.collect();
        return ui.json(&ShowDirOutput { schema: Schema, profiles: entries, in_several_files });
    }
    ui.result(&text)
}
