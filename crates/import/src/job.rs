//! A job as the words of `gpool submit`.

/// A flag of `gpool submit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Its name without dashes.
    pub name: &'static str,
    pub value: Option<String>,
}

/// A job that another one of the file waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependency {
    /// The kind in `--after`: `ok` or `start`.
    pub kind: &'static str,
    /// Its index in the list of jobs.
    pub job_ix: usize,
}

/// A job of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedJob {
    /// The line that it begins on.
    pub line: usize,
    pub name: String,
    /// Flags other than `--name` and `--after`.
    pub flags: Vec<Flag>,
    /// Program and arguments.
    pub command: Vec<String>,
    pub after: Vec<Dependency>,
}

impl ImportedJob {
    pub(crate) fn new(line: usize) -> Self {
        let (name, flags) = (String::new(), Vec::new());
        Self { line, name, flags, command: Vec::new(), after: Vec::new() }
    }

    /// Adds a flag with a value.
    pub(crate) fn flag(&mut self, name: &'static str, value: impl Into<String>) {
        self.flags.push(Flag { name, value: Some(value.into()) });
    }

    /// Adds a flag without a value, once.
    pub(crate) fn switch(&mut self, name: &'static str) {
        if !self.has(name) {
            self.flags.push(Flag { name, value: None });
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag.name == name)
    }

    /// Runs a script in a shell.
    pub(crate) fn run_script(&mut self, shell: &str, script: &str) {
        self.command = vec![shell.to_owned(), "-c".to_owned(), script.to_owned()];
    }
}
