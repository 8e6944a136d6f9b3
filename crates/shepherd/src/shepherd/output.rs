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

use gpool_model::job::OutputCut;
use gpool_model::output::{TURNS_MAX, turn_line};
use gpool_model::unit::Bytes;
use gpool_sys::clock;
use rustix::io::Errno;

use super::client_streams::ClientStreams;
use super::files::make_output;
use super::metrics::Metrics;
use super::{Shepherd, Why};
use crate::message::FromShepherd;

/// Below this part of the disk, or [`FLOOR_MAX`], no output is stored. The server accepts changes
/// down to half of it.
const FLOOR_PART: u64 = 16;
const FLOOR_MAX: u64 = 128 << 20;
/// Bytes after which the free space is looked at.
const LOOK_EACH: u64 = 1 << 20;

pub struct Stream {
    pipe: OwnedFd,
    writer: OutputWriter,
}

/// The part of the stream that is kept on file.
pub struct OutputWriter {
    /// Which of the task's two streams this is.
    which: usize,
    pub file: Target,
    /// Bytes that may still be kept.
    pub room: u64,
    limit: u64,
    /// Bytes beyond the limit.
    beyond: u64,
    /// Whether the file notes that it is cut.
    is_cut: bool,
    /// Bytes that could not be written since the last successful write, and the error.
    pub lost: u64,
    why: String,
    /// Bytes that may be written before the free space is looked at.
    unlooked: u64,
    /// Why output is dropped, until it was asked for.
    cut: Option<OutputCut>,
    /// Whether the disk was nearly full at the last look.
    is_full: bool,
}

/// The file of a stream. It is made at the first write: many jobs write nothing, and on some file
/// systems making a file is one of the slowest parts of a start.
pub struct Target {
    path: PathBuf,
    /// The owner of the file; `None` for the agent's user.
    owner: Option<(u32, u32)>,
    file: Option<File>,
}

impl Target {
    /// A target without a file yet.
    pub fn new(path: PathBuf, owner: Option<(u32, u32)>) -> Self {
        Self { path, owner, file: None }
    }

