//! `gpool vh exec run`: submits a step as a job.

use std::path::{Path, PathBuf};

use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_client::Client;
use gpool_valohai::command::{Values, script};
use gpool_valohai::config::{Config, Input, KeptFolders, Step};
use gpool_valohai::request::StepRequest;
use gpool_valohai::source::{Prefixes, Source, find, prefix};
use gpool_valohai::yaml::scalar;

use crate::failure::invalid;
use crate::options::{RunFlags, RunLine};
use crate::plan::{Folders, Members, Plan, PlannedInput, PlannedMount, PlannedSource};
use crate::{config_files, environments, file, folder, inputs};

/// Values of parameters, and sources of inputs by name.
struct StepValues {
    parameters: Values,
    inputs: Vec<(String, Vec<String>)>,
}

/// An execution before it has a folder.
pub struct Draft {
    pub request: StepRequest,
    /// The image to run in; `None` means the host.
    pub image: Option<String>,
    /// The pool of its environment.
    pub pool: Option<String>,
    pub plan: Plan,
}

/// Runs a step.
///
/// # Errors
/// The file, a value or the server refuses.
pub fn run(name: &str, line: &RunLine, session: &Session) -> Result {
    let flags = &line.flags;
    let project = file::project(&flags.yaml)?;
    let (config, warnings) = read(&project, flags)?;
    warnings.iter().for_each(|warning| session.screen.warn(&safe(warning)));
    let step = file::step(&config, name, &flags.yaml)?;
    let client = session.client()?;
    let mut draft = draft(step, line, &project, &client, session)?;
    // A dry run copies no files.
    if flags.dry_run {
        return session.verb(&words(step, flags, &draft, Path::new("/valohai"), &client)?);
    }
    let folder = folder::create()?;
    fill(&mut draft, flags, &project, &folder)?;
    session.verb(&words(step, flags, &draft, &folder, &client)?)
}

/// The execution of a step with the values of a command line.
///
/// # Errors
/// A value is missing or does not fit, there is no pool for the environment, or the server does not
/// answer.
pub fn draft(
    step: &Step,
    line: &RunLine,
    project: &Path,
    client: &Client,
    session: &Session,
) -> Result<Draft> {
    let flags = &line.flags;
    let values = values(step, line)?;
    let variables = variables(&flags.var)?;
    let exported = std::env::var("VH_GPUS").ok();
    let is_in_job = std::env::var_os("GPOOL_JOB_ID").is_some();
    let exported = exported.as_deref().filter(|_| !is_in_job);
    let request = step
        .request(&variables, exported)
        .map_err(|why| invalid(format!("step {:?}: {why}", step.name)))?;
    let image = image(step, flags, client, session)?.map(str::to_owned);
    let pool = pool(step, flags, project, client)?;
    let plan = plan(step, flags, &values, project)?;
    Ok(Draft { request, image, pool, plan })
}

/// Brings the files of the project into the folder of an execution, and for a container those of
/// its inputs.
///
/// # Errors
/// A file can't be read or written.
pub fn fill(draft: &mut Draft, flags: &RunFlags, project: &Path, folder: &Path) -> Result<()> {
    if flags.adhoc {
        folder::copy_tree(project, &folder.join("repository"))?;
    } else {
        let commit = flags.commit.as_deref().unwrap_or("HEAD");
        draft.plan.commit = folder::check_out(project, commit, &folder.join("repository"))?;
    }
    folder::write(folder, &draft.plan)?;
    if draft.image.is_some() {
        // The container has no runner, so its inputs are there before.
        let files =
            inputs::prepare(&draft.plan, folder, inputs::Place::Container).map_err(invalid)?;
        config_files::write(&draft.plan, &folder.join("config"), &files, None, None)
            .map_err(invalid)?;
    }
    Ok(())
}

/// The items of the file, in the working tree or in the commit, with warnings about it.
///
/// # Errors
/// The file has errors, or there is no such commit.
pub fn read(project: &Path, flags: &RunFlags) -> Result<(Config, Vec<String>)> {
    if flags.adhoc {
        return file::config(&file::text(&project.join(&flags.yaml))?, &flags.yaml);
    }
    let commit = flags.commit.as_deref().unwrap_or("HEAD");
    match folder::git(project, &["show", &format!("{commit}:./{}", flags.yaml)]) {
        Some(text) => file::config(&text, &flags.yaml),
        None => Err(invalid(format!("there is no {} in commit {commit:?}", flags.yaml))
            .why("without --adhoc, an execution runs the files of a commit")
            .tip("gpool vh exec run STEP --adhoc   (for the files of the working tree)")),
    }
}

fn variables(words: &[String]) -> Result<Vec<(String, String)>> {
    let pair = |word: &String| match word.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(invalid(format!("--var {word:?} is not NAME=VALUE")).tip("--var VH_GPUS=2")),
    };
    words.iter().map(pair).collect()
}

