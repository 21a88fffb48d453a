// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts the results into folders for users. `result` has the shipped files under their names, and the profile that
//! their level needs; `levels/LEVEL` has the files of each other level; `README` explains them. Without a shipped level
//! there is no `result`.

use super::links::LinkedOutput;
use super::recipe::{Recipe, RecipeNeeds};
use super::ship::{LevelChoice, LevelName, TriedLevel};
use super::{OptimizeJob, entries, levels, saved};
use crate::files;
use sediment_core::{Error, ErrorCode, Result, escape};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Folder of the first build's files, among the folders of the levels.
const FIRST: &str = "before";

/// Files in the folders for users.
pub(super) struct LaidOut {
    /// The shipped files, one for each output; none if nothing is shipped.
    pub(super) shipped: Vec<PathBuf>,
    /// Name and folder of each level that is not shipped; the first build comes before them.
    pub(super) others: Vec<(&'static str, PathBuf)>,
    /// The first build's files, one for each output.
    pub(super) before: Vec<PathBuf>,
    /// The profile that the shipped level needs.
    pub(super) profile: Option<PathBuf>,
    pub(super) recipe: Option<Recipe>,
}

/// Puts the files of the levels into these folders. The built tree gets the shipped files, or those of the first build.
pub(super) fn lay_out(
    job: &OptimizeJob<'_>,
    outputs: &[LinkedOutput],
    tried: &[TriedLevel],
    choice: &LevelChoice,
) -> Result<LaidOut> {
    let (result, levels) = (job.state.path(entries::RESULT), job.state.path(entries::LEVELS));
    for folder in [&result, &levels] {
        remove(folder)?;
    }
    let names = names(outputs, &job.tree);
    let profile_name = profile_name(outputs);
    let mut laid_out =
        LaidOut { shipped: Vec::new(), others: Vec::new(), before: Vec::new(), profile: None, recipe: None };
    let first = job.state.path(entries::BEFORE);
    let shipped = tried.iter().find(|level| level.is_built() && choice.level == Some(level.name));
    let in_tree = shipped.map_or(&first, |level| &level.folder);
    for (index, output) in outputs.iter().enumerate() {
        let kept = saved(in_tree, index, output)?;
        for path in output.paths() {
            files::copy(&kept, path)?;
        }
    }
    laid_out.before = put(outputs, &names, &first, &levels.join(FIRST))?;
    laid_out.others.push((FIRST, levels.join(FIRST)));
    for level in tried.iter().filter(|level| level.is_built()) {
        let is_shipped = choice.level == Some(level.name);
        let folder = if is_shipped { result.clone() } else { levels.join(level.name.text()) };
        let paths = put(outputs, &names, &level.folder, &folder)?;
        let profile = folder.join(&profile_name);
        files::write_owned(&profile, &files::read(&level.profile)?)?;
        if is_shipped {
            laid_out.recipe = Some(recipe(job, outputs, level.name, &profile)?);
            (laid_out.shipped, laid_out.profile) = (paths, Some(profile));
        } else {
            laid_out.others.push((level.name.text(), folder));
        }
    }
    Ok(laid_out)
}

/// Writes the profile for `--keep-profile`, and makes the recipe with its name.
fn recipe(
    job: &OptimizeJob<'_>,
    outputs: &[LinkedOutput],
    level: LevelName,
    profile: &Path,
) -> Result<Recipe> {
    let name = files::base_name(profile);
    let mut from = profile.strip_prefix(&job.original).unwrap_or(profile).to_path_buf();
    let mut beside = name;
    if let Some(kept) = &job.arguments.keep_profile {
        files::write(kept, &files::read(profile)?, job.ui)?;
        from.clone_from(kept);
        // A profile in the tree stays where it is.
        if kept.is_relative() && tree_relative(kept) {
            beside = kept.to_string_lossy().into_owned();
        }
    }
    let from = escape::shell(&from.to_string_lossy()).unwrap_or_else(|| files::display(&from));
    let build: Vec<String> =
        job.arguments.build.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let build = match &build[..] {
        [line] => line.clone(),
        words => words.iter().filter_map(|word| escape::shell(word)).collect::<Vec<_>>().join(" "),
    };
    Ok(Recipe::of(&RecipeNeeds {
        tree: &job.original,
        build: &build,
        level,
        compiler: levels::compiler_of(outputs),
        profile: &from,
        name: &beside,
    }))
}

/// True for a plain relative path below its folder.
fn tree_relative(path: &Path) -> bool {
    path.components().all(|part| {
        matches!(part, std::path::Component::Normal(name) if name.to_str().is_some_and(|name| escape::file_name(name).is_some()))
    })
}

/// Copies the outputs of a level into a folder, and returns their paths there.
fn put(outputs: &[LinkedOutput], names: &[PathBuf], from: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for (index, (output, name)) in outputs.iter().zip(names).enumerate() {
        let path = folder.join(name);
        files::folder(path.parent().unwrap_or(folder))?;
        files::copy(&saved(from, index, output)?, &path)?;
        paths.push(path);
    }
    Ok(paths)
}

/// Name of each output in a folder of results: its own, or its path in the tree if several have the same name.
fn names(outputs: &[LinkedOutput], tree: &Path) -> Vec<PathBuf> {
    let short: Vec<String> = outputs.iter().map(|output| files::base_name(output.known_as())).collect();
    let several: BTreeSet<&String> =
        short.iter().filter(|name| short.iter().filter(|other| other == name).count() > 1).collect();
    let whole = |output: &LinkedOutput| {
        let path = output.known_as();
        path.strip_prefix(tree).unwrap_or(path).to_path_buf()
    };
    outputs
        .iter()
        .zip(&short)
        .map(|(output, name)| if several.contains(name) { whole(output) } else { PathBuf::from(name) })
        .collect()
}

/// Name of the profile: the name of the first program among the outputs, otherwise of the first library, without a
/// version.
fn profile_name(outputs: &[LinkedOutput]) -> String {
    let is_library = |output: &&LinkedOutput| files::base_name(output.known_as()).contains(".so");
    let first = outputs.iter().find(|output| !is_library(output)).or(outputs.first());
    let name = first.map(|output| files::base_name(output.known_as())).unwrap_or_default();
    let stem = name.split('.').next().and_then(escape::file_name);
    format!("{}.gv", stem.unwrap_or_else(|| "profile".to_owned()))
}

fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::new(ErrorCode::Io, format!("cannot be removed: {error}"))
                .with_input(files::display(folder)))
        }
        _ => Ok(()),
    }
}
