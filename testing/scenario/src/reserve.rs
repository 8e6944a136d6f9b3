//! The lines with reservations and drains, read and written.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Arc;

use gpool_model::{
    Beneficiary, Displace, Drain, Node, ProjectName, Reservation, ReservationName, Reserved,
    Timestamp, Window, parse,
};

use crate::amount::span;
use crate::nodes::numbers;
use crate::reader::{Reader, before, owner};
use crate::situation::Situation;
use crate::words::{ScenarioError, Words};

impl Reader {
    /// Reads `reserve r1  lab1[0,1] lab2  for project nlp  in 2h  long 4h  every 7d`.
    pub fn reserve(&mut self, words: &mut Words<'_>) -> Result<(), ScenarioError> {
        let name = ReservationName::new(words.need("the name of the reservation")?);
        if self.situation.reservations.iter().any(|it| it.name == name) {
            return Err(words.error(format!("reservation {name} stands here twice")));
        }
        let mut what = Reserved::default();
        while !words.take("for") {
            let (node, positions) = self.devices_of(words)?;
            let node = &self.situation.nodes[node];
            if positions.is_empty() {
                what.nodes.insert(node.name.clone());
                continue;
            }
            let uuids = positions.iter().map(|position| node.devices[*position].uuid.clone());
            what.devices.entry(node.name.clone()).or_default().extend(uuids);
        }
        let whom = self.whom(words)?;
        let now = self.situation.now;
        let (mut from, mut length, mut every) = (now, None, None);
        let mut at_begin = Displace::LetFinish;
        while let Some(word) = words.next() {
            let mut length_of = || words.parse("a length of time", parse::span);
            match word {
                "begun" => from = before(now, length_of()?),
                "in" => from = now.after(length_of()?),
                "long" => length = Some(length_of()?),
                "every" => every = Some(length_of()?),
                "requeue" => at_begin = Displace::Requeue,
                "cancel" => at_begin = Displace::Cancel,
                word => {
                    return Err(words.unknown(word, "begun, in, long, every, requeue or cancel"));
                }
            }
        }
        self.situation.reservations.push(Reservation {
            name,
            beneficiary: whom,
            what,
            window: Window::lasting(from, length),
            every,
            at_begin,
            reason: Arc::from(""),
            made_by: Arc::from("root"),
            made_at: now,
        });
        Ok(())
    }

    fn whom(&self, words: &mut Words<'_>) -> Result<Beneficiary, ScenarioError> {
        Ok(match words.need("whom it is for")? {
            "nobody" => Beneficiary::Nobody,
            "uid" => {
                let uid = words.parse("a user id", u32::from_str)?;
                Beneficiary::User { uid, name: owner(uid).user }
            }
            "project" => Beneficiary::Project { name: ProjectName::new(words.need("a project")?) },
            "job" => {
                let name = words.need("the name of a job")?;
                let id = self.ids.get(name);
                let id = id.ok_or_else(|| words.error(format!("no job {name} stands above")))?;
                Beneficiary::Job { id: *id }
            }
            word => return Err(words.unknown(word, "nobody, uid, project or job")),
        })
    }

    /// Reads `drain lab1  by 2h  requeue`, or `drain lab1[0,1]`.
    pub fn drain(&mut self, words: &mut Words<'_>) -> Result<(), ScenarioError> {
        let now = self.situation.now;
        let (node, positions) = self.devices_of(words)?;
        let (mut by, mut at_deadline) = (None, Displace::LetFinish);
        while let Some(word) = words.peek() {
            match word {
                "by" => {
                    words.next();
                    by = Some(now.after(words.parse("a length of time", parse::span)?));
                }
                "requeue" => at_deadline = Displace::Requeue,
                "cancel" => at_deadline = Displace::Cancel,
                _ => break,
            }
            if word != "by" {
                words.next();
            }
        }
        words.end()?;
        let drain =
            Drain { by, at_deadline, reason: Arc::from("x"), who: Arc::from("root"), since: now };
        let node = &mut self.situation.nodes[node];
        if positions.is_empty() {
            node.drain = Some(drain);
            return Ok(());
        }
        for position in positions {
            node.device_drains.insert(node.devices[position].uuid.clone(), drain.clone());
        }
        Ok(())
    }
}

/// Writes the drains of a node, one line each.
pub(crate) fn drains(f: &mut fmt::Formatter<'_>, now: Timestamp, node: &Node) -> fmt::Result {
    let mut line = |at: String, drain: &Drain| {
        write!(f, "drain {at}")?;
        if let Some(by) = drain.by {
            write!(f, "  by {}", span(by.since(now)))?;
        }
        f.write_str(displace(drain.at_deadline))?;
        writeln!(f)
    };
    if let Some(drain) = &node.drain {
        line(node.name.to_string(), drain)?;
    }
    for (device, number) in node.devices.iter().zip(numbers(node)) {
        if let Some(drain) = node.device_drains.get(&device.uuid) {
            line(format!("{}[{number}]", node.name), drain)?;
        }
    }
    Ok(())
}

fn displace(choice: Displace) -> &'static str {
    match choice {
        Displace::LetFinish => "",
        Displace::Requeue => "  requeue",
        Displace::Cancel => "  cancel",
    }
}

/// Writes the line of a reservation; nothing if none of its nodes and devices exist.
pub(crate) fn reservation(
    f: &mut fmt::Formatter<'_>,
    situation: &Situation,
    it: &Reservation,
) -> fmt::Result {
    let mut places = String::new();
    for node in &situation.nodes {
        if it.what.has_node(&node.name) {
            // Writing to a string can't fail.
            let _ = write!(places, " {}", node.name);
        }
        if let Some(here) = it.what.devices.get(&node.name) {
            let devices = node.devices.iter().zip(numbers(node));
            let kept = devices.filter(|(device, _)| here.contains(&device.uuid));
            let positions: Vec<String> = kept.map(|(_, number)| number.to_string()).collect();
            if !positions.is_empty() {
                let _ = write!(places, " {}[{}]", node.name, positions.join(","));
            }
        }
    }
    let whom = match &it.beneficiary {
        Beneficiary::Nobody => "nobody".to_owned(),
        Beneficiary::User { uid, .. } => format!("uid {uid}"),
        Beneficiary::Project { name } => format!("project {name}"),
        Beneficiary::Job { id } if situation.jobs.iter().any(|(spec, _)| spec.id == *id) => {
            format!("job j{}", id.number)
        }
        Beneficiary::Job { .. } => return Ok(()),
    };
    if places.is_empty() {
        return Ok(());
    }
    write!(f, "reserve {} {places}  for {whom}", it.name)?;
    let (from, now) = (it.window.from, situation.now);
    if from > now {
        write!(f, "  in {}", span(from.since(now)))?;
    } else if from < now {
        write!(f, "  begun {}", span(now.since(from)))?;
    }
    let lengths = [("long", it.window.length()), ("every", it.every)];
    for (word, length) in lengths {
        if let Some(length) = length {
            write!(f, "  {word} {}", span(length))?;
        }
    }
    f.write_str(displace(it.at_begin))?;
    writeln!(f)
}