/// Sorts the options into parameters and inputs, and checks that nothing is missing.
fn values(step: &Step, line: &RunLine) -> Result<StepValues> {
    let mut texts: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, value) in &line.options {
        let is_known = step.parameters.iter().any(|it| it.name == *name)
            || step.inputs.iter().any(|it| it.name == *name);
        if !is_known {
            return Err(unknown_option(step, name));
        }
        let value = value.clone();
        match texts.iter_mut().find(|(own, _)| own == name) {
            Some((_, values)) => values.extend(value),
            None => texts.push((name, value.into_iter().collect())),
        }
    }
    let mut parameters = step.defaults();
    let find = |name: &str| texts.iter().find(|(own, _)| *own == name).map(|(_, values)| values);
    for parameter in &step.parameters {
        let Some(values) = find(&parameter.name) else {
            let is_there = parameter.default.is_some() || parameter.is_optional;
            if !is_there {
                let what = format!("step {:?} needs the parameter {:?}", step.name, parameter.name);
                return Err(invalid(what).tip(format!("--{}=VALUE", parameter.name)));
            }
            continue;
        };
        // A flag without a value is true.
        let is_flag = parameter.kind == gpool_valohai::parameter::ParameterType::Flag;
        let values =
            if is_flag && values.is_empty() { vec!["true".to_owned()] } else { values.clone() };
        let value = parameter
            .value(&values)
            .map_err(|why| invalid(format!("--{}: {why}", parameter.name)))?;
        parameters.push((parameter.name.clone(), value));
    }
    let mut inputs = Vec::new();
    for input in &step.inputs {
        let sources = find(&input.name).cloned().unwrap_or_else(|| input.sources.clone());
        if sources.is_empty() && !input.is_optional {
            let what = format!("step {:?} needs the input {:?}", step.name, input.name);
            return Err(invalid(what).tip(format!("--{}=/PATH", input.name)));
        }
        inputs.push((input.name.clone(), sources));
    }
    Ok(StepValues { parameters, inputs })
}

fn unknown_option(step: &Step, name: &str) -> Failure {
    let parameters = step.parameters.iter().map(|it| it.name.as_str());
    let names: Vec<&str> =
        parameters.chain(step.inputs.iter().map(|it| it.name.as_str())).collect();
    let failure = invalid(format!("step {:?} has no parameter or input {name:?}", step.name));
    match names.is_empty() {
        true => failure.why("it has none"),
        false => failure.why(format!("it has {}", names.join(", "))),
    }
}

/// The image to run in; `None` means the host.
fn image<'a>(
    step: &'a Step,
    flags: &'a RunFlags,
    client: &Client,
    session: &Session,
) -> Result<Option<&'a str>> {
    if flags.no_image {
        return Ok(None);
    }
    let image = flags.image.as_deref().unwrap_or(&step.image);
    let nodes = client.nodes()?.items;
    if nodes.iter().any(|node| node.container_engine.is_some()) {
        return Ok(Some(image));
    }
    let image = safe(image);
    session.screen.note(&format!(
        "note: the step runs on the host, not in {image}: no node has a container engine"
    ));
    Ok(None)
}

fn plan(step: &Step, flags: &RunFlags, values: &StepValues, project: &Path) -> Result<Plan> {
    let prefixes: Prefixes = flags
        .prefix
        .iter()
        .map(|text| prefix(text))
        .collect::<std::result::Result<_, _>>()
        .map_err(|why| invalid(format!("--prefix: {why}")))?;
    let sources = |input: &Input| -> Result<Vec<PlannedSource>> {
        let own = values.inputs.iter().find(|(name, _)| *name == input.name);
        let addresses = own.map(|(_, sources)| sources.as_slice()).unwrap_or_default();
        addresses.iter().map(|address| source(address, input, flags, &prefixes)).collect()
    };
    let inputs = step.inputs.iter().map(|input| {
        Ok(PlannedInput {
            name: input.name.clone(),
            filename: input.filename.clone(),
            folders: match input.folders {
                KeptFolders::None => Folders::None,
                KeptFolders::Full => Folders::Full,
                KeptFolders::Suffix => Folders::Suffix,
            },
            sources: sources(input)?,
        })
    });
    let mut mounts = Vec::new();
    for mount in &step.mounts {
        if let Some(kind) = &mount.kind {
            let what =
                format!("line {}: gpool does not mount file systems of type {kind:?}", mount.line);
            return Err(invalid(what).why("it mounts paths of the node"));
        }
        let (source, target) = (mount.source.clone(), mount.target.clone());
        mounts.push(PlannedMount { source, target, is_readonly: mount.is_readonly });
    }
    let parameters = values.parameters.iter();
    Ok(Plan {
        step: step.name.clone(),
        title: flags.title.clone().unwrap_or_else(|| step.name.clone()),
        commit: "adhoc".to_owned(),
        script: script(&step.command_lines(&values.parameters)),
        parameters: parameters.map(|(name, it)| (name.clone(), scalar::json(it))).collect(),
        inputs: inputs.collect::<Result<_>>()?,
        mounts,
        venv: folder::venv(project)?.display().to_string(),
        late: Vec::new(),
        members: Members::One,
    })
}

