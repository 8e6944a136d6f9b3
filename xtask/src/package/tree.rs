//! A folder with the files of a package. Each file gets its mode here, whatever the umask is.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context;

pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// An empty folder; a former one at the path is removed.
    pub fn new(root: PathBuf) -> anyhow::Result<Self> {
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| format!("removing {}", root.display()))?;
        }
        let tree = Self { root };
        tree.folder("")?;
        Ok(tree)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    /// Makes a folder, and those above it.
    pub fn folder(&self, name: &str) -> anyhow::Result<()> {
        self.folder_with_mode(name, 0o755)
    }

    pub fn folder_with_mode(&self, name: &str, mode: u32) -> anyhow::Result<()> {
        let path = self.path(name);
        if let Some((above, _)) = name.rsplit_once('/') {
            self.folder(above)?;
        }
        fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        set_mode(&path, mode)
    }

    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>, mode: u32) -> anyhow::Result<()> {
        if let Some((above, _)) = name.rsplit_once('/') {
            self.folder(above)?;
        }
        let path = self.path(name);
        fs::write(&path, contents).with_context(|| format!("writing {}", path.display()))?;
        set_mode(&path, mode)
    }

    pub fn copy(&self, from: &Path, name: &str, mode: u32) -> anyhow::Result<()> {
        let contents = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
        self.file(name, contents, mode)
    }

    /// The files below a folder, sorted by name.
    pub fn files(&self, name: &str) -> anyhow::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut folders = vec![self.path(name)];
        while let Some(folder) = folders.pop() {
            let entries =
                fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
            for entry in entries {
                let path = entry?.path();
                if path.is_dir() { folders.push(path) } else { found.push(path) }
            }
        }
        found.sort();
        Ok(found)
    }

    pub fn remove(self) -> anyhow::Result<()> {
        fs::remove_dir_all(&self.root).with_context(|| format!("removing {}", self.root.display()))
    }
}

fn set_mode(path: &Path, mode: u32) -> anyhow::Result<()> {
    let mode = fs::Permissions::from_mode(mode);
    fs::set_permissions(path, mode).with_context(|| format!("changing {}", path.display()))
}
