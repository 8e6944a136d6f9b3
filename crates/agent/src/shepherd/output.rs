//! A task's output on its way from a pipe to a file of gpool's own, and the order of the bytes of
//! both streams.
//!
//! A pipe and not the file itself, although that costs a copy: a file can't be cut at a size
//! without harm to the job (a limit on file size ends it, and holds for all its files), and a full
//! disk would fail the job's writes. So the job always can write; what is not kept is counted and
//! said. Files that the user names are the job's own affair and are given to it directly.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use gpool_model::output::{TURNS_MAX, turn_line};
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
    /// Which of the task's two streams it is.
    which: usize,
    file: Target,
    room: u64,
    limit: u64,
    /// Bytes that found no room.
    beyond: u64,
    /// Whether the file says that it ends there.
    is_cut: bool,
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

/// The order of the bytes of both streams of a task, as they come to their files.
#[derive(Default)]
pub(super) struct Order {
    /// Made at the first turn: most tasks write one stream only.
    file: Option<Target>,
    lengths: [u64; 2],
    last: Option<usize>,
    n_turns: usize,
}

impl Order {
    /// An order that is kept in that file.
    pub(super) fn new(file: Target) -> Self {
        Self { file: Some(file), ..Self::default() }
    }

    /// Bytes of a stream are about to be written. The turn is noted before they are, so that a
    /// reader that sees them finds it.
    fn before(&mut self, which: usize) {
        let is_turn = self.last.replace(which).is_some_and(|last| last != which);
        if !is_turn || self.n_turns >= TURNS_MAX {
            return;
        }
        self.n_turns += 1;
        let Some(file) = &mut self.file else { return };
        // Without room on the disk the order is lost, and no byte of the output.
        let line = turn_line(self.lengths);
        let _ = file.file().and_then(|file| file.write_all(line.as_bytes()));
    }

