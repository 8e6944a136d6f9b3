//! Finds conda environments in the usual folders. It does not run conda, which takes longer than a
//! submission.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use gpool_wire::Activate;
use gpool_wire::json::nearest;

use super::text;
use crate::errors;
use crate::failure::{Failure, Result};

/// The usual folders of installers, below the home folder.
const USUAL_HOMES: [&str; 7] = [
    "miniconda3",
    "anaconda3",
    "miniforge3",
    "mambaforge",
    "micromamba",
    ".conda",
    ".local/share/mamba",
];
/// The usual folders of administrators.
const USUAL_ROOTS: [&str; 4] =
    ["/opt/conda", "/opt/miniconda3", "/opt/anaconda3", "/opt/miniforge3"];

/// Finds an environment by its name or folder.
pub fn find(name: &str, directory: &Path, may_be_made: bool) -> Result<Activate> {
    if name.contains('/') {
        let folder = directory.join(name);
        if !is_environment(&folder) && !may_be_made {
            let what = format!("{} is not a conda environment", folder.display());
            return Err(Failure::new(errors::NO_SOFTWARE, what)
                .why("it has no folder conda-meta")
                .tip(format!("--setup 'conda create -y -p {name} python'")));
        }
        return Ok(Activate::Conda(text(&folder)?));
    }
    let known = environments(&Places::of_this_process());
    match known.get(name) {
        Some(folder) => Ok(Activate::Conda(text(folder)?)),
        None => Err(absent(name, &known)),
    }
}

/// The failure for an environment that is not there, with the nearest name.
pub fn absent(name: &str, known: &BTreeMap<String, PathBuf>) -> Failure {
    let failure =
        Failure::new(errors::NO_SOFTWARE, format!("there is no conda environment {name:?}"));
    if known.is_empty() {
        return failure
            .why("found no conda in CONDA_EXE or the usual folders")
            .tip("--conda /path/to/envs/NAME");
    }
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    let failure = failure.why(format!("the choices are {}", names.join(", ")));
    match nearest(name, names.iter().copied()) {
        Some(near) => failure.tip(format!("--conda {near}")),
        None => failure.tip(format!("conda create -n {name}, or --conda /path/to/it")),
    }
}

/// The folders to search.
pub struct Places {
    pub home: Option<PathBuf>,
    /// Folders with environments.
    pub envs: Vec<PathBuf>,
    /// Installations.
    pub roots: Vec<PathBuf>,
}

impl Places {
    fn of_this_process() -> Self {
        let path = |name: &str| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let listed = ["CONDA_ENVS_PATH", "CONDA_ENVS_DIRS"].into_iter().filter_map(env::var_os);
        let envs = listed.flat_map(|list| env::split_paths(&list).collect::<Vec<_>>()).collect();
        let above = |exe: PathBuf| Some(exe.parent()?.parent()?.to_owned());
        // An active environment is in its installation, or is the installation.
        let around = |prefix: PathBuf| {
            let folder = prefix.parent()?;
            let is_in_envs = folder.file_name().is_some_and(|name| name == "envs");
            Some(if is_in_envs { folder.parent()?.to_owned() } else { prefix })
        };
        let home = path("HOME");
        let mut roots: Vec<PathBuf> = [
            path("CONDA_EXE").and_then(above),
            path("MAMBA_ROOT_PREFIX"),
            path("CONDA_PREFIX_1").and_then(around),
            path("CONDA_PREFIX").and_then(around),
        ]
        .into_iter()
        .flatten()
        .collect();
        roots.extend(home.iter().flat_map(|home| USUAL_HOMES.map(|name| home.join(name))));
        roots.extend(USUAL_ROOTS.map(PathBuf::from));
        Self { home, envs, roots }
    }
}

/// Every environment by name; the first of equal names, as in conda.
pub fn environments(places: &Places) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut add = |folder: PathBuf, name: Option<String>| {
        let own = || folder.file_name()?.to_str().map(str::to_owned);
        if let Some(name) = name.or_else(own)
            && is_environment(&folder)
        {
            found.entry(name).or_insert(folder);
        }
    };
    let folders = places.envs.iter().cloned().chain(places.roots.iter().map(|it| it.join("envs")));
    for folder in folders {
        let mut below: Vec<PathBuf> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path()).collect();
        below.sort();
        below.into_iter().for_each(|folder| add(folder, None));
    }
    for root in &places.roots {
        add(root.clone(), Some("base".to_owned()));
    }
    let list = places.home.as_ref().map(|home| home.join(".conda/environments.txt"));
    let list = list.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    for line in list.lines().map(str::trim).filter(|line| line.starts_with('/')) {
        let folder = PathBuf::from(line);
        // Installations are listed too, but have another name.
        if !folder.join("envs").is_dir() {
            add(folder, None);
        }
    }
    found
}

fn is_environment(folder: &Path) -> bool {
    folder.join("conda-meta").is_dir()
}
