//! Making software active for a job, as its own tools do: what they set in the environment, and
//! the shell that runs what they have as scripts. Pure.

use std::collections::BTreeMap;

use gpool_model::Activation;

/// A job's variables by name.
type Variables = BTreeMap<Vec<u8>, Vec<u8>>;

/// A job's variables with what is made active.
pub(crate) fn apply(activate: &[Activation], mut variables: Variables) -> Variables {
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
            // What they set is only known to their scripts.
            Activation::Modules { .. } => continue,
        };
        for (name, value) in own {
            variables.insert(name.into(), value.into());
        }
        // Of another Python, or of one that was active where the job was submitted.
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

/// What conda's own activation runs of packages in an environment.
const CONDA_SCRIPTS: &str = r#"for gpool_it in "$CONDA_PREFIX"/etc/conda/activate.d/*.sh; do
[ -r "$gpool_it" ] && . "$gpool_it"; done; unset gpool_it"#;

/// Puts a shell before a command, where what is made active has scripts to run in one; says whether
/// it has.
pub(crate) fn wrap(activate: &[Activation], command: &mut Vec<String>) -> bool {
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
            // Modules have put theirs before it.
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

/// A word for a shell to take as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(of: &[(&str, &str)]) -> Variables {
        of.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn a_venv_goes_before_all_else_in_the_path() {
        let before = variables(&[("PATH", "/bin"), ("PYTHONHOME", "/x"), ("A", "b")]);
        let made = apply(&[Activation::Venv("/p/.venv".to_owned())], before);
        let expected =
            variables(&[("PATH", "/p/.venv/bin:/bin"), ("VIRTUAL_ENV", "/p/.venv"), ("A", "b")]);
        assert_eq!(made, expected);
        let mut command = vec!["python".to_owned()];
        assert!(!wrap(&[Activation::Venv("/p/.venv".to_owned())], &mut command));
        assert_eq!(command, ["python"]);
    }

    #[test]
    fn conda_has_its_variables_and_the_venv_of_the_caller_is_gone() {
        let before = variables(&[("VIRTUAL_ENV", "/p/.venv")]);
        let made = apply(&[Activation::Conda("/c/envs/torch".to_owned())], before);
        let expected = variables(&[
            ("CONDA_DEFAULT_ENV", "torch"),
            ("CONDA_PREFIX", "/c/envs/torch"),
            ("CONDA_SHLVL", "1"),
            ("PATH", "/c/envs/torch/bin"),
        ]);
        assert_eq!(made, expected);
    }

    #[test]
    fn modules_are_loaded_by_the_shell_of_their_script() {
        let mut command = vec!["a".to_owned(), "b c".to_owned()];
        let names = vec!["cuda/12.4".to_owned(), "it's".to_owned()];
        let modules = Activation::Modules { init: "/m/init/bash".to_owned(), names };
        assert!(wrap(&[Activation::Venv("/v".to_owned()), modules], &mut command));
        let script = ". '/m/init/bash'\nmodule load 'cuda/12.4' || exit 1\n\
                      module load 'it'\\''s' || exit 1\nexport PATH='/v'/bin:\"$PATH\"\n\
                      exec \"$@\"";
        assert_eq!(command, ["/bin/bash", "-c", script, "gpool", "a", "b c"]);
    }
}
