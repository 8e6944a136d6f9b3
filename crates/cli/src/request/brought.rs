//! Requests in the form of another scheduler: from its commands, or from lines in a script.

use gpool_client::Client;
use gpool_model::Code;
use gpool_wire::catalogue;

use super::{Request, request, text_variables, unread_input};
use crate::args::job_flags::JobFlags;
use crate::failure::{Failure, Result};
use crate::flags;
use crate::foreign::translated::Translated;
use crate::script::Script;

/// Does the same as [`super::of_script`] for a command of another scheduler: `translation` has the
/// messages about its flags, and `output` the default file of the output.
pub fn of_brought_script(
    line: JobFlags,
    mut translation: Translated,
    output: impl Fn(&Translated) -> Option<&'static str>,
    script: &Script,
    arguments: &[String],
) -> Result<Request> {
    let variables = flags::from_variables(text_variables())?;
    let mut directives = flags::from_directives(script, &translation.source)?;
    translation.join(directives.translation, "");
    let own = line.or(variables).or(directives.own);
    // Leniency applies only to values from the foreign directives.
    directives.foreign.lenient &= own.request.0.priority.is_none()
        && own.request.0.project.is_none()
        && own.request.0.pool.is_none();
    let flags = own.or(directives.foreign);
    let mut request = of_brought(flags, &translation, output)?;
    request.job.script = Some(script.to_wire());
    request.job.command = arguments.to_vec();
    if script.path != "-" {
        request.warnings.extend(unread_input(&request.job));
    }
    Ok(request)
}

/// The request for flags, some from another scheduler; the caller adds the command.
///
/// # Errors
/// The environment or the folder is not usable; or, with `--strict`, a flag has no effect.
pub fn of_brought(
    mut flags: JobFlags,
    translation: &Translated,
    output: impl Fn(&Translated) -> Option<&'static str>,
) -> Result<Request> {
    if flags.strict {
        translation.refuse_unclear()?;
    }
    let file = output(translation);
    let job = &mut flags.request.0;
    if let (None, Some(file)) = (&job.stdout, file) {
        job.stdout = Some(file.to_owned());
    }
    if translation.joins_output && job.stderr.is_none() {
        job.stderr.clone_from(&job.stdout);
    }
    if job.notify.is_empty() {
        job.notify.extend(translation.mail.rule());
    }
    let mut request = request(flags)?;
    translation.say(&mut request.remarks, &mut request.warnings);
    if translation.signals && request.job.time.is_none() && request.deadline.is_none() {
        request.job.signal_before = None;
        request.remarks.push("--signal does nothing without a time limit (--time)".to_owned());
    }
    request.singleton = translation.singleton;
    request.pools.clone_from(&translation.pools);
    Ok(request)
}

/// The variable that lets unknown partitions and constraints pass.
const NAMES: &str = "GPOOL_SLURM_NAMES";

/// Drops a project and a priority that the caller may not use, according to a dry run: they have
/// another meaning in gpool. Unknown pools and labels are refused, as in Slurm, unless the variable
/// [`NAMES`] is `any`. The submission reports any other error.
///
/// # Errors
/// No node has the pool or the labels.
pub(super) fn drop_refused_fields(request: &mut Request, client: &Client) -> Result<()> {
    let passes = std::env::var(NAMES).is_ok_and(|value| value == "any");
    let mut pools = request.pools.iter().skip(1).cloned().collect::<Vec<_>>().into_iter();
    while let Err(error) = client.forecast(&request.job) {
        let code = error.problem().code;
        let is = |known: Code| code == known.to_string();
        let refused = |error: gpool_client::Error, flag: &str| {
            let tip = format!("{NAMES}=any drops an unknown {flag} with a warning");
            Failure::from(error).tip(tip)
        };
        if is(catalogue::PRIORITY_TOO_HIGH) && request.job.priority.take().is_some() {
            let what = "the priority is higher than users may set, and becomes 0";
            request.warnings.push(what.to_owned());
        } else if is(catalogue::NO_SUCH_PROJECT)
            && let Some(project) = request.job.project.take()
        {
            let what = format!("there is no project {project:?}; the job goes to project default");
            request.warnings.push(what);
        } else if is(catalogue::NO_SUCH_POOL)
            && let Some(pool) = request.job.pool.take()
        {
            match pools.next() {
                Some(next) => request.job.pool = Some(next),
                None if !passes => return Err(refused(error, "--partition")),
                None => request
                    .warnings
                    .push(format!("there is no pool {pool:?}; the job may run on any node")),
            }
        } else if is(catalogue::NO_SUCH_NODES) && !request.job.rules.is_empty() {
            if !passes {
                return Err(refused(error, "--constraint"));
            }
            let rules = std::mem::take(&mut request.job.rules).join(" and ");
            request.warnings.push(format!("no node has {rules}; the job may run on any node"));
        } else {
            return Ok(());
        }
    }
    Ok(())
}
