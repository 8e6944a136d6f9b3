//! Carries a step to a host on another machine. Each end of the step speaks to a bridge as if the
//! other were beside it, over a local socket with file descriptors; the bridges carry messages and
//! the bytes of standard input and output between the machines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::remote::{Frame, Kind, PIECE, Remote};
use crate::watch::Happening;
use crate::wire::{self, FromHost, Hello, Start, ToHost};

/// How long the end of a process waits for the rest of its output: programs that it left behind
/// may keep its output open.
const DRAIN: Duration = Duration::from_secs(5);

/// A process and one of its output streams.
type OutputKey = (u32, Kind);

/// Reports a host on another machine to its step.
///
/// # Errors
/// The connection breaks before the host has named its task.
pub fn at_srun(remote: Remote, tell: &Sender<Happening>) -> io::Result<()> {
    let hello: Hello = message(&remote.receive()?)?;
    let (own, theirs) = UnixStream::pair()?;
    if tell.send(Happening::Host(hello, theirs)).is_err() {
        return Ok(());
    }
    let bridge =
        Arc::new(SrunBridge { own, remote, outputs: Mutex::default(), inputs: Mutex::default() });
    let to_host = Arc::clone(&bridge);
    thread::spawn(move || {
        drop(to_host.carry_to_host());
        to_host.remote.close();
    });
    drop(bridge.carry_from_host());
    bridge.close();
    Ok(())
}

/// The bridge on the machine of `srun`.
struct SrunBridge {
    own: UnixStream,
    remote: Remote,
    /// Where the output of each process goes.
    outputs: Mutex<BTreeMap<OutputKey, File>>,
    /// Told when the last input of a process was taken.
    inputs: Mutex<BTreeMap<u32, Sender<()>>>,
}

impl SrunBridge {
    fn outputs(&self) -> MutexGuard<'_, BTreeMap<OutputKey, File>> {
        lock(&self.outputs)
    }

    /// Sends the processes with their input, then every message of `srun`.
    fn carry_to_host(self: &Arc<Self>) -> io::Result<()> {
        let start: Start = wire::receive(&self.own)?;
        let mut inputs = Vec::new();
        for process in &start.processes {
            let [input, output, errors] = wire::receive_three(&self.own)?;
            let (taken, wait) = channel();
            lock(&self.inputs).insert(process.rank, taken);
            self.outputs().insert((process.rank, Kind::Output), output.into());
            self.outputs().insert((process.rank, Kind::Errors), errors.into());
            inputs.push((process.rank, input, wait));
        }
        self.remote.say(&start)?;
        for (rank, input, taken) in inputs {
            let bridge = Arc::clone(self);
            // It ends with the process, or with srun.
            thread::spawn(move || bridge.carry_input(rank, input.into(), &taken));
        }
        loop {
            self.remote.say(&wire::receive::<ToHost>(&self.own)?)?;
        }
    }

    /// Sends the input of a process: the next part once the last one was taken.
    fn carry_input(&self, rank: u32, mut input: File, taken: &Receiver<()>) {
        let mut piece = vec![0; PIECE];
        loop {
            let n_read = match input.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.unwrap_or(0),
            };
            let sent = self.remote.send(Kind::Input, rank, &piece[..n_read]);
            if n_read == 0 || sent.is_err() || taken.recv().is_err() {
                return;
            }
        }
    }

    /// Passes on messages and output of the host.
    fn carry_from_host(&self) -> io::Result<()> {
        loop {
            let frame = self.remote.receive()?;
            let (rank, kind) = (frame.rank, frame.kind);
            match kind {
                Kind::Message => wire::send(&self.own, &message::<FromHost>(&frame)?)?,
                Kind::Output | Kind::Errors if frame.content.is_empty() => {
                    self.outputs().remove(&(rank, kind));
                }
                Kind::Output | Kind::Errors => self.put(rank, kind, &frame.content)?,
                Kind::InputReceipt => {
                    lock(&self.inputs).get(&rank).map(|taken| taken.send(()));
                }
                Kind::Input | Kind::OutputClosed | Kind::ErrorsClosed => {}
            }
        }
    }

    /// Writes output. If nothing reads it, its process learns that by the next write.
    fn put(&self, rank: u32, kind: Kind, content: &[u8]) -> io::Result<()> {
        let file = self.outputs().get(&(rank, kind)).map(File::try_clone).transpose()?;
        let Some(mut file) = file else { return Ok(()) };
        if file.write_all(content).is_err() {
            self.outputs().remove(&(rank, kind));
            let closed = if kind == Kind::Output { Kind::OutputClosed } else { Kind::ErrorsClosed };
            self.remote.send(closed, rank, &[])?;
        }
        Ok(())
    }

    /// The host has gone: its outputs end, and nothing waits for it.
    fn close(&self) {
        let _ = self.own.shutdown(Shutdown::Both);
        self.outputs().clear();
        lock(&self.inputs).clear();
    }
}

