//! Questions to the agent, over the socket in the ledger's folder.

use core::sync::atomic::Ordering::Relaxed;

use crate::kernel::{self, Descriptor, EAGAIN, EINTR, now_ms};
use crate::layout::{
    ASK_MEMORY, ASK_RETURN, Ask, MESSAGE_MAGIC, REPLY_WAIT, REPLY_YES, Reply, SOCKET_FILE,
};
use crate::page::{self, PATH_MAX};

/// The wait for an answer, if the ledger has none.
const ANSWER_MS: u64 = 5000;
/// The time between two attempts to reach a busy agent.
const RETRY_MS: u64 = 5;

/// Asks for more memory; returns whether to try again.
pub fn for_memory(device: usize, bytes: u64) -> bool {
    let limit = page::grants().map_or(0, |grants| u64::from(grants.answer_ms.load(Relaxed)));
    let until = now_ms().saturating_add(if limit == 0 { ANSWER_MS } else { limit });
    let Some(socket) = send(ASK_MEMORY, device, bytes, until) else { return false };
    answer(&socket, until)
}

/// Asks for the released devices. The answer is an open gate.
pub fn for_return() {
    drop(send(ASK_RETURN, 0, 0, now_ms()));
}

/// Connects and sends a question; `None` without agent.
fn send(kind: u32, device: usize, bytes: u64, until: u64) -> Option<Descriptor> {
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
    let ask = Ask { magic: MESSAGE_MAGIC, kind, device: device as u32, reserved: 0, bytes };
    // SAFETY: the structure has no padding.
    let message =
        unsafe { core::slice::from_raw_parts((&raw const ask).cast::<u8>(), size_of::<Ask>()) };
    (socket.send(message) == size_of::<Ask>() as isize).then_some(socket)
}

/// Waits for the last answer: whether it is yes.
fn answer(socket: &Descriptor, mut until: u64) -> bool {
    loop {
        let now = now_ms();
        if now >= until {
            return false;
        }
        match socket.wait(until - now) {
            EINTR => continue,
            ready if ready <= 0 => return false,
            _ => {}
        }
        let mut bytes = [0; size_of::<Reply>()];
        match socket.receive(&mut bytes) {
            EAGAIN | EINTR => continue,
            n if n != size_of::<Reply>() as isize => return false,
            _ => {}
        }
        // SAFETY: plain numbers of this size.
        let reply = unsafe { core::mem::transmute::<[u8; size_of::<Reply>()], Reply>(bytes) };
        match reply.kind {
            _ if reply.magic != MESSAGE_MAGIC => return false,
            REPLY_YES => return true,
            REPLY_WAIT => until = now_ms().saturating_add(u64::from(reply.ms)),
            _ => return false,
        }
    }
}
