//! Lines of the log on standard error: each event is one line without control characters, and a
//! file does not grow without end.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use gpool_model::escape::push_escaped;
use tracing_subscriber::fmt::MakeWriter;

use super::LogFormat;

/// Bytes of a line above which its rest is left out.
const LINE_MAX: usize = 4 << 10;
/// Bytes of a file after which a new one begins; one older file is kept.
const FILE_MAX: u64 = 16 << 20;

/// Writes events to standard error.
pub struct LogWriter {
    format: LogFormat,
    /// Bytes since the file was looked at.
    n_written: Mutex<u64>,
}

impl LogWriter {
    pub fn new(format: LogFormat) -> Self {
        // The file is looked at with the first line.
        Self { format, n_written: Mutex::new(FILE_MAX) }
    }

    fn write(&self, event: &[u8]) -> io::Result<()> {
        let line = line(event, self.format);
        // Whole lines, one after the other.
        let mut n_written =
            self.n_written.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        io::stderr().write_all(line.as_bytes())?;
        *n_written += line.len() as u64;
        if *n_written >= FILE_MAX / 16 {
            *n_written = 0;
            begin_file();
        }
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = LogEvent<'a>;

    fn make_writer(&'a self) -> LogEvent<'a> {
        LogEvent { lines: self, bytes: Vec::new() }
    }
}

/// The text of one event, written when it is whole.
pub struct LogEvent<'a> {
    lines: &'a LogWriter,
    bytes: Vec<u8>,
}

impl Write for LogEvent<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogEvent<'_> {
    fn drop(&mut self) {
        // There is no other place to say that the log can't be written.
        let _ = self.lines.write(&self.bytes);
    }
}

/// An event as one line. What came from outside must not look like another line.
pub fn line(event: &[u8], format: LogFormat) -> String {
    let text = String::from_utf8_lossy(event);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    if format == LogFormat::Json {
        // JSON has no control characters, but its end can't be left out.
        return match text.len() {
            0..=LINE_MAX => format!("{text}\n"),
            n_bytes => format!("{{\"level\":\"WARN\",\"left_out_bytes\":{n_bytes}}}\n"),
        };
    }
    let mut line = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if line.len() >= LINE_MAX {
            line.push('…');
            break;
        }
        push_escaped(&mut line, c);
    }
    line.push('\n');
    line
}

/// Begins a new file if standard error is one that is full.
fn begin_file() {
    let stderr = io::stderr();
    let Ok(about) = rustix::fs::fstat(stderr.as_fd()) else { return };
    let is_file = rustix::fs::FileType::from_raw_mode(about.st_mode).is_file();
    let size = u64::try_from(about.st_size).unwrap_or_default();
    let Ok(path) = fs::read_link("/proc/self/fd/2") else { return };
    if is_file && size > FILE_MAX {
        // Without a new file the old one goes on.
        let _ = replace(&path);
    }
}

fn replace(path: &Path) -> io::Result<()> {
    let mut older = path.as_os_str().to_owned();
    older.push(".1");
    fs::rename(path, PathBuf::from(older))?;
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    rustix::stdio::dup2_stderr(&file)?;
    Ok(())
}
