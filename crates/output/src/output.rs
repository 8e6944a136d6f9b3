//! The files of a task's output, read as one sequence of bytes: one stream, or both in the order of
//! their writing.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use gpool_model::id::TaskId;
use gpool_model::output::{ORDER_FILE, ORDER_MAX, OutputStream, Pieces};
use gpool_model::unit::Timestamp;
use rustix::fs::{Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use crate::lines::last_lines;
use crate::{file_name, run_folder};

/// The output of one task. Files that do not exist yet are opened by a later
/// [`refresh`](Output::refresh).
#[derive(Debug)]
pub struct Output {
    /// The files are below one of them.
    state_dirs: Arc<[PathBuf]>,
    task: TaskId,
    streams: Vec<OutputStream>,
    /// The owner that the files must have; `None` is the owner of the run's folder.
    owner: Option<u32>,
    /// By stream.
    files: [Option<File>; 2],
    order: Option<File>,
    order_length: u64,
    /// By stream.
    lengths: [u64; 2],
    pieces: Pieces,
}

impl Output {
    /// The output of a task below one of these state folders. Opens nothing.
    #[must_use]
    pub fn new(
        state_dirs: Arc<[PathBuf]>,
        task: TaskId,
        streams: Vec<OutputStream>,
        owner: Option<u32>,
    ) -> Self {
        Self {
            state_dirs,
            task,
            streams,
            owner,
            files: [None, None],
            order: None,
            order_length: 0,
            lengths: [0, 0],
            pieces: Pieces::default(),
        }
    }

    /// Opens the files that exist by now, and reads their lengths.
    ///
    /// # Errors
    /// A file can't be opened or read, or is not a regular file of its owner:
    /// [`ErrorKind::InvalidInput`](io::ErrorKind::InvalidInput).
    pub fn refresh(&mut self) -> io::Result<()> {
        let before = (self.lengths, self.order_length);
        for stream in self.streams.clone() {
            let ix = stream as usize;
            if self.files[ix].is_none() {
                self.files[ix] = self.open(stream.as_str())?;
            }
            if let Some(file) = &self.files[ix] {
                // A file that its user made shorter has no bytes there.
                self.lengths[ix] = file.metadata()?.len();
            }
        }
        if let [stream] = self.streams[..] {
            self.pieces = Pieces::one(stream, self.lengths[stream as usize]);
            return Ok(());
        }
        // After the lengths: then each switch before those bytes is in the order.
        if self.order.is_none() {
            // A file that its user replaced is no order, and no reason to show no output.
            self.order = self.open(ORDER_FILE).ok().flatten();
        }
        if let Some(order) = &self.order {
            self.order_length = order.metadata()?.len();
        }
        if before == (self.lengths, self.order_length) {
            return Ok(());
        }
        let mut order = Vec::new();
        if let Some(mut file) = self.order.as_ref() {
            file.rewind()?;
            file.take(ORDER_MAX).read_to_end(&mut order)?;
        }
        self.pieces = Pieces::both(self.lengths, &order);
        Ok(())
    }

    /// Whether the task has written any of it, as of the last refresh.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.files.iter().any(Option::is_some)
    }

    /// Whether the run of the task has a folder.
    #[must_use]
    pub fn has_folder(&self) -> bool {
        let folder = run_folder(self.task);
        let about = self.state_dirs.iter().map(|dir| dir.join(&folder).symlink_metadata());
        about.flatten().any(|about| about.is_dir())
    }

    /// The number of bytes, as of the last refresh.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.pieces.length()
    }

    /// The time of the last write; 1970 if there was none.
    pub fn written_at(&self) -> io::Result<Timestamp> {
        let mut last = Timestamp::ZERO;
        for file in self.files.iter().flatten() {
            let at = file.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            last = last.max(Timestamp::new(u64::try_from(at.as_millis()).unwrap_or(u64::MAX)));
        }
        Ok(last)
    }

    /// The user that owns the files; `None` if there are none.
    pub fn owner(&self) -> io::Result<Option<u32>> {
        let file = self.files.iter().flatten().next();
        file.map(|file| file.metadata().map(|about| about.uid())).transpose()
    }

    /// The position of the last `n_lines` lines, within the last 64 MiB.
    pub fn last_lines(&self, n_lines: u64) -> io::Result<u64> {
        last_lines(self.length(), n_lines, |at, buffer| self.read_exact_at(at, buffer))
    }

    /// Reads bytes from a position on, as of the last refresh; none at the end. It reads less than
    /// the buffer only there, or where a file has become shorter.
    pub fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut n_read = 0;
        while n_read < buffer.len() {
            match self.read_piece(at + n_read as u64, &mut buffer[n_read..])? {
                0 => break,
                n => n_read += n,
            }
        }
        Ok(n_read)
    }

    fn read_piece(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Some((stream, from, n_bytes)) = self.pieces.find(at) else { return Ok(0) };
        let Some(file) = &self.files[stream as usize] else { return Ok(0) };
        let n_bytes = usize::try_from(n_bytes).unwrap_or(usize::MAX).min(buffer.len());
        file.read_at(&mut buffer[..n_bytes], from)
    }

    fn read_exact_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self.read_at(at, buffer)? == buffer.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Opens a file of the task in the first state folder that has it.
    fn open(&self, name: &str) -> io::Result<Option<File>> {
        let folder = run_folder(self.task);
        let name = file_name(name, self.task);
        let mut opened =
            self.state_dirs.iter().map(|dir| open_below(dir, &folder, &name, self.owner));
        opened.find(|opened| !matches!(opened, Ok(None))).unwrap_or(Ok(None))
    }
}

/// Opens a file in a folder below a state folder, through folders only: its user may have put links
/// or pipes in their place, which are neither followed nor waited for. A second name for the file
/// of another user, which any user can make unless the kernel forbids it, is not read either.
fn open_below(
    state_dir: &Path,
    folder: &Path,
    name: &str,
    owner: Option<u32>,
) -> io::Result<Option<File>> {
    // Others than root may be allowed to enter the folders, but not to list them.
    let folder_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at: OwnedFd = match rustix::fs::open(state_dir, folder_flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    for part in folder {
        let flags = folder_flags | OFlags::NOFOLLOW;
        at = match openat(at.as_fd(), part, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(not_regular()),
            Err(error) => return Err(error.into()),
        };
    }
    let owner = match owner {
        Some(owner) => owner,
        None => fstat(&at)?.st_uid,
    };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = match openat(at.as_fd(), name, flags, Mode::empty()) {
        Ok(opened) => File::from(opened),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR | Errno::NXIO) => return Err(not_regular()),
        Err(error) => return Err(error.into()),
    };
    let about = file.metadata()?;
    match about.is_file() && about.uid() == owner {
        true => Ok(Some(file)),
        false => Err(not_regular()),
    }
}

fn not_regular() -> io::Error {
    let why = "it is not a regular file of the job's user";
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
