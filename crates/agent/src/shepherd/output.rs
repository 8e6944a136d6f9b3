//! A task's output on its way from a pipe to a file of gpool's own.
//!
//! A pipe and not the file itself, although that costs a copy: a file can't be cut at a size
//! without harm to the job (a limit on file size ends it, and holds for all its files), and a full
//! disk would fail the job's writes. So the job always can write; what is not kept is counted and
//! said. Files that the user names are the job's own affair and are given to it directly.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use gpool_model::unit::Bytes;
use rustix::io::Errno;

use super::files::make_output;

/// One stream.
pub(super) struct Stream {
    pipe: OwnedFd,
    kept: Kept,
}

/// What is on file of it.
struct Kept {
    file: Target,
    room: u64,
    limit: u64,
    /// Bytes that found no room.
    beyond: u64,
    /// Bytes that could not be written since the last that could, and why.
    lost: u64,
    why: String,
}

/// Where it is kept. The file is made when there is something to write: many jobs write nothing,
/// and on some file systems making a file is among the dearest parts of a start.
pub(super) struct Target {
    path: PathBuf,
    /// Whose the file will be; `None` if it is the agent's user's.
    owner: Option<(u32, u32)>,
    file: Option<File>,
}

impl Target {
    /// A file that is not there yet.
    pub(super) fn new(path: PathBuf, owner: Option<(u32, u32)>) -> Self {
        Self { path, owner, file: None }
    }

    fn file(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            self.file = Some(make_output(&self.path, self.owner)?);
        }
        Ok(self.file.as_mut().expect("it was just made"))
    }
}

/// How far a stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// There may be more, now or later.
    Open,
    /// Nobody writes to it any more, and all is read.
    Over,
}

impl Stream {
    /// A stream whose reading end never blocks.
    pub(super) fn new(pipe: OwnedFd, file: Target, limit: Bytes) -> Self {
        let limit = limit.get();
        let kept = Kept { file, room: limit, limit, beyond: 0, lost: 0, why: String::new() };
        Self { pipe, kept }
    }

    /// What to wait for.
    pub(super) fn pipe(&self) -> &OwnedFd {
        &self.pipe
    }

    /// Takes what is there and shows it, at most a few buffers full so that others have their turn.
    pub(super) fn take(&mut self, buffer: &mut [u8], seen: &mut dyn FnMut(&[u8])) -> Progress {
        for _ in 0..8 {
            match rustix::io::read(&self.pipe, &mut *buffer) {
                Ok(0) => return Progress::Over,
                Ok(length) => {
                    seen(&buffer[..length]);
                    self.kept.write(&buffer[..length]);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Progress::Open,
                Err(_) => return Progress::Over,
            }
        }
        Progress::Open
    }

    /// Takes all that is there now, and shows it. Whoever might write more is dead, or is no part
    /// of the task: a descriptor that was handed to a stranger must not keep the task from ending.
    pub(super) fn finish(mut self, buffer: &mut [u8], seen: &mut dyn FnMut(&[u8])) {
        loop {
            match rustix::io::read(&self.pipe, &mut *buffer) {
                Ok(length) if length > 0 => {
                    seen(&buffer[..length]);
                    self.kept.write(&buffer[..length]);
                }
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => break,
            }
        }
        self.kept.close();
    }
}

impl Kept {
    fn write(&mut self, bytes: &[u8]) {
        let fits = usize::try_from(self.room).unwrap_or(usize::MAX).min(bytes.len());
        self.beyond += count(bytes.len() - fits);
        if fits == 0 {
            return;
        }
        if self.lost > 0 && self.say_lost().is_err() {
            self.lost += count(fits);
            return;
        }
        let mut rest = &bytes[..fits];
        while !rest.is_empty() {
            match self.file.file().and_then(|file| file.write(rest)) {
                Ok(written) => {
                    self.room -= count(written);
                    rest = &rest[written..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.lost += count(rest.len());
                    self.why = error.to_string();
                    return;
                }
            }
        }
    }

    fn say_lost(&mut self) -> io::Result<()> {
        let (lost, why) = (self.lost, &self.why);
        let file = self.file.file()?;
        writeln!(file, "\n[gpool: {lost} bytes of output could not be written: {why}]")?;
        self.lost = 0;
        Ok(())
    }

    fn close(&mut self) {
        if self.lost > 0 {
            // If there still is no room, there is no room to say so either.
            let _ = self.say_lost();
        }
        if self.beyond > 0 {
            let (limit, beyond) = (Bytes::new(self.limit), self.beyond);
            if let Ok(file) = self.file.file() {
                let _ = writeln!(
                    file,
                    "\n[gpool: the output limit of {limit} was reached; {beyond} bytes more were \
                     not kept]"
                );
            }
        }
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may end by a panic.
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    fn kept(limit: u64, writes: &[&[u8]]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        let mut stream = Stream::new(read, Target::new(path.clone(), None), Bytes::new(limit));
        let mut buffer = [0; 4];
        for bytes in writes {
            rustix::io::write(&write, bytes).unwrap();
            assert_eq!(stream.take(&mut buffer, &mut |_| {}), Progress::Open);
        }
        drop(write);
        stream.finish(&mut buffer, &mut |_| {});
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn output_is_kept_whole_up_to_the_limit_and_what_is_cut_is_counted() {
        assert_eq!(kept(10, &[b"hello ", b"you!"]), "hello you!");
        assert_eq!(
            kept(10, &[b"hello ", b"you!?", b"more"]),
            "hello you!\n[gpool: the output limit of 10 B was reached; 5 bytes more were not \
             kept]\n"
        );
    }

    #[test]
    fn nothing_is_made_for_a_job_that_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        drop(write);
        let target = Target::new(path.clone(), None);
        Stream::new(read, target, Bytes::from_gib(1)).finish(&mut [0; 4], &mut |_| {});
        assert!(!path.exists());
    }

    #[test]
    fn a_full_disk_loses_output_and_says_so_once_there_is_room() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let full = Target { path: PathBuf::new(), owner: None, file: Some(full) };
        let why = String::new();
        let mut kept = Kept { file: full, room: 100, limit: 100, beyond: 0, lost: 0, why };
        kept.write(b"hello");
        kept.write(b"you");
        assert_eq!((kept.lost, kept.room), (8, 100));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        kept.file = Target::new(path.clone(), None);
        kept.write(b"again");
        kept.close();
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.starts_with("\n[gpool: 8 bytes of output could not be written: No space"));
        assert!(text.ends_with("]\nagain"), "{text}");
    }
}
