//! Activates software environments (venv, conda, modules) for a job: sets the variables that their
//! own tools set, and wraps the command in a shell where scripts must run. Pure.

use gpool_model::Activation;
use gpool_shepherd::testing::{Variables, apply, wrap};

fn variables(of: &[(&str, &str)]) -> Variables {
    of.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

#[test]
fn a_venv_comes_first_in_the_path() {
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
fn conda_sets_its_variables_and_removes_the_callers_venv() {
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
fn modules_are_loaded_by_the_shell_of_their_init_script() {
    let mut command = vec!["a".to_owned(), "b c".to_owned()];
    let names = vec!["cuda/12.4".to_owned(), "it's".to_owned()];
    let modules = Activation::Modules { init: "/m/init/bash".to_owned(), names };
    assert!(wrap(&[Activation::Venv("/v".to_owned()), modules], &mut command));
    let script = ". '/m/init/bash'\nmodule load 'cuda/12.4' || exit 1\n\
                  module load 'it'\\''s' || exit 1\nexport PATH='/v'/bin:\"$PATH\"\n\
                  exec \"$@\"";
    assert_eq!(command, ["/bin/bash", "-c", script, "gpool", "a", "b c"]);
}