/// Gives a host on another machine than its `srun` a socket as if that were beside it.
///
/// # Errors
/// There are no sockets.
pub fn at_host(remote: Remote) -> io::Result<UnixStream> {
    let (own, theirs) = UnixStream::pair()?;
    let remote = Arc::new(remote);
    let bridge = Arc::new(HostBridge {
        own,
        remote,
        open: Mutex::default(),
        closed: Condvar::new(),
        unread: Mutex::default(),
        inputs: Mutex::default(),
    });
    let to_srun = Arc::clone(&bridge);
    thread::spawn(move || {
        drop(to_srun.carry_to_srun());
        to_srun.remote.close();
    });
    thread::spawn(move || {
        drop(bridge.carry_from_srun());
        // The host ends the processes of a step once its srun has gone.
        let _ = bridge.own.shutdown(Shutdown::Both);
        lock(&bridge.inputs).clear();
    });
    Ok(theirs)
}

/// The bridge on the machine of the processes.
struct HostBridge {
    own: UnixStream,
    remote: Arc<Remote>,
    /// The number of output streams of each process that have not ended.
    open: Mutex<BTreeMap<u32, u32>>,
    closed: Condvar,
    /// The output streams that nothing reads any more.
    unread: Mutex<BTreeSet<OutputKey>>,
    /// Takes the input of each process.
    inputs: Mutex<BTreeMap<u32, Sender<Vec<u8>>>>,
}

impl HostBridge {
    /// Sends every message of the host; the end of a process after the rest of its output.
    fn carry_to_srun(&self) -> io::Result<()> {
        self.remote.say(&wire::receive::<Hello>(&self.own)?)?;
        loop {
            let said: FromHost = wire::receive(&self.own)?;
            if let FromHost::Ended(rank, _) = said {
                let open = lock(&self.open);
                let is_open = |open: &mut BTreeMap<u32, u32>| {
                    open.get(&rank).is_some_and(|n_open| *n_open > 0)
                };
                let waited = self.closed.wait_timeout_while(open, DRAIN, is_open);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
            self.remote.say(&said)?;
        }
    }

    /// Passes on the processes, messages and input of `srun`.
    fn carry_from_srun(self: &Arc<Self>) -> io::Result<()> {
        let start: Start = message(&self.remote.receive()?)?;
        wire::send(&self.own, &start)?;
        for process in &start.processes {
            self.open_process(process.rank)?;
        }
        loop {
            let frame = self.remote.receive()?;
            match frame.kind {
                Kind::Message => wire::send(&self.own, &message::<ToHost>(&frame)?)?,
                Kind::Input => {
                    let mut inputs = lock(&self.inputs);
                    match frame.content.is_empty() {
                        true => drop(inputs.remove(&frame.rank)),
                        false => drop(inputs.get(&frame.rank).map(|it| it.send(frame.content))),
                    }
                }
                Kind::OutputClosed => drop(lock(&self.unread).insert((frame.rank, Kind::Output))),
                Kind::ErrorsClosed => drop(lock(&self.unread).insert((frame.rank, Kind::Errors))),
                Kind::Output | Kind::Errors | Kind::InputReceipt => {}
            }
        }
    }

    /// Gives the host the streams of a process.
    fn open_process(self: &Arc<Self>, rank: u32) -> io::Result<()> {
        let (input_end, input) = io::pipe()?;
        let (output, output_end) = io::pipe()?;
        let (errors, errors_end) = io::pipe()?;
        lock(&self.open).insert(rank, 2);
        let ends = [input_end.as_fd(), output_end.as_fd(), errors_end.as_fd()];
        wire::send_three(&self.own, ends)?;
        let (given, taken) = channel::<Vec<u8>>();
        lock(&self.inputs).insert(rank, given);
        let remote = Arc::clone(&self.remote);
        thread::spawn(move || {
            let mut input = File::from(OwnedFd::from(input));
            for content in taken {
                // A process that has closed its input gets no more.
                if input.write_all(&content).is_err()
                    || remote.send(Kind::InputReceipt, rank, &[]).is_err()
                {
                    return;
                }
            }
        });
        for (kind, stream) in [(Kind::Output, output), (Kind::Errors, errors)] {
            let bridge = Arc::clone(self);
            let stream = File::from(OwnedFd::from(stream));
            thread::spawn(move || bridge.carry_output(rank, kind, stream));
        }
        Ok(())
    }

    fn carry_output(&self, rank: u32, kind: Kind, mut stream: File) {
        let mut piece = vec![0; PIECE];
        loop {
            let n_read = match stream.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.unwrap_or(0),
            };
            // Then the process gets an error at its next write.
            let is_closed = lock(&self.unread).contains(&(rank, kind));
            let sent = self.remote.send(kind, rank, &piece[..n_read]);
            if n_read == 0 || is_closed || sent.is_err() {
                break;
            }
        }
        drop(stream);
        if let Some(n_open) = lock(&self.open).get_mut(&rank) {
            *n_open = n_open.saturating_sub(1);
        }
        self.closed.notify_all();
    }
}

fn message<T: serde::de::DeserializeOwned>(frame: &Frame) -> io::Result<T> {
    match frame.kind {
        Kind::Message => Ok(serde_json::from_slice(&frame.content)?),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
