//! The command line of a web server, for the address that it gets.

use std::path::{Path, PathBuf};

/// The programs that are looked for, in this order.
const WEB_SERVERS: [&str; 4] = ["jupyter-lab", "jupyter-notebook", "jupyter-server", "code-server"];
/// The placeholder for a port in a command.
pub const PORT: &str = "{port}";
/// The placeholder for a socket.
pub const SOCKET: &str = "{socket}";

/// A web server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Program and arguments, with the placeholders.
    pub words: Vec<String>,
    /// Whether it is Jupyter, which says when its kernels are busy.
    pub is_jupyter: bool,
}

impl Program {
    /// The program of a user's command. Jupyter and code-server get their own flags for the address
    /// unless the command has a placeholder.
    ///
    /// # Errors
    /// It has no placeholder, and is no program that gpool knows; or there is none at all in the
    /// folders of `path`.
    pub fn of(command: &[String], path: &str, is_root: bool) -> Result<Self, String> {
        let Some(first) = command.first() else {
            let found = WEB_SERVERS.iter().find_map(|name| find(name, path));
            let found = found.ok_or_else(|| {
                "neither jupyter nor code-server is in PATH: pip install jupyterlab".to_owned()
            })?;
            return Self::of(&[found.display().to_string()], path, is_root);
        };
        let name = Path::new(first).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let has = |mark| command.iter().any(|word| word.contains(mark));
        let has_mark = has(PORT) || has(SOCKET);
        let is_jupyter = name == "jupyter" || name.starts_with("jupyter-");
        let mut words = command.to_vec();
        match (has_mark, is_jupyter, name.as_str()) {
            (true, ..) => {}
            (false, true, _) => words.extend(jupyter_flags(is_root)),
            (false, false, "code-server") => words.extend(code_server_flags()),
            (false, false, _) => {
                return Err(format!("the command of a notebook needs {PORT} or {SOCKET}"));
            }
        }
        // With a port of its own it may have a token, and answers nothing without it.
        Ok(Self { words, is_jupyter: is_jupyter && !has_mark })
    }

    /// Whether a word has the placeholder of a port.
    #[must_use]
    pub fn needs_port(&self) -> bool {
        self.words.iter().any(|word| word.contains(PORT))
    }

    /// The words for an address.
    #[must_use]
    pub fn filled(&self, mark: &str, value: &str) -> Vec<String> {
        self.words.iter().map(|word| word.replace(mark, value)).collect()
    }
}

/// The permissions of the socket are the only check, so Jupyter has no token.
fn jupyter_flags(is_root: bool) -> Vec<String> {
    let flags = [
        "--no-browser",
        "--ServerApp.sock={socket}",
        "--ServerApp.sock_mode=0600",
        "--IdentityProvider.token=",
        // Its host name is not that of its machine.
        "--ServerApp.allow_remote_access=True",
        "--ServerApp.trust_xheaders=True",
    ];
    let root = is_root.then(|| "--allow-root".to_owned());
    flags.map(str::to_owned).into_iter().chain(root).collect()
}

fn code_server_flags() -> Vec<String> {
    let flags = ["--auth=none", "--socket={socket}", "--socket-mode=600", "--disable-telemetry"];
    flags.map(str::to_owned).to_vec()
}

fn find(name: &str, path: &str) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|it| it.is_file())
}
