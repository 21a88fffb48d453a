// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records the training commands, and makes the profile. It contains only the files that the build linked, and no other
//! builds of these.

use super::links::{self, LinkedOutput};
use super::progress::RunStep;
use super::{OptimizeJob, entries, runs, tree};
use crate::files;
use crate::inputs::{self, read_profile};
use sediment_core::binary::{self, SymbolSource};
use sediment_core::profile::merge::{self, Weight};
use sediment_core::profile::{Profile, split, text};
use sediment_core::{Error, ErrorCode, ErrorKind, Result, escape};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

/// Hint for builds that strip.
const UNSTRIPPED: &str = "build without -s, strip or install -s";
/// Step after which the build-ids of the outputs are known, because a training command may link the outputs again.
const BUILD_IDS: &str = "build-ids";

impl OptimizeJob<'_> {
    /// Records the build-ids of the outputs of the first build.
    pub(super) fn remember_build_ids(&mut self, outputs: &[LinkedOutput]) -> Result<()> {
        let id = |output: &LinkedOutput| binary::build_id(&files::read(&output.path).ok()?);
        let ids =
            outputs.iter().filter_map(|output| Some(json!([entries::to_json(&output.path), id(output)?])));
        let ids: Value = ids.collect();
        self.state.done(BUILD_IDS, ids)
    }

    /// Returns the build-id of an output after the first build.
    fn build_id_of(&self, output: &LinkedOutput) -> Option<&str> {
        let path = entries::to_json(&output.path);
        let ids = self.state.fact(BUILD_IDS).as_array()?;
        ids.iter().find(|id| id[0] == path)?[1].as_str()
    }

    /// Records each training command.
    pub(super) fn record(&mut self, outputs: &[LinkedOutput]) -> Result<()> {
        let all: Vec<(String, bool)> =
            self.arguments.trainings().map(|(line, startup)| (line.to_owned(), startup)).collect();
        for (index, (line, startup)) in all.iter().enumerate() {
            let step = step(index);
            if self.state.has_done(&step) {
                continue;
            }
            let bar = self.progress.begin(RunStep::Training(index), &format!("recording: {line}"), self.ui);
            let (profile, log) =
                (self.state.path(&file_of(index)), self.state.path(&format!("training-{}.log", index + 1)));
            // A profile of an earlier run with other commands is removed.
            let _ = std::fs::remove_file(&profile);
            let mut words = vec![
                files::own_program()?.into_os_string(),
                "record".into(),
                "-o".into(),
                profile.clone().into(),
            ];
            words.extend(startup.then(|| OsString::from("--startup")));
            // Affinity gives a better order. Methods that do not record it ignore the option.
            words.push("--affinity".into());
            words.push("--".into());
            words.extend(runs::in_shell(line));
            let what = format!("the {step} (`{line}`)");
            let linked: Vec<_> = outputs.iter().map(stamp_of).collect();
            let done = self.place(Vec::new()).run(&what, &words, self.arguments.timeout, &log);
            bar.finish_and_clear();
            let usage = done.map_err(|error| hint_of_stripped(error, outputs))?;
            if let Some((output, _)) =
                outputs.iter().zip(&linked).find(|(output, stamp)| stamp_of(output) != **stamp)
            {
                let name = output.name();
                self.ui.warn(&format!(
                    "{what} changed {name}: only the build command may link, because only its links use sediment"
                ));
                // Earlier recordings belong to another build than the next run will find.
                self.state.give_up()?;
            }
            let recorded = read_profile(&profile, self.ui)?;
            let others = self.other_builds(&recorded, outputs, &what)?;
            let seconds = usage.wall.as_secs_f64();
            self.state.done(&step, json!({ "other_builds": others, "seconds": seconds }))?;
        }
        Ok(())
    }

    /// Seconds that the recording of a training command took.
    pub(super) fn seconds_of(&self, index: usize) -> Option<f64> {
        self.state.fact(&step(index))["seconds"].as_f64()
    }

    /// Lists the labels in a recording that belong to other builds of the outputs, by their build-ids.
    ///
    /// # Errors
    /// If all its outputs belong to other builds.
    fn other_builds(&self, profile: &Profile, outputs: &[LinkedOutput], what: &str) -> Result<Vec<String>> {
        let mut outputs = outputs.to_vec();
        links::label(&mut outputs, profile);
        let labels: BTreeSet<&str> = outputs.iter().filter_map(|output| output.label.as_deref()).collect();
        let mut others = Vec::new();
        let mut error = None;
        for label in &labels {
            let Some(recorded) = profile.dsos()[*label].build_id.as_deref() else { continue };
            let built = outputs.iter().filter(|output| output.label.as_deref() == Some(label));
            let ids: Vec<(&LinkedOutput, &str)> =
                built.filter_map(|output| Some((output, self.build_id_of(output)?))).collect();
            let is_built = ids.iter().any(|(_, id)| binary::same_build_id(id, recorded));
            let Some((output, id)) = ids.first().filter(|_| !is_built) else { continue };
            let place = files::display(&self.tree);
            let path = output.known_as();
            let path = path.strip_prefix(&self.tree).unwrap_or(path);
            error.get_or_insert_with(|| {
                Error::new(
                    ErrorCode::NotInProfile,
                    format!("{what} executed another build of {label}: build-id {recorded}, not {id}"),
                )
                .with_input(files::display(&output.path))
                .with_hint(format!(
                    "training commands run in {place}: name programs by their paths from there (./{}), make sure that libraries are found there, and do not link again",
                    files::display(path)
                ))
            });
            others.push((*label).to_owned());
        }
        match error {
            Some(error) if others.len() == labels.len() => Err(error),
            Some(error) => {
                self.ui.warn(&format!(
                    "{}; this recording is not used for the order",
                    escape::terminal(&error.to_string())
                ));
                Ok(others)
            }
            None => Ok(others),
        }
    }

    /// Makes the profile of the linked files from all training commands, and finds out which outputs are in it.
    pub(super) fn profile(&mut self, outputs: &mut [LinkedOutput]) -> Result<Profile> {
        let mut recorded = Vec::new();
        for index in 0..self.arguments.trainings().count() {
            let profile = read_profile(&self.state.path(&file_of(index)), self.ui)?;
            let others: BTreeSet<&str> = self.state.fact(&step(index))["other_builds"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|label| label.as_str())
                .collect();
            let own: BTreeSet<&str> =
                profile.dsos().keys().map(String::as_str).filter(|label| !others.contains(label)).collect();
            let profile = if others.is_empty() { profile } else { split::only(&profile, &own) };
            recorded.push((profile, Weight::ONE));
        }
        // A single recording keeps its counts.
        let merged = match recorded.len() {
            1 => recorded.swap_remove(0).0,
            _ => {
                let borrowed: Vec<_> = recorded.iter().map(|(profile, weight)| (profile, *weight)).collect();
                merge::merge(&borrowed, false)?
            }
        };
        inputs::warn_of_similar_labels(&merged, self.ui);
        links::label(outputs, &merged);
        let labels: BTreeSet<&str> = outputs.iter().filter_map(|output| output.label.as_deref()).collect();
        let stripped = |names: &[String]| {
            let message =
                format!("the build strips {}, so there are no function names to record", names.join(", "));
            Error::new(ErrorCode::Stripped, message).with_hint(UNSTRIPPED)
        };
        if labels.is_empty() {
            let names: Vec<String> = outputs.iter().map(LinkedOutput::name).collect();
            if outputs.iter().all(|output| is_stripped(&output.path)) {
                return Err(stripped(&names));
            }
            let error = Error::new(
                ErrorCode::NotInProfile,
                format!("the training commands executed none of: {}", names.join(", ")),
            )
            .with_hint("training commands run in the built tree: call the programs by their paths there");
            return Err(hint_of_stripped(error, outputs));
        }
        let profile = split::only(&merged, &labels);
        // For stripped files it contains addresses, which no order lists.
        let profile = split::named(&profile).unwrap_or(profile);
        if profile.functions().is_empty() {
            let executed = outputs.iter().filter(|output| output.label.is_some());
            return Err(stripped(&executed.map(LinkedOutput::name).collect::<Vec<_>>()));
        }
        let printed = text::print(&profile);
        let folder = files::folder(&self.state.path(entries::PROFILES))?;
        files::write(&folder.join("profile.gv"), printed.as_bytes(), self.ui)?;
        Ok(profile)
    }
}

