//! Command lines of web servers.

use gpool_notebook::program::Program;

fn words(text: &str) -> Vec<String> {
    text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn of(text: &str) -> Result<Program, String> {
    Program::of(&words(text), "", false)
}

#[test]
fn jupyter_listens_on_a_socket_of_its_user_without_a_token() {
    for command in ["jupyter lab", "/opt/env/bin/jupyter-lab", "jupyter-server --x=1"] {
        let program = of(command).unwrap();
        assert!(program.is_jupyter && !program.needs_port());
        let filled = program.filled("{socket}", "/run/1.sock").join(" ");
        assert!(filled.starts_with(command), "{filled}");
        assert!(filled.contains("--ServerApp.sock=/run/1.sock --ServerApp.sock_mode=0600"));
        assert!(!filled.contains("--allow-root") && !filled.contains('{'), "{filled}");
    }
    let root = Program::of(&words("jupyter lab"), "", true).unwrap();
    assert!(root.words.contains(&"--allow-root".to_owned()));
}

#[test]
fn a_command_says_where_it_gets_its_address() {
    let program = of("tensorboard --port={port} --logdir runs").unwrap();
    assert_eq!(program.filled("{port}", "4000"), words("tensorboard --port=4000 --logdir runs"));
    assert!(program.needs_port() && !program.is_jupyter);
    let own = of("jupyter lab --port {port} --IdentityProvider.token=t").unwrap();
    assert!(!own.is_jupyter, "it may ask for its token");
    assert!(of("code-server .").unwrap().words.contains(&"--socket={socket}".to_owned()));
    assert!(of("python train.py").unwrap_err().contains("{port}"));
    assert!(of("").unwrap_err().contains("pip install jupyterlab"));
}

#[test]
fn the_first_known_program_in_path_is_taken() {
    let folder = std::env::temp_dir().join(format!("gpool-notebook-{}", std::process::id()));
    let [first, second] = ["a", "b"].map(|name| folder.join(name));
    for (at, name) in [(&first, "code-server"), (&second, "jupyter-server")] {
        std::fs::create_dir_all(at).unwrap();
        std::fs::write(at.join(name), "").unwrap();
    }
    let path = std::env::join_paths([&first, &second]).unwrap();
    let program = Program::of(&[], path.to_str().unwrap(), false).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(program.is_jupyter && program.words[0].ends_with("/b/jupyter-server"), "{program:?}");
}