fn source(
    address: &str,
    input: &Input,
    flags: &RunFlags,
    prefixes: &Prefixes,
) -> Result<PlannedSource> {
    let path = match find(address, prefixes) {
        Ok(Source::Path(path)) => Some(path),
        Ok(Source::Web(_)) => None,
        Err(why) => {
            let (yaml, line, name) = (&flags.yaml, input.line, &input.name);
            let is_written = input.sources.iter().any(|own| own == address);
            let place = if is_written { format!("{yaml}, line {line}: ") } else { String::new() };
            return Err(invalid(format!("{place}input {name:?}: {address:?}: {why}"))
                .tip(format!("--{name}=/PATH")));
        }
    };
    Ok(PlannedSource { address: address.to_owned(), path })
}

/// The command line of gpool for the job.
///
/// # Errors
/// The server does not answer.
pub fn words(
    step: &Step,
    flags: &RunFlags,
    draft: &Draft,
    folder: &Path,
    client: &Client,
) -> Result<Vec<String>> {
    let (request, image) = (&draft.request, draft.image.as_deref());
    let verb = if flags.watch && !flags.dry_run { "run" } else { "submit" };
    let title = flags.title.as_deref().unwrap_or("vh exec run");
    let mut words: Vec<String> = vec![verb.to_owned()];
    let mut add = |flag: &str, value: &str| words.push(format!("{flag}={value}"));
    add("--name", &step.name);
    add("--note", title);
    add("--compat", "valohai");
    add("--gpus", &gpus(request, client)?);
    let optional = [
        ("--cpus", &request.cpus),
        ("--mem", &request.memory),
        ("--time", if flags.time_limit.is_some() { &flags.time_limit } else { &request.time }),
        ("--pool", &draft.pool),
        ("--priority", &flags.priority),
        ("--project", &flags.project),
    ];
    for (flag, value) in optional {
        if let Some(value) = value {
            add(flag, value);
        }
    }
    for (name, value) in &request.variables {
        add("--env", &format!("{name}={value}"));
    }
    if !flags.dry_run {
        add("--cwd", &folder.join("repository").display().to_string());
    }
    if let Some(image) = image {
        add("--image", image);
        add("--workdir", "/valohai/repository");
        add("--mount", &format!("{}:/valohai", folder.display()));
        for mount in &step.mounts {
            let end = if mount.is_readonly { ":ro" } else { "" };
            add("--mount", &format!("{}:{}{end}", mount.source, mount.target));
        }
        for (name, path) in crate::host::folders(Path::new("/valohai")) {
            add("--env", &format!("{name}={path}"));
        }
    }
    if step.is_restarted {
        words.push("--requeue".to_owned());
    }
    if flags.dry_run {
        words.push("--dry-run".to_owned());
    }
    words.push("--".to_owned());
    match image {
        Some(_) => words.extend(["/bin/sh", "/valohai/run.sh"].map(str::to_owned)),
        None => {
            let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("gpool"));
            words.extend([program.display().to_string(), crate::host::VERB.to_owned()]);
            words.push(folder.display().to_string());
        }
    }
    Ok(words)
}

/// The GPUs of the request. Without any, an execution has one GPU where the cluster has GPUs, as on
/// Valohai.
fn gpus(request: &StepRequest, client: &Client) -> Result<String> {
    match &request.gpus {
        Some(gpus) => Ok(gpus.clone()),
        None => {
            let has_gpus = client.nodes()?.items.iter().any(|node| node.n_gpus > 0);
            Ok(if has_gpus { "1" } else { "0" }.to_owned())
        }
    }
}

/// The pool of the environment: by a flag, by the project, or the pool of the same name.
fn pool(step: &Step, flags: &RunFlags, project: &Path, client: &Client) -> Result<Option<String>> {
    let chosen = flags.environment.as_ref();
    let Some(environment) = chosen.or(step.environment.as_ref()) else { return Ok(None) };
    for text in &flags.environment_pool {
        let Some((name, pool)) = text.split_once('=') else {
            let what = format!("--environment-pool {text:?} is not ENVIRONMENT=POOL");
            return Err(invalid(what).tip(format!("--environment-pool {environment}=POOL")));
        };
        if name == environment {
            return Ok(Some(pool.to_owned()));
        }
    }
    if let Some(pool) = environments::pool(project, environment)? {
        return Ok(Some(pool));
    }
    let pools = client.pools()?.items;
    if pools.iter().any(|pool| pool.name == *environment) {
        return Ok(Some(environment.clone()));
    }
    let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
    Err(invalid(format!("there is no pool for the environment {environment:?}"))
        .why(format!("the pools are {}", names.join(", ")))
        .tip(format!("--environment-pool {environment}=POOL, or table environments of gpool.toml")))
}
