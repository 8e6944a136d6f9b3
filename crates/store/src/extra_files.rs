//! Files of the state folder that are no part of the store and belong into its backups: the store
//! does not know their meaning.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rusqlite::Connection;

use crate::{file, schema};

// Only in backups.
const TABLE: &str = "
CREATE TABLE beside (name TEXT PRIMARY KEY, bytes BLOB NOT NULL, checksum BLOB NOT NULL) STRICT;
";
/// How many times files are opened again because they were renamed meanwhile.
const ATTEMPTS: usize = 10;

pub struct ExtraFile {
    /// Its path in the state folder.
    pub name: String,
    pub bytes: Vec<u8>,
    /// Whether its checksum is right, and its path stays in the folder.
    pub is_sound: bool,
}

/// Copies the files of these names into a backup; a name may be a folder of files. Returns how many
/// there are.
pub fn copy(dir: &Path, names: &[&str], to: &mut Connection) -> io::Result<usize> {
    let mut opened = open(dir, names)?;
    // The server renames files when a new one begins: each must be in the backup, and only once.
    for _ in 0..ATTEMPTS {
        let is_same = |(name, file): &(String, File)| {
            let [there, here] = [fs::metadata(dir.join(name)), file.metadata()];
            there.and_then(|there| Ok(there.ino() == here?.ino())).unwrap_or(false)
        };
        if opened.iter().all(is_same) {
            break;
        }
        opened = open(dir, names)?;
    }
    let transaction = to.transaction().map_err(io::Error::other)?;
    transaction.execute_batch(TABLE).map_err(io::Error::other)?;
    for (name, file) in &mut opened {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        transaction
            .prepare_cached("INSERT INTO beside VALUES (?1, ?2, ?3)")
            .and_then(|mut insert| insert.execute((&*name, &bytes, checksum(name, &bytes))))
            .map_err(io::Error::other)?;
    }
    transaction.commit().map_err(io::Error::other)?;
    Ok(opened.len())
}

fn open(dir: &Path, names: &[&str]) -> io::Result<Vec<(String, File)>> {
    let mut opened = Vec::new();
    for name in names {
        let path = dir.join(name);
        let mut all = vec![(*name).to_owned()];
        if path.is_dir() {
            let entries = fs::read_dir(&path)?.map(|entry| entry.map(|it| it.file_name()));
            let entries = entries.collect::<io::Result<BTreeSet<_>>>()?;
            all =
                entries.iter().filter_map(|it| Some(format!("{name}/{}", it.to_str()?))).collect();
        }
        for name in all {
            match File::open(dir.join(&name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                file => opened.push((name, file?)),
            }
        }
    }
    Ok(opened)
}

fn checksum(name: &str, bytes: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(name.as_bytes()).update(&[0]).update(bytes);
    *hasher.finalize().as_bytes()
}

/// Calls `each` for every file of a backup; older ones have none.
pub fn for_each(
    connection: &Connection,
    mut each: impl FnMut(ExtraFile) -> io::Result<()>,
) -> io::Result<()> {
    let mut read = || {
        if !schema::has_table(connection, "beside")? {
            return Ok(Ok(()));
        }
        let mut statement = connection.prepare("SELECT name, bytes, checksum FROM beside")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (name, bytes): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
            let mut parts = Path::new(&name).components();
            let is_inside = parts.all(|part| matches!(part, Component::Normal(_)));
            let stored: Vec<u8> = row.get(2)?;
            let is_sound = is_inside && stored == checksum(&name, &bytes);
            if let Err(error) = each(ExtraFile { name, bytes, is_sound }) {
                return Ok(Err(error));
            }
        }
        Ok::<_, rusqlite::Error>(Ok(()))
    };
    read().map_err(io::Error::other)?
}

/// Writes the files of a backup into a folder of their own.
pub fn stage(source: &Connection, to: &Path) -> io::Result<()> {
    for_each(source, |ExtraFile { name, bytes, .. }| {
        let path = to.join(name);
        file::create_private_dir(file::parent(&path))?;
        io::Write::write_all(&mut file::create_private(&path)?, &bytes)?;
        File::open(&path)?.sync_all()
    })
}

/// Moves staged files to the state folder. Those that are there stay: they are newer. Returns the
/// names of the others.
pub fn publish(staged: &Path, dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    if !staged.exists() {
        return Ok(names);
    }
    for entry in fs::read_dir(staged)? {
        let name = PathBuf::from(entry?.file_name());
        match file::publish(&staged.join(&name), &dir.join(&name)) {
            Ok(()) => names.push(name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    names.sort();
    Ok(names)
}
