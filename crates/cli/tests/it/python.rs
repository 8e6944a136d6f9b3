//! Python's virtual environments, and those of uv projects.

use gpool_cli::software::python::{of_uv, of_venv};
use gpool_wire::Activate;

#[test]
fn the_environment_of_a_project_is_found_from_below() {
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("src/deep");
    std::fs::create_dir_all(&below).unwrap();
    assert!(of_uv(&below, false).is_err_and(|it| it.what().contains("not in a uv project")));
    std::fs::write(dir.path().join("pyproject.toml"), "").unwrap();
    let failure = of_uv(&below, false).unwrap_err();
    assert!(failure.text(false).contains("--setup 'uv sync'"), "{}", failure.text(false));
    let expected = Activate::Venv(dir.path().join(".venv").to_str().unwrap().to_owned());
    assert_eq!(of_uv(&below, true), Ok(expected.clone()));
    std::fs::create_dir(dir.path().join(".venv")).unwrap();
    std::fs::write(dir.path().join(".venv/pyvenv.cfg"), "").unwrap();
    assert_eq!(of_uv(&below, false), Ok(expected));
    let near = of_venv("venv", dir.path(), false).unwrap_err();
    assert!(near.text(false).contains("--venv .venv"), "{}", near.text(false));
    assert!(of_venv(".venv", dir.path(), false).is_ok());
}
