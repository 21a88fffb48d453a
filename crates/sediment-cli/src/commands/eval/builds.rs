// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of an experiment: existing ones, or built and linked according to the plan. Each link gets its own random
//! layout.

use crate::files::{self, JournalFile, SystemFiles};
use crate::padding_object;
use crate::ui::Ui;
use sediment_core::binary::Binary;
use sediment_core::random::Generator;
use sediment_core::{Error, ErrorCode, Result};
use sediment_eval::LEAST_LINKS;
use sediment_eval::plan::{self, CommandLine, Placeholders, Plan, PlannedVariant, ProgramSource};
use sediment_eval::run::Journal;
use sediment_eval::run::journal::{self, RecordedExperiment};
use sediment_measure::padding;
use sediment_process::command::{Outcome, observe};
use sediment_process::{Command, Stop};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Programs by variant and replica.
pub(super) type VariantPrograms = Vec<Vec<PathBuf>>;

/// First id of random streams for links; streams for blocks have lower ids.
const LINKS: u64 = 1 << 40;

/// Folder for an experiment's programs, next to its file.
pub(super) fn folder_beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".build");
    PathBuf::from(name)
}

/// Finds or makes all programs. Programs made in an earlier session must be unchanged.
pub(super) fn programs(
    plan: &Plan,
    folder: &Path,
    work: &Path,
    recorded: &RecordedExperiment,
    stop: &Stop,
    file: &mut JournalFile,
    ui: &Ui,
) -> Result<VariantPrograms> {
    let maker = Maker { plan, folder, work, seed: recorded.experiment.seed, stop, ui };
    let count: u32 = plan.variants.iter().map(|variant| variant.replicas).sum();
    let bar = ui.progress(u64::from(count));
    let mut all: VariantPrograms = Vec::new();
    for (index, variant) in plan.variants.iter().enumerate() {
        let (mut made, mut sums) = (Vec::new(), BTreeSet::new());
        for replica in 0..variant.replicas {
            bar.set_message(format!("programs: {}", variant.name));
            let known = recorded.programs.get(&(index, replica)).map(String::as_str);
            let path = match (&variant.source, all.get(plan.baseline)) {
                (ProgramSource::Baseline(0), Some(baseline)) => baseline[0].clone(),
                (ProgramSource::Baseline(of), _) => maker.program(plan.baseline, *of, known)?,
                _ => maker.program(index, replica, known)?,
            };
            let sha256 = plan::sha256(&files::read(&path)?);
            match known {
                Some(known) if known != sha256 => {
                    return Err(Error::new(
                        ErrorCode::WrongBinary,
                        format!("the program of {} changed since it was measured", variant.name),
                    )
                    .with_input(files::display(&path))
                    .with_hint(
                        "start a new experiment, because runs of different programs cannot be mixed",
                    ));
                }
                Some(_) => {}
                None => file.append(&journal::program(index, replica, &sha256))?,
            }
            made.push(path);
            sums.insert(sha256);
            bar.inc(1);
        }
        if sums.len() == 1 && variant.replicas >= LEAST_LINKS {
            refuse_copies(variant, ui)?;
        }
        all.push(made);
    }
    bar.finish_and_clear();
    Ok(all)
}

/// If all links are the same file, they have no random layouts. Two random paddings may be equal.
fn refuse_copies(variant: &PlannedVariant, ui: &Ui) -> Result<()> {
    let PlannedVariant { name, replicas, source, .. } = variant;
    if matches!(source, ProgramSource::Prebuilt(_)) {
        ui.warn(&format!(
            "the {replicas} programs of {name} are the same file, so they show no effect of layout"
        ));
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::ProgramFailed,
        format!(
            "the {replicas} links of {name} are the same: the linker dropped the padding, or ignored the seed"
        ),
    )
    .with_hint("with -Wl,--gc-sections, add -Wl,-u,sediment_eval_padding to the link command"))
}

/// Facts about the programs for the report: the build-id, otherwise the beginning of the SHA-256 sum.
pub(super) fn facts(plan: &Plan, programs: &VariantPrograms) -> Result<Vec<(String, String)>> {
    let mut facts = Vec::new();
    for (variant, paths) in plan.variants.iter().zip(programs) {
        if variant.probe.is_some() {
            continue;
        }
        let mut ids = Vec::new();
        for path in paths {
            let bytes = files::read(path)?;
            let build_id =
                Binary::parse(&bytes, &SystemFiles::default()).ok().and_then(|binary| binary.build_id);
            ids.push(match build_id {
                Some(id) => format!("build-id {}", id.chars().take(16).collect::<String>()),
                None => format!("SHA-256 {}", plan::sha256(&bytes).chars().take(16).collect::<String>()),
            });
        }
        facts.push((format!("program of {}", variant.name), ids.join(", ")));
        if !variant.arguments.is_empty() {
            facts.push((format!("arguments of {}", variant.name), variant.arguments.join(" ")));
        }
        if !variant.flags.is_empty() {
            facts.push((format!("flags of {}", variant.name), variant.flags.clone()));
        }
    }
    Ok(facts)
}

struct Maker<'a> {
    plan: &'a Plan,
    folder: &'a Path,
    work: &'a Path,
    seed: u64,
    stop: &'a Stop,
    ui: &'a Ui,
}

