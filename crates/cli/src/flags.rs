//! Flags of a job that are not on the command line: `GPOOL_SUBMIT_…` variables and the directives
//! of a script.

use clap::{ArgAction, Command};
use gpool_model::Compat;
use gpool_wire::json;

use crate::args::job_flags::JobFlags;
use crate::directives::{self, DirectiveKind, ScriptDirectives};
use crate::errors;
use crate::failure::{Failure, Result};
use crate::foreign::flag::PassedFlag;
use crate::foreign::translated::Translated;
use crate::foreign::{gflow, slurm};
use crate::script::Script;

const PREFIX: &str = "GPOOL_SUBMIT_";

/// Reads flags from variables: `GPOOL_SUBMIT_GPUS=1` is `--gpus 1`, `GPOOL_SUBMIT_HOLD=1` is
/// `--hold`.
///
/// # Errors
/// A variable with this prefix is not a flag, or its value is not valid.
pub fn from_variables(variables: impl Iterator<Item = (String, String)>) -> Result<JobFlags> {
    let mut flags = JobFlags::default();
    let mut set: Vec<(String, String)> =
        variables.filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty()).collect();
    set.sort();
    for (name, value) in set {
        let parser = JobFlags::parser();
        let known: Vec<(String, String, bool)> = flag_variables(&parser);
        let Some((_, flag, is_switch)) = known.iter().find(|(variable, ..)| *variable == name)
        else {
            let names = known.iter().map(|(variable, ..)| variable.as_str());
            let failure =
                Failure::new(errors::BAD_VARIABLE, format!("the variable {name} has no flag"));
            return Err(match json::nearest(&name, names) {
                Some(near) => failure.why(format!("did you mean {near}?")),
                None => failure,
            }
            .tip(format!("unset {name}")));
        };
        let word = match (is_switch, value.to_ascii_lowercase().as_str()) {
            (false, _) => format!("--{flag}={value}"),
            (true, "1" | "true" | "yes" | "on") => format!("--{flag}"),
            (true, "0" | "false" | "no" | "off") => continue,
            (true, _) => {
                return Err(Failure::new(
                    errors::BAD_VARIABLE,
                    format!("{name}={value:?} is not 1 or 0"),
                )
                .tip(format!("{name}=1, or unset it")));
            }
        };
        let read = JobFlags::read(&[word])
            .map_err(|failure| failure.at(errors::BAD_VARIABLE, &format!("variable {name}")))?;
        flags = flags.or(read);
    }
    Ok(flags)
}

/// The flags of a script's directives.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OfScript {
    /// The `# GPOOL` lines.
    pub own: JobFlags,
    /// The `# GFLOW` and `#SBATCH` lines; the former win.
    pub foreign: JobFlags,
    /// The messages about the foreign lines.
    pub translation: Translated,
}

/// Reads flags from the directives of a script; later lines win, and `given`, the flags of another
/// scheduler's command line, replace its directives.
///
/// # Errors
/// A line is not valid; the message has its number.
pub fn from_directives(script: &Script, given: &[PassedFlag]) -> Result<OfScript> {
    let path = &script.path;
    let found = directives::find(&script.bytes).map_err(|error| {
        Failure::new(errors::BAD_DIRECTIVE, format!("{path}:{}: {error}", error.line))
            .tip("# GPOOL --note 'two words'")
    })?;
    let mut all = OfScript::default();
    let mut gflow = Vec::new();
    for directive in &found.directives {
        let place = format!("{path}:{}", directive.line);
        let moved = |failure: Failure| failure.at(errors::BAD_DIRECTIVE, &place);
        let words = &directive.words;
        match directive.kind {
            DirectiveKind::Gpool => all.own = JobFlags::read(words).map_err(moved)?.or(all.own),
            DirectiveKind::Gflow => {
                let given = gflow::flags::DIRECTIVE.read_directive(words, &place);
                gflow.extend(given.map_err(moved)?);
            }
            DirectiveKind::Sbatch => {}
        }
    }
    let sbatch = slurm::translate::without_replaced(sbatch_lines(path, &found)?, given);
    all.translation = not_read(path, &found);
    for (given, kind, compat) in [
        (gflow, DirectiveKind::Gflow, Compat::Gflow),
        (sbatch, DirectiveKind::Sbatch, Compat::Slurm),
    ] {
        if given.is_empty() {
            continue;
        }
        let translation = match kind {
            DirectiveKind::Sbatch => slurm::translate::translate(&given)?,
            _ => gflow::translate::translate(&given)?,
        };
        all.foreign = all.foreign.or(translation.flags()?);
        all.foreign.request.0.compat.push(compat.as_str().to_owned());
        all.translation.join(translation, &format!("{path}: {}", kind.spelling()));
    }
    Ok(all)
}

/// The flags of a script's `#SBATCH` lines, if they are valid.
#[must_use]
pub fn of_sbatch(script: &Script) -> Vec<PassedFlag> {
    let found = directives::find(&script.bytes).unwrap_or_default();
    sbatch_lines(&script.path, &found).unwrap_or_default()
}

fn sbatch_lines(path: &str, found: &ScriptDirectives) -> Result<Vec<PassedFlag>> {
    let lines = found.directives.iter().filter(|directive| directive.kind == DirectiveKind::Sbatch);
    slurm::parts::gather(lines.map(|it| (format!("{path}:{}", it.line), &it.words[..])))
}

/// Messages about lines that look like directives and are not, one for each kind.
fn not_read(path: &str, found: &ScriptDirectives) -> Translated {
    let mut translation = Translated::default();
    let mut say = |first: Option<usize>, n: usize, word: &str, why: &str| {
        if let Some(line) = first {
            let more = if n > 1 { format!(" (and {} more)", n - 1) } else { String::new() };
            translation.misplaced.push(format!("{path}:{line}{more}: {word} {why}"));
        }
    };
    for kind in DirectiveKind::ALL {
        let late = || found.too_late.iter().filter(|(_, other)| *other == kind);
        let first = late().next().map(|(line, _)| *line);
        say(first, late().count(), kind.spelling(), "after the first command is ignored");
    }
    for (kind, why) in [
        (DirectiveKind::Sbatch, "is only read as #SBATCH in the first column, as in Slurm"),
        (DirectiveKind::Gflow, "is only read as \"# GFLOW\" in the first column, as in gflow"),
    ] {
        let comments = || found.comments.iter().filter(|(_, other)| *other == kind);
        let first = comments().next().map(|(line, _)| *line);
        say(first, comments().count(), kind.word(), why);
    }
    translation
}

/// The variable of each flag, the flag, and whether it is a switch.
fn flag_variables(parser: &Command) -> Vec<(String, String, bool)> {
    let long = |arg: &clap::Arg| {
        let long = arg.get_long()?.to_owned();
        let variable = format!("{PREFIX}{}", long.to_ascii_uppercase().replace('-', "_"));
        Some((variable, long, matches!(arg.get_action(), ArgAction::SetTrue)))
    };
    parser.get_arguments().filter_map(long).collect()
}
