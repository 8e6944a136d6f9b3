//! Questions to the agent, over the socket in the ledger's folder.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::kernel::{self, Descriptor, EAGAIN, EINTR, now_ms};
use crate::layout::{
    ASK_MEMORY, ASK_RETURN, Ask, Grants, MESSAGE_MAGIC, REPLY_WAIT, REPLY_YES, Reply, SOCKET_FILE,
};
use crate::page::{self, PATH_MAX};

/// The wait for an answer, if the ledger has none.
const ANSWER_MS: u64 = 5000;
/// The time between two attempts to reach a busy agent.
const RETRY_MS: u64 = 5;
/// The time between two attempts to reach an agent that is away.
const AWAY_MS: u64 = 100;

/// The end of a question.
enum End {
    /// The agent's answer.
    Answer(bool),
    /// There was none.
    Nothing,
}

/// Asks for more memory; returns whether to try again. Memory that the job requested is asked for
/// until an agent answers.
pub fn for_memory(device: usize, bytes: u64, is_owed: bool) -> bool {
    let word = |word: fn(&Grants) -> &AtomicU32| {
        page::grants().map_or(0, |grants| u64::from(word(grants).load(Relaxed)))
    };
    let (limit, owed) = (word(|it| &it.answer_ms), word(|it| &it.owed_ms));
    let limit = if limit == 0 { ANSWER_MS } else { limit };
    let owed = if is_owed { owed } else { 0 };
    let begin = now_ms();
    let until = begin.saturating_add(if owed == 0 { limit } else { owed });
    loop {
        let waited = now_ms().saturating_sub(begin);
        let socket = send(ASK_MEMORY, device, bytes, waited, until);
        if let Some(End::Answer(is_yes)) = socket.map(|socket| answer(&socket, until)) {
            return is_yes;
        }
        if owed == 0 || now_ms() >= until {
            return false;
        }
        kernel::sleep(AWAY_MS);
    }
}

/// Asks for the released devices. The answer is an open gate.
pub fn for_return() {
    drop(send(ASK_RETURN, 0, 0, 0, now_ms()));
}

/// Connects and sends a question; `None` without agent.
fn send(kind: u32, device: usize, bytes: u64, waited: u64, until: u64) -> Option<Descriptor> {
    let mut path = [0; PATH_MAX];
    let path = page::path_of(&mut path, SOCKET_FILE)?;
    let socket = Descriptor::socket()?;
    loop {
        match socket.connect(path) {
            0 => break,
            EAGAIN | EINTR if now_ms() < until => kernel::sleep(RETRY_MS),
            _ => return None,
        }
    }
    let (device, waited_ms) = (device as u32, waited as u32);
    let ask = Ask { magic: MESSAGE_MAGIC, kind, device, waited_ms, bytes };
    // SAFETY: the structure has no padding.
    let message =
        unsafe { core::slice::from_raw_parts((&raw const ask).cast::<u8>(), size_of::<Ask>()) };
    (socket.send(message) == size_of::<Ask>() as isize).then_some(socket)
}

/// Waits for the last answer.
fn answer(socket: &Descriptor, mut until: u64) -> End {
    loop {
        let now = now_ms();
        if now >= until {
            return End::Nothing;
        }
        match socket.wait(until - now) {
            EINTR => continue,
            ready if ready <= 0 => return End::Nothing,
            _ => {}
        }
        let mut bytes = [0; size_of::<Reply>()];
        match socket.receive(&mut bytes) {
            EAGAIN | EINTR => continue,
            n if n != size_of::<Reply>() as isize => return End::Nothing,
            _ => {}
        }
        // SAFETY: plain numbers of this size.
        let reply = unsafe { core::mem::transmute::<[u8; size_of::<Reply>()], Reply>(bytes) };
        match reply.kind {
            _ if reply.magic != MESSAGE_MAGIC => return End::Nothing,
            REPLY_YES => return End::Answer(true),
            REPLY_WAIT => until = now_ms().saturating_add(u64::from(reply.ms)),
            _ => return End::Answer(false),
        }
    }
}