impl Maker<'_> {
    /// Returns the program of a link; makes it unless an earlier session did.
    fn program(&self, index: usize, replica: u32, known: Option<&str>) -> Result<PathBuf> {
        let variant = &self.plan.variants[index];
        match &variant.source {
            ProgramSource::Prebuilt(paths) => {
                let path = self.folder.join(&paths[replica as usize]);
                if !path.is_file() {
                    return Err(Error::new(
                        ErrorCode::NotFound,
                        format!("program of variant {} not found", variant.name),
                    )
                    .with_input(files::display(&path)));
                }
                Ok(path)
            }
            ProgramSource::Built { command, link, folder } => self.built(
                index,
                replica,
                known,
                (command.as_ref(), link.as_ref()),
                &self.folder.join(folder),
            ),
            ProgramSource::Spec { spec, program } => {
                self.packaged(index, known, &self.folder.join(spec), program)
            }
            ProgramSource::Baseline(_) | ProgramSource::None => {
                Err(Error::new(ErrorCode::NotFound, "this variant has no program"))
            }
        }
    }

    /// Returns a folder for one variant; all names have the same length, so that the lengths of paths do not differ.
    fn place(&self, index: usize) -> Result<PathBuf> {
        files::folder(&self.work.join(format!("variant-{index:03}")))
    }

    fn built(
        &self,
        index: usize,
        replica: u32,
        known: Option<&str>,
        (command, link): (Option<&CommandLine>, Option<&CommandLine>),
        folder: &Path,
    ) -> Result<PathBuf> {
        let variant = &self.plan.variants[index];
        let place = self.place(index)?;
        let output = place.join(format!("program-{replica:03}"));
        if known.is_some() && output.is_file() {
            return Ok(output);
        }
        let mut luck = Generator::stream(self.seed, LINKS + ((index as u64) << 20) + u64::from(replica));
        let objects = place.join("objects");
        let padding_object = place.join(format!("padding-{replica:03}.o"));
        let values = Placeholders::default()
            .with("output", output.to_string_lossy())
            .with("objects", objects.to_string_lossy())
            .with("padding_object", padding_object.to_string_lossy())
            .with("seed", (luck.draw() >> 33).to_string())
            .with("variant", variant.name.as_str())
            .with("replica", replica.to_string())
            .with("folder", self.folder.to_string_lossy())
            .with_words("flags", variant.flags.split_whitespace().map(str::to_owned));
        let mentions =
            |name| command.is_some_and(|c| c.mentions(name)) || link.is_some_and(|l| l.mentions(name));
        if mentions("padding_object") {
            padding_object::make(
                &padding_object,
                &self.plan.padding_section,
                padding::draw(&mut luck),
                self.stop,
            )?;
        }
        // Without a link command, the build itself makes the program. Before the first link, a file there is an old
        // one.
        let once = place.join("built");
        if let Some(command) = command.filter(|_| link.is_none() || replica == 0 || !once.is_file()) {
            files::folder(&objects)?;
            self.run(command, &values, folder, &variant.name, "build")?;
            if link.is_some() {
                files::write(&once, b"", self.ui)?;
            }
        }
        if let Some(link) = link {
            self.run(link, &values, folder, &variant.name, "link")?;
        }
        if !output.is_file() {
            return Err(Error::new(
                ErrorCode::ProgramFailed,
                format!("the build of {} succeeded but wrote no program", variant.name),
            )
            .with_hint("the command must write to {output}, or to $SEDIMENT_EVAL_OUTPUT"));
        }
        Ok(output)
    }

    fn run(
        &self,
        line: &CommandLine,
        values: &Placeholders,
        folder: &Path,
        variant: &str,
        what: &str,
    ) -> Result<()> {
        let mut words = line.fill(values)?.into_iter();
        let limit = Duration::from_secs_f64(self.plan.build_time_limit);
        let mut command = Command::new(words.next().unwrap_or_default(), folder, limit)
            .with_arguments(words)
            .stopped_by(self.stop);
        command.environment = values.environment().map(|(name, value)| (name.into(), value.into())).collect();
        let ended = observe(&command, 1 << 20)?;
        if ended.outcome == Outcome::Exited(0) {
            return Ok(());
        }
        let said = ended.last_lines(12);
        let error = match ended.successful(&command) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        if error.kind() == sediment_core::ErrorKind::Interrupted {
            return Err(error);
        }
        let hint = if said.is_empty() { "it printed nothing".to_owned() } else { said.join("\n") };
        Err(Error::new(ErrorCode::ProgramFailed, format!("the {what} of {variant} failed: {error}"))
            .with_hint(hint))
    }

    /// Builds the packages of a spec file and unpacks them.
    fn packaged(&self, index: usize, known: Option<&str>, spec: &Path, program: &str) -> Result<PathBuf> {
        let variant = &self.plan.variants[index];
        let place = self.place(index)?;
        let output = place.join("root").join(program.trim_start_matches('/'));
        if known.is_some() && output.is_file() {
            return Ok(output);
        }
        let values = Placeholders::default()
            .with("spec", spec.to_string_lossy())
            .with("sources", spec.parent().unwrap_or(Path::new(".")).to_string_lossy())
            .with("top", place.join("rpmbuild").to_string_lossy())
            .with("root", place.join("root").to_string_lossy())
            .with_words("flags", variant.flags.split_whitespace().map(str::to_owned));
        let build = CommandLine::Shell(
            // Few systems without RPM packages have cpio; rpm2archive exists since rpm 4.12.
            "rpmbuild -bb --define \"_topdir \"{top} --define \"_sourcedir \"{sources} {flags} {spec} && mkdir -p {root} && \
             cd {root} && find {top}/RPMS -name '*.rpm' | sort | while read -r package; do \
             if command -v cpio >/dev/null; then rpm2cpio \"$package\" | cpio -idm --quiet; \
             else rpm2archive - <\"$package\" | tar -xz; fi || exit 1; done"
                .to_owned(),
        );
        self.run(&build, &values, self.folder, &variant.name, "package build")?;
        if !output.is_file() {
            return Err(Error::new(
                ErrorCode::NotFound,
                format!("the packages of {} do not contain this program", variant.name),
            )
            .with_input(program.to_owned()));
        }
        Ok(output)
    }
}