    /// A target with an open file.
    #[cfg(feature = "fuzzing")]
    pub fn open(file: File) -> Self {
        Self { path: PathBuf::new(), owner: None, file: Some(file) }
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
pub struct Order {
    /// Made at the first change of streams: most tasks write to one only.
    file: Option<Target>,
    lengths: [u64; 2],
    last: Option<usize>,
    n_turns: usize,
}

impl Order {
    /// Keeps the order in this file.
    pub fn new(file: Target) -> Self {
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
pub enum Progress {
    /// There may be more.
    Open,
    /// All writers are gone, and everything is read.
    Over,
}

impl Stream {
    /// Makes a stream; reading from `pipe` must not block.
    pub fn new(which: usize, pipe: OwnedFd, file: Target, limit: Bytes) -> Self {
        Self { pipe, writer: OutputWriter::new(which, file, limit) }
    }

    /// Takes the reason why output is dropped, if there is a new one.
    pub fn take_cut(&mut self) -> Option<OutputCut> {
        self.writer.cut.take()
    }

    pub fn pipe(&self) -> &OwnedFd {
        &self.pipe
    }

    /// Reads and passes on the bytes that are there, a few buffers at most, so that other streams
    /// are read too.
    pub fn take(
        &mut self,
        buffer: &mut [u8],
        sink: &mut dyn FnMut(&[u8]),
        order: &mut Order,
    ) -> Progress {
        for _ in 0..8 {
            match rustix::io::read(&self.pipe, &mut *buffer) {
                Ok(0) => return Progress::Over,
                Ok(length) => {
                    sink(&buffer[..length]);
                    self.writer.write(&buffer[..length], order);
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
    pub fn finish(mut self, buffer: &mut [u8], sink: &mut dyn FnMut(&[u8]), order: &mut Order) {
        loop {
            match rustix::io::read(&self.pipe, &mut *buffer) {
                Ok(length) if length > 0 => {
                    sink(&buffer[..length]);
                    self.writer.write(&buffer[..length], order);
                }
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => break,
            }
        }
        self.writer.close(order);
    }
}

impl OutputWriter {
    pub fn new(which: usize, file: Target, limit: Bytes) -> Self {
        let (limit, why) = (limit.get(), String::new());
        Self {
            which,
            file,
            room: limit,
            limit,
            beyond: 0,
            is_cut: false,
            lost: 0,
            why,
            unlooked: 0,
            cut: None,
            is_full: false,
        }
    }

    /// Keeps bytes up to the limit, and counts the others.
    pub fn write(&mut self, bytes: &[u8], order: &mut Order) {
        let fits = usize::try_from(self.room).unwrap_or(usize::MAX).min(bytes.len());
        if fits > 0 {
            self.keep(&bytes[..fits], order);
        }
        let beyond = count(bytes.len() - fits);
        // Noted at once: a job may go on for days, and the log must explain the gap.
        if beyond > 0 && !self.is_cut && self.lost == 0 {
            let limit = Bytes::new(self.limit);
            let text =
                format!("\n[gpool: output limit of {limit} reached; further output is dropped]\n");
            self.is_cut = self.say(&text, order).is_ok();
        }
        if beyond > 0 && self.beyond == 0 {
            self.cut = Some(OutputCut::Limit { limit: Bytes::new(self.limit) });
        }
        self.beyond += beyond;
    }

    fn keep(&mut self, bytes: &[u8], order: &mut Order) {
        if !self.has_space(bytes.len()) || self.lost > 0 && self.say_lost(order).is_err() {
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
                    if is_no_space(&error) {
                        self.meets_full_disk();
                    }
                    self.lost += count(rest.len());
                    self.why = error.to_string();
                    return;
                }
            }
        }
        self.is_full = false;
    }

    /// Whether the disk has more free space than is kept for the store. Output goes first.
    fn has_space(&mut self, length: usize) -> bool {
        if let Some(unlooked) = self.unlooked.checked_sub(count(length)).filter(|_| !self.is_full) {
            self.unlooked = unlooked;
            return true;
        }
        let Some(folder) = self.file.path.parent() else { return true };
        // A folder that can't be read is a fault that a write reports.
        let Ok(found) = rustix::fs::statvfs(folder) else { return true };
        let size = |n: u64| n.saturating_mul(found.f_frsize);
        let floor = (size(found.f_blocks) / FLOOR_PART).min(FLOOR_MAX);
        if size(found.f_bavail) >= floor {
            self.unlooked = LOOK_EACH.min(floor / 4);
            return true;
        }
        let floor = Bytes::new(floor);
        self.why = format!("less than {floor} are free on the disk of the state folder");
        self.meets_full_disk();
        false
    }

    /// Notes that the disk is full, once until there is space again.
    fn meets_full_disk(&mut self) {
        if !std::mem::replace(&mut self.is_full, true) {
            self.cut = Some(OutputCut::DiskFull);
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

    /// Notes in the file what is missing.
    pub fn close(&mut self, order: &mut Order) {
        // If the disk is still full, this note is lost too.
        if self.lost > 0 {
            let _ = self.say_lost(order);
        }
        if self.beyond > 0 {
            let (limit, beyond) = (Bytes::new(self.limit), self.beyond);
            let text =
                format!("[gpool: dropped {beyond} bytes above the output limit of {limit}]\n");
            let _ = self.say(&text, order);
        }
    }
}

impl Shepherd {
    /// Passes on the output that is there.
    pub(super) fn take_output(&mut self, which: usize) {
        let Some(stream) = &mut self.outputs[which] else { return };
        let mut show = output_sink(which, &mut self.client_streams, &mut self.metrics);
        let progress = stream.take(&mut self.buffer, &mut show, &mut self.order);
        drop(show);
        if let Some(cut) = stream.take_cut() {
            self.output_cut(cut);
        }
        if progress == Progress::Over {
            self.finish_output(which);
        }
        self.say_metrics();
    }

    /// Reports that output is dropped, and ends the task if the node has such tasks stopped.
    fn output_cut(&mut self, cut: OutputCut) {
        self.cut = Some(cut);
        let is_stopped = self.launch.stop_on_cut;
        self.link.say(&FromShepherd::OutputCut { cut, is_stopped });
        if is_stopped {
            self.begin_end(Why::OutputCut, self.launch.order.spec.grace, None);
        }
    }

    /// Passes on the remaining output.
    pub(super) fn finish_output(&mut self, which: usize) {
        let Some(stream) = self.outputs[which].take() else { return };
        let show = &mut output_sink(which, &mut self.client_streams, &mut self.metrics);
        stream.finish(&mut self.buffer, show, &mut self.order);
    }
}

/// Sees the bytes of an output beside its file. Metrics come over standard output.
fn output_sink<'a>(
    which: usize,
    client_streams: &'a mut ClientStreams,
    metrics: &'a mut Metrics,
) -> impl FnMut(&[u8]) + 'a {
    move |bytes| {
        client_streams.show(bytes);
        if which == 0 {
            metrics.read(bytes, clock::boot_ms());
        }
    }
}

fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