    fn wrote(&mut self, which: usize, length: usize) {
        self.lengths[which] += count(length);
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
    pub(super) fn new(which: usize, pipe: OwnedFd, file: Target, limit: Bytes) -> Self {
        let limit = limit.get();
        let why = String::new();
        let kept = Kept { which, file, room: limit, limit, beyond: 0, is_cut: false, lost: 0, why };
        Self { pipe, kept }
    }

    /// What to wait for.
    pub(super) fn pipe(&self) -> &OwnedFd {
        &self.pipe
    }

    /// Takes what is there and shows it, at most a few buffers full so that others have their turn.
    pub(super) fn take(
        &mut self,
        buffer: &mut [u8],
        seen: &mut dyn FnMut(&[u8]),
        order: &mut Order,
    ) -> Progress {
        for _ in 0..8 {
            match rustix::io::read(&self.pipe, &mut *buffer) {
                Ok(0) => return Progress::Over,
                Ok(length) => {
                    seen(&buffer[..length]);
                    self.kept.write(&buffer[..length], order);
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
    pub(super) fn finish(
        mut self,
        buffer: &mut [u8],
        seen: &mut dyn FnMut(&[u8]),
        order: &mut Order,
    ) {
        loop {
            match rustix::io::read(&self.pipe, &mut *buffer) {
                Ok(length) if length > 0 => {
                    seen(&buffer[..length]);
                    self.kept.write(&buffer[..length], order);
                }
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => break,
            }
        }
        self.kept.close(order);
    }
}

impl Kept {
    fn write(&mut self, bytes: &[u8], order: &mut Order) {
        let fits = usize::try_from(self.room).unwrap_or(usize::MAX).min(bytes.len());
        if fits > 0 {
            self.keep(&bytes[..fits], order);
        }
        let beyond = count(bytes.len() - fits);
        // Said at once: a job may go on for days, and its log must say why it does not.
        if beyond > 0 && !self.is_cut && self.lost == 0 {
            let limit = Bytes::new(self.limit);
            let text = format!(
                "\n[gpool: the output limit of {limit} was reached; what follows is not kept]\n"
            );
            self.is_cut = self.say(&text, order).is_ok();
        }
        self.beyond += beyond;
    }

    fn keep(&mut self, bytes: &[u8], order: &mut Order) {
        if self.lost > 0 && self.say_lost(order).is_err() {
            self.lost += count(bytes.len());
            return;
        }
        order.before(self.which);
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.file.file().and_then(|file| file.write(rest)) {
                Ok(written) => {
                    self.room -= count(written);
                    order.wrote(self.which, written);
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

    fn say_lost(&mut self, order: &mut Order) -> io::Result<()> {
        let (lost, why) = (self.lost, &self.why);
        let text = format!("\n[gpool: {lost} bytes of output could not be written: {why}]\n");
        self.say(&text, order)?;
        self.lost = 0;
        Ok(())
    }

    fn say(&mut self, text: &str, order: &mut Order) -> io::Result<()> {
        let file = self.file.file()?;
        order.before(self.which);
        file.write_all(text.as_bytes())?;
        order.wrote(self.which, text.len());
        Ok(())
    }

    fn close(&mut self, order: &mut Order) {
        // If there still is no room, there is no room to say so either.
        if self.lost > 0 {
            let _ = self.say_lost(order);
        }
        if self.beyond > 0 {
            let (limit, beyond) = (Bytes::new(self.limit), self.beyond);
            let text = format!(
                "[gpool: {beyond} bytes beyond the output limit of {limit} were not kept]\n"
            );
            let _ = self.say(&text, order);
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
        let mut stream = Stream::new(0, read, Target::new(path.clone(), None), Bytes::new(limit));
        let (mut buffer, mut order) = ([0; 4], Order::default());
        for bytes in writes {
            rustix::io::write(&write, bytes).unwrap();
            assert_eq!(stream.take(&mut buffer, &mut |_| {}, &mut order), Progress::Open);
        }
        drop(write);
        stream.finish(&mut buffer, &mut |_| {}, &mut order);
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn output_is_kept_whole_up_to_the_limit_and_what_is_cut_is_counted() {
        assert_eq!(kept(10, &[b"hello ", b"you!"]), "hello you!");
        assert_eq!(
            kept(10, &[b"hello ", b"you!?", b"more"]),
            "hello you!\n[gpool: the output limit of 10 B was reached; what follows is not kept]\n\
             [gpool: 5 bytes beyond the output limit of 10 B were not kept]\n"
        );
    }

    #[test]
    fn nothing_is_made_for_a_job_that_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        drop(write);
        let target = Target::new(path.clone(), None);
        let stream = Stream::new(0, read, target, Bytes::from_gib(1));
        stream.finish(&mut [0; 4], &mut |_| {}, &mut Order::default());
        assert!(!path.exists());
    }

    #[test]
    fn a_full_disk_loses_output_and_says_so_once_there_is_room() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let full = Target { path: PathBuf::new(), owner: None, file: Some(full) };
        let why = String::new();
        let mut order = Order::default();
        let (room, limit, is_cut) = (100, 100, false);
        let mut kept = Kept { which: 0, file: full, room, limit, beyond: 0, is_cut, lost: 0, why };
        kept.write(b"hello", &mut order);
        kept.write(b"you", &mut order);
        assert_eq!((kept.lost, kept.room), (8, 100));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        kept.file = Target::new(path.clone(), None);
        kept.write(b"again", &mut order);
        kept.close(&mut order);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.starts_with("\n[gpool: 8 bytes of output could not be written: No space"));
        assert!(text.ends_with("]\nagain"), "{text}");
    }

    #[test]
    fn the_order_of_both_streams_is_kept_once_both_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let mut order = Order::new(Target::new(path("order"), None));
        let mut streams: Vec<Kept> = ["stdout", "stderr"]
            .into_iter()
            .enumerate()
            .map(|(which, name)| {
                let (file, why) = (Target::new(path(name), None), String::new());
                Kept { which, file, room: 6, limit: 6, beyond: 0, is_cut: false, lost: 0, why }
            })
            .collect();
        streams[1].write(b"error", &mut order);
        streams[1].write(b"!", &mut order);
        assert!(!path("order").exists(), "one stream needs none");
        streams[0].write(b"out", &mut order);
        streams[0].write(b"put", &mut order);
        // It finds no room.
        streams[1].write(b"more", &mut order);
        for stream in &mut streams {
            stream.close(&mut order);
        }
        assert_eq!(std::fs::read_to_string(path("order")).unwrap(), "0 6\n6 6\n");
        assert_eq!(std::fs::read_to_string(path("stdout")).unwrap(), "output");
        let errors = std::fs::read_to_string(path("stderr")).unwrap();
        assert!(errors.starts_with("error!\n[gpool: the output limit"), "{errors}");
    }
}
