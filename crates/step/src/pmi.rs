//! PMI-1: the processes of an MPI program find each other by it. Each has a connection to its
//! step, on which it puts and gets keys, and waits until all have come to a barrier.
//!
//! Source: the wire protocol of `src/pmi/simple` in MPICH; Balaji et al., "PMI: A Scalable Parallel
//! Process-Management Interface for Extreme-Scale Systems", EuroMPI 2010.

use std::collections::{BTreeMap, BTreeSet};

/// The most characters of the name of the key space, of a key, and of a value.
const NAME_MAX: usize = 256;
const KEY_MAX: usize = 256;
const VALUE_MAX: usize = 1024;
/// The most keys of a step: a program puts a few for each process.
const KEYS_MAX: usize = 1 << 20;
const NAME: &str = "gpool_step";

/// The state of a program: its keys, and the processes at the barrier.
#[derive(Debug)]
pub struct Pmi {
    n_processes: u32,
    keys: BTreeMap<String, String>,
    /// The processes that wait at the barrier, by rank.
    at_barrier: Vec<u32>,
    /// The processes that have begun and not ended MPI, by rank.
    active: BTreeSet<u32>,
}

/// What a request of a process leads to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Lines for processes, by rank.
    pub lines: Vec<(u32, String)>,
    /// The exit code with which a process aborts the program.
    pub abort: Option<i32>,
}

impl Answer {
    fn to(rank: u32, line: String) -> Self {
        Self { lines: vec![(rank, line)], abort: None }
    }
}

impl Pmi {
    #[must_use]
    pub fn new(n_processes: u32) -> Self {
        Self { n_processes, keys: BTreeMap::new(), at_barrier: Vec::new(), active: BTreeSet::new() }
    }

    /// The variables of a process with its end of the connection as this descriptor.
    #[must_use]
    pub fn variables(rank: u32, n_processes: u32, fd: i32) -> [(&'static str, String); 3] {
        [
            ("PMI_FD", fd.to_string()),
            ("PMI_RANK", rank.to_string()),
            ("PMI_SIZE", n_processes.to_string()),
        ]
    }

    /// Answers a line of a process.
    pub fn answer(&mut self, rank: u32, line: &str) -> Answer {
        let words: BTreeMap<&str, &str> = words(line);
        let reply = |text: String| Answer::to(rank, text);
        match words.get("cmd").copied().unwrap_or_default() {
            "init" => reply(match words.get("pmi_version") {
                Some(&"1") => {
                    self.active.insert(rank);
                    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned()
                }
                _ => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1".to_owned(),
            }),
            "get_maxes" => reply(format!(
                "cmd=maxes kvsname_max={NAME_MAX} keylen_max={KEY_MAX} vallen_max={VALUE_MAX} rc=0"
            )),
            "get_appnum" => reply("cmd=appnum appnum=0 rc=0".to_owned()),
            "get_universe_size" => {
                reply(format!("cmd=universe_size size={} rc=0", self.n_processes))
            }
            "get_my_kvsname" => reply(format!("cmd=my_kvsname kvsname={NAME} rc=0")),
            "put" => reply(self.put(&words)),
            "get" => reply(self.get(&words)),
            "barrier_in" => self.barrier(rank),
            "finalize" => {
                self.active.remove(&rank);
                reply("cmd=finalize_ack rc=0".to_owned())
            }
            "abort" => {
                let code = words.get("exitcode").and_then(|code| code.parse().ok());
                Answer { abort: Some(code.unwrap_or(1)), ..Answer::default() }
            }
            other => {
                let other: String = other.chars().take(KEY_MAX).collect();
                reply(format!("cmd={other} rc=-1 msg=unknown_command"))
            }
        }
    }

    /// Whether a process that ends now leaves others that count on it.
    pub fn has_left(&mut self, rank: u32) -> bool {
        self.active.remove(&rank)
    }

    fn put(&mut self, words: &BTreeMap<&str, &str>) -> String {
        let key = words.get("key").copied().unwrap_or_default();
        let value = words.get("value").copied().unwrap_or_default();
        let refused = if key.is_empty() || key.len() > KEY_MAX {
            Some("bad_key")
        } else if value.len() > VALUE_MAX {
            Some("value_too_long")
        } else if self.keys.len() >= KEYS_MAX {
            Some("too_many_keys")
        } else {
            None
        };
        match refused {
            Some(why) => format!("cmd=put_result rc=-1 msg={why}"),
            None => {
                self.keys.insert(key.to_owned(), value.to_owned());
                "cmd=put_result rc=0 msg=success".to_owned()
            }
        }
    }

    fn get(&self, words: &BTreeMap<&str, &str>) -> String {
        match words.get("key").and_then(|key| self.keys.get(*key)) {
            Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
            None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
        }
    }

    /// The last process that comes opens the barrier for all.
    fn barrier(&mut self, rank: u32) -> Answer {
        if !self.at_barrier.contains(&rank) {
            self.at_barrier.push(rank);
        }
        if u32::try_from(self.at_barrier.len()).unwrap_or(u32::MAX) < self.n_processes {
            return Answer::default();
        }
        let all = std::mem::take(&mut self.at_barrier).into_iter();
        Answer {
            lines: all.map(|rank| (rank, "cmd=barrier_out rc=0".to_owned())).collect(),
            abort: None,
        }
    }
}

/// The words of a line, `name=value`; a value goes to the next blank.
fn words(line: &str) -> BTreeMap<&str, &str> {
    line.split_ascii_whitespace().filter_map(|word| word.split_once('=')).collect()
}
