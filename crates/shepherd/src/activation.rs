//! Activates software environments (venv, conda, modules) for a job: sets the variables that their
//! own tools set, and wraps the command in a shell where scripts must run. Pure.

use std::collections::BTreeMap;

use gpool_model::Activation;

pub type Variables = BTreeMap<Vec<u8>, Vec<u8>>;

/// Adds the variables of the activated environments to a job's variables.
pub fn apply(activate: &[Activation], mut variables: Variables) -> Variables {
    for activation in activate {
        let (path, own) = match activation {
            Activation::Conda(path) => {
                let name = path.rsplit('/').next().unwrap_or(path);
                let own = [
                    ("CONDA_PREFIX", path.as_str()),
                    ("CONDA_DEFAULT_ENV", name),
                    ("CONDA_SHLVL", "1"),
                ];
                (path, own.to_vec())
            }
            Activation::Venv(path) => (path, vec![("VIRTUAL_ENV", path.as_str())]),
            // Only the module scripts know which variables they set.
            Activation::Modules { .. } => continue,
        };
        for (name, value) in own {
            variables.insert(name.into(), value.into());
        }
        // These belong to another Python, or to an environment that was active at submission.
        let others: &[&str] = match activation {
            Activation::Conda(_) => &["PYTHONHOME", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT"],
            _ => &["PYTHONHOME"],
        };
        for other in others {
            variables.remove(other.as_bytes());
        }
        let mut search = format!("{path}/bin").into_bytes();
        if let Some(rest) = variables.get(&b"PATH"[..]).filter(|rest| !rest.is_empty()) {
            search.push(b':');
            search.extend_from_slice(rest);
        }
        variables.insert(b"PATH".to_vec(), search);
    }
    variables
}

/// Runs the scripts that packages in a conda environment provide for activation.
const CONDA_SCRIPTS: &str = r#"for gpool_it in "$CONDA_PREFIX"/etc/conda/activate.d/*.sh; do
[ -r "$gpool_it" ] && . "$gpool_it"; done; unset gpool_it"#;

/// Wraps a command in a shell if an activated environment has scripts to run. Returns whether it
/// did.
pub fn wrap(activate: &[Activation], command: &mut Vec<String>) -> bool {
    let mut shell = "/bin/sh";
    let (mut lines, mut pythons) = (Vec::new(), Vec::new());
    for activation in activate {
        match activation {
            Activation::Modules { init, names } => {
                if init.ends_with("/bash") {
                    shell = "/bin/bash";
                }
                lines.push(format!(". {}", quoted(init)));
                let load = |name: &String| format!("module load {} || exit 1", quoted(name));
                lines.extend(names.iter().map(load));
            }
            python => pythons.push(python),
        }
    }
    let has_modules = !lines.is_empty();
    for python in pythons {
        if has_modules {
            // Loading the modules has put their folders in front of it.
            lines.push(format!("export PATH={}/bin:\"$PATH\"", quoted(python.path())));
        }
        if matches!(python, Activation::Conda(_)) {
            lines.push(CONDA_SCRIPTS.to_owned());
        }
    }
    if lines.is_empty() {
        return false;
    }
    lines.push("exec \"$@\"".to_owned());
    let before = [shell, "-c", &lines.join("\n"), "gpool"].map(str::to_owned);
    command.splice(0..0, before);
    true
}

/// Quotes a word so that a shell takes it literally.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
