//! Services of docker-compose, each a job.
//!
//! Source: <https://docs.docker.com/reference/compose-file/>

use gpool_yaml::{Node, Value, YamlError};

use crate::compose_service::{self, Service};
use crate::interpolate;
use crate::job::{Dependency, ImportedJob};
use crate::keys::{child_path, each, map, text};
use crate::note::Notes;
use crate::order::{Dependent, order};
use crate::surroundings::Surroundings;

/// The most services of a file.
const SERVICES_MAX: usize = 1000;

const REASONS: &[(&str, &str)] = &[
    ("version", "docker-compose ignores it, too"),
    ("networks", "jobs of gpool use the network of their node"),
    ("volumes", "gpool makes no volumes; mount a folder of the node"),
    ("secrets", "gpool secret set stores a secret, and --secret NAME makes it a file"),
    ("configs", "mount a file of the node"),
    ("include", "import each file"),
    ("models", "a service can serve a model"),
];

/// The jobs of a file.
pub(crate) fn jobs(
    documents: &[Node],
    surroundings: &Surroundings<'_>,
    notes: &mut Notes,
) -> Result<Vec<ImportedJob>, YamlError> {
    let mut documents = documents.iter().filter(|node| node.value != Value::Null);
    let (first, second) = (documents.next(), documents.next());
    if let Some(second) = second {
        return Err(YamlError::new(second.line, "the file has more than one document")
            .advice("import each file of docker-compose"));
    }
    let Some(file) = first else { return Ok(Vec::new()) };
    let file = filled(file, surroundings, "", notes)?;
    let mut project = None;
    let mut services: Vec<Service> = Vec::new();
    each(&file, "", REASONS, notes, |key, value, notes| {
        match key {
            "name" => project = Some(text(value, key)?),
            "services" => {
                let entries = map(value, key)?;
                if entries.len() > SERVICES_MAX {
                    let what = format!("the file has more than {SERVICES_MAX} services");
                    return Err(YamlError::new(value.line, what));
                }
                for (name, service) in entries {
                    let path = child_path(key, &name.text);
                    let read =
                        compose_service::read(&name.text, service, &path, surroundings, notes)?;
                    services.extend(read);
                }
            }
            _ if key.starts_with("x-") => {
                notes.not_taken(value.line, key, "an extension has no effect of its own");
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if services.is_empty() {
        return Err(YamlError::new(file.line, "the file has no service to run")
            .advice("services without profiles run"));
    }
    let folder = surroundings.folder.rsplit('/').find(|part| !part.is_empty());
    let project = project.or_else(|| folder.map(str::to_owned));
    in_order(&services, project.as_deref(), notes)
}

/// Jobs in the order of their dependencies; several are a group.
fn in_order(
    services: &[Service],
    project: Option<&str>,
    notes: &mut Notes,
) -> Result<Vec<ImportedJob>, YamlError> {
    let ix_of = |name: &str| services.iter().position(|service| service.name == name);
    let mut dependents = Vec::new();
    for service in services {
        let mut needs = Vec::new();
        for need in &service.needs {
            match ix_of(&need.service) {
                Some(ix) => needs.push(ix),
                None if need.is_optional => {
                    let path = format!("services.{}.depends_on.{}", service.name, need.service);
                    notes.not_taken(need.line, &path, "the service does not run");
                }
                None => {
                    let what = format!("{} depends on {:?}", service.name, need.service);
                    return Err(YamlError::new(need.line, format!("{what}, which does not run"))
                        .advice("remove it from depends_on, or its profiles"));
                }
            }
        }
        let (line, name) = (service.job.line, service.name.clone());
        dependents.push(Dependent { line, name, needs });
    }
    let order = order(&dependents)?;
    let group = project.map(plain_name).filter(|name| services.len() > 1 && !name.is_empty());
    let mut jobs = Vec::new();
    for ix in &order {
        let service = &services[*ix];
        let mut job = service.job.clone();
        for need in &service.needs {
            let found = ix_of(&need.service);
            let place = found.and_then(|found| order.iter().position(|ix| *ix == found));
            job.after.extend(place.map(|job_ix| Dependency { kind: need.kind, job_ix }));
        }
        if let Some(group) = &group {
            job.flag("group", format!("{group}/{}", plain_name(&service.name)));
        }
        jobs.push(job);
    }
    Ok(jobs)
}

/// A name with the characters that names of groups can have.
fn plain_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    plain.trim_start_matches(['-', '.', '_']).chars().take(60).collect()
}

/// The file with its variables replaced; keys stay as they are.
fn filled(
    node: &Node,
    surroundings: &Surroundings<'_>,
    path: &str,
    notes: &mut Notes,
) -> Result<Node, YamlError> {
    let value = match &node.value {
        Value::Text(text) if text.contains('$') => {
            let filled = interpolate::fill(text, surroundings.variable)
                .map_err(|why| YamlError::new(node.line, format!("{path}: {why}")))?;
            for name in &filled.missing {
                notes.approximated(node.line, path, format!("{name} has no value, so it is empty"));
            }
            Value::Text(filled.text)
        }
        Value::List(items) => {
            let items = items.iter().map(|item| filled(item, surroundings, path, notes));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        Value::Map(entries) => {
            let mut all = Vec::new();
            for (key, value) in entries {
                let path = child_path(path, &key.text);
                all.push((key.clone(), filled(value, surroundings, &path, notes)?));
            }
            Value::Map(all)
        }
        other => other.clone(),
    };
    Ok(Node { line: node.line, value })
}
