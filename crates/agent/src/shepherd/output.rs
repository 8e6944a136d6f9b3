//! A task's output on its way from a pipe to a file of gpool's own, and the order of the two
//! streams.
//!
//! The program writes to a pipe and not to the file, although that costs a copy. A file's size
//! can't be limited without harm to the job (a resource limit ends it, and counts for all its
//! files), and a full disk would fail the job's writes. With a pipe the job can always write; bytes
//! that are not kept are counted and reported. The program gets files that the user names directly.

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

/// The part of the stream that is kept on file.
struct Kept {
    /// Which of the task's two streams this is.
    which: usize,
    file: Target,
    room: u64,
    limit: u64,
    /// Bytes beyond the limit.
    beyond: u64,
    /// Whether the file notes that it is cut.
    is_cut: bool,
    /// Bytes that could not be written since the last successful write, and the error.
    lost: u64,
    why: String,
}

/// The file of a stream. It is made at the first write: many jobs write nothing, and on some file
/// systems making a file is one of the slowest parts of a start.
pub(super) struct Target {
    path: PathBuf,
    /// The owner of the file; `None` for the agent's user.
    owner: Option<(u32, u32)>,
    file: Option<File>,
}

impl Target {
    /// A target without a file yet.
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

/// The order of the bytes of both streams, as they come to their files.
#[derive(Default)]
pub(super) struct Order {
    /// Made at the first change of streams: most tasks write to one only.
    file: Option<Target>,
    lengths: [u64; 2],
    last: Option<usize>,
    n_turns: usize,
}

impl Order {
    /// Keeps the order in this file.
    pub(super) fn new(file: Target) -> Self {
        Self { file: Some(file), ..Self::default() }
    }

    /// Notes a change of streams. Called before the bytes are written, so that a reader of the
    /// bytes finds the note.
    fn before(&mut self, which: usize) {
        let is_turn = self.last.replace(which).is_some_and(|last| last != which);
        if !is_turn || self.n_turns >= TURNS_MAX {
            return;
        }
        self.n_turns += 1;
        let Some(file) = &mut self.file else { return };
        // If the disk is full, the order is lost, but no byte of the output.
        let line = turn_line(self.lengths);
        let _ = file.file().and_then(|file| file.write_all(line.as_bytes()));
    }

    fn wrote(&mut self, which: usize, length: usize) {
        self.lengths[which] += count(length);
    }
}

/// The state of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// There may be more.
    Open,
    /// All writers are gone, and everything is read.
    Over,
}

impl Stream {
    /// Makes a stream; reading from `pipe` must not block.
    pub(super) fn new(which: usize, pipe: OwnedFd, file: Target, limit: Bytes) -> Self {
        let limit = limit.get();
        let why = String::new();
        let kept = Kept { which, file, room: limit, limit, beyond: 0, is_cut: false, lost: 0, why };
        Self { pipe, kept }
    }

    /// The descriptor to poll.
    pub(super) fn pipe(&self) -> &OwnedFd {
        &self.pipe
    }

    /// Reads and passes on the bytes that are there, a few buffers at most, so that other streams
    /// are read too.
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

    /// Reads and passes on all remaining bytes. The remaining writers are dead or no part of the
    /// task: a stranger with a copy of the descriptor must not keep the task from ending.
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
        // Noted at once: a job may go on for days, and the log must explain the gap.
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
        // If the disk is still full, this note is lost too.
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
    fn output_is_kept_up_to_the_limit_and_the_rest_is_counted() {
        assert_eq!(kept(10, &[b"hello ", b"you!"]), "hello you!");
        assert_eq!(
            kept(10, &[b"hello ", b"you!?", b"more"]),
            "hello you!\n[gpool: the output limit of 10 B was reached; what follows is not kept]\n\
             [gpool: 5 bytes beyond the output limit of 10 B were not kept]\n"
        );
    }

    #[test]
    fn a_job_that_writes_nothing_gets_no_file() {
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
    fn output_lost_to_a_full_disk_is_noted_once_there_is_room() {
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
        // Beyond the limit.
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
