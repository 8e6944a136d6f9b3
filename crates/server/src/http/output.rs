//! The files of a task's output, read as one sequence of bytes: one stream, or both in the order of
//! their writing.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use gpool_model::Timestamp;
use gpool_model::output::{ORDER_FILE, ORDER_MAX, OutputStream, Pieces, last_lines};
use rustix::fs::{Mode, OFlags, openat};

/// Where the output of a task is, and the user that its files must belong to.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub state_dir: PathBuf,
    /// Folders of the run below the state directory; it is in one of them.
    pub folders: Arc<[PathBuf]>,
    /// What follows the names of a task's files: empty for the first task.
    pub suffix: String,
    /// What to read.
    pub streams: Vec<OutputStream>,
    pub owner: u32,
}

/// The result of a look for output.
pub(super) enum Opened {
    /// Output, to be read from that byte on.
    At(Output, u64),
    /// It was last written to too long ago.
    TooOld,
    /// The job has not written anything (yet).
    Unwritten,
    /// The job has not run here, or its files were removed.
    Missing,
}

/// The open files of a task, and the order of their bytes.
#[derive(Debug, Default)]
pub(super) struct Output {
    files: [Option<File>; 2],
    order: Option<File>,
    order_length: u64,
    lengths: [u64; 2],
    pieces: Pieces,
}

impl Place {
    /// Opens what there is.
    ///
    /// # Errors
    /// A file is not a plain file of the job's user, or can't be read.
    pub fn open(
        &self,
        since: Option<Timestamp>,
        tail: Option<u64>,
        offset: Option<u64>,
    ) -> io::Result<Opened> {
        let mut output = Output::default();
        output.look(self)?;
        if output.files.iter().all(Option::is_none) {
            let folders = self.folders.iter().map(|folder| self.state_dir.join(folder));
            let has_folder = folders
                .map(|folder| folder.symlink_metadata())
                .any(|about| about.is_ok_and(|about| about.is_dir()));
            return Ok(if has_folder { Opened::Unwritten } else { Opened::Missing });
        }
        if let Some(since) = since
            && output.written_at()? < u128::from(since.get())
        {
            return Ok(Opened::TooOld);
        }
        let length = output.pieces.length();
        let start = match (offset, tail) {
            (Some(offset), _) => offset.min(length),
            (None, Some(n_lines)) => {
                last_lines(length, n_lines, |at, buffer| output.read_exact_at(at, buffer))?
            }
            (None, None) => 0,
        };
        Ok(Opened::At(output, start))
    }

    /// Opens a file of the task wherever the folder of its run is.
    fn open_file(&self, name: &str) -> io::Result<Option<File>> {
        let name = format!("{name}{}", self.suffix);
        let mut opened = self.folders.iter().map(|folder| self.open_at(&folder.join(&name)));
        opened.find(|opened| !matches!(opened, Ok(None))).unwrap_or(Ok(None))
    }

    /// Opens a file below a folder, through folders only: its user may have put links or pipes in
    /// their place, which are neither followed nor waited for. A second name for the file of
    /// another user, which any user can make unless the kernel forbids it, is not read either.
    fn open_at(&self, path: &Path) -> io::Result<Option<File>> {
        let folder_flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = self.state_dir.as_path();
        let mut folder: OwnedFd = rustix::fs::open(top, folder_flags, Mode::empty())?;
        let mut parts = path.iter().peekable();
        while let Some(part) = parts.next() {
            let is_file = parts.peek().is_none();
            let flags = match is_file {
                true => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW,
                false => folder_flags | OFlags::NOFOLLOW,
            };
            folder = match openat(folder.as_fd(), part, flags, Mode::empty()) {
                Ok(opened) => opened,
                Err(rustix::io::Errno::NOENT) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
        }
        let file = File::from(folder);
        let about = file.metadata()?;
        match (about.is_file(), about.uid() == self.owner) {
            (true, true) => Ok(Some(file)),
            (true, false) | (false, _) => Err(rustix::io::Errno::INVAL.into()),
        }
    }
}

impl Output {
    /// Finds out how much there is now.
    fn look(&mut self, place: &Place) -> io::Result<()> {
        let before = (self.lengths, self.order_length);
        for stream in &place.streams {
            let ix = *stream as usize;
            if self.files[ix].is_none() {
                self.files[ix] = place.open_file(stream.as_str())?;
            }
            if let Some(file) = &self.files[ix] {
                // One that its user made shorter has no bytes to read there.
                self.lengths[ix] = file.metadata()?.len();
            }
        }
        if let [stream] = place.streams[..] {
            self.pieces = Pieces::one(stream, self.lengths[stream as usize]);
            return Ok(());
        }
        // After the lengths: then each turn before those bytes is in it.
        if self.order.is_none() {
            // What its user made of it is no order, and no reason not to show the output.
            self.order = place.open_file(ORDER_FILE).ok().flatten();
        }
        if let Some(order) = &self.order {
            self.order_length = order.metadata()?.len();
        }
        if before == (self.lengths, self.order_length) {
            return Ok(());
        }
        let mut order = Vec::new();
        if let Some(mut file) = self.order.as_ref() {
            io::Seek::rewind(&mut file)?;
            file.take(ORDER_MAX).read_to_end(&mut order)?;
        }
        self.pieces = Pieces::both(self.lengths, &order);
        Ok(())
    }

    /// When it was last written to, in milliseconds since 1970.
    fn written_at(&self) -> io::Result<u128> {
        let mut last = 0;
        for file in self.files.iter().flatten() {
            let at = file.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            last = at.as_millis().max(last);
        }
        Ok(last)
    }

    /// Reads what there is now from a position on; nothing at the end.
    ///
    /// # Errors
    /// A file can't be opened or read.
    pub fn read(&mut self, place: &Place, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if at >= self.pieces.length() {
            self.look(place)?;
        }
        // Pieces may be short: as many as there is room for.
        let mut n_read = 0;
        while n_read < buffer.len() {
            match self.read_at(at + n_read as u64, &mut buffer[n_read..])? {
                0 => break,
                n => n_read += n,
            }
        }
        Ok(n_read)
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Some((stream, from, n_bytes)) = self.pieces.find(at) else { return Ok(0) };
        let Some(file) = &self.files[stream as usize] else { return Ok(0) };
        let n_bytes = usize::try_from(n_bytes).unwrap_or(usize::MAX).min(buffer.len());
        file.read_at(&mut buffer[..n_bytes], from)
    }

    fn read_exact_at(&self, mut at: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let n_read = self.read_at(at, buffer)?;
            if n_read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += n_read as u64;
            buffer = &mut buffer[n_read..];
        }
        Ok(())
    }
}