fn stamp_of(output: &LinkedOutput) -> Option<tree::Stamp> {
    std::fs::metadata(&output.path).ok().map(|found| tree::stamp_of(&found))
}

/// Name of the profile for the recording of a training command.
fn file_of(index: usize) -> String {
    format!("training-{}.gv", index + 1)
}

/// The training commands of a request, in the order of [`OptimizeJob::record`]; true for starts.
pub(super) fn trainings(request: &Value) -> Vec<(&str, bool)> {
    let lines = |part: &str| request[part].as_array().into_iter().flatten().filter_map(Value::as_str);
    lines("train").map(|line| (line, false)).chain(lines("startup").map(|line| (line, true))).collect()
}

/// Name of the step that records a training command.
pub(super) fn step(index: usize) -> String {
    format!("training {}", index + 1)
}

/// Adds the stripped files among the outputs to an error, as its reason.
fn hint_of_stripped(error: Error, outputs: &[LinkedOutput]) -> Error {
    let stripped: Vec<String> =
        outputs.iter().filter(|output| is_stripped(&output.path)).map(LinkedOutput::name).collect();
    if stripped.is_empty() || error.kind() == ErrorKind::Interrupted {
        return error;
    }
    let why = format!("the build strips {}: {UNSTRIPPED}", stripped.join(", "));
    let hint = error.hint().map_or(why.clone(), |hint| format!("{hint}\n{why}"));
    error.with_hint(hint)
}

/// True if a file has no symbols of its own.
fn is_stripped(path: &Path) -> bool {
    let from = inputs::read_binary(path).map(|binary| binary.symbols_from);
    from.map_or(true, |from| from == SymbolSource::DynamicSymbols)
}
