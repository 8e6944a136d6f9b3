//! Changes without a request. Reservations and drains that are over are removed, lost devices of
//! reservations are replaced, and jobs leave where an admin asked for that. Jobs join other jobs
//! that may grow, as long as those run.

use std::sync::Arc;

use gpool_model::effect::Change;
use gpool_model::event::{Journaled, Upkeep};
use gpool_model::job::StopCause;
use gpool_model::{Beneficiary, Displace, JobId, JobSpec, Reservation, ReservationName, Reserved};

use crate::affected::Clearing;
use crate::choose::{ReservedDevices, choose, useful};
use crate::control::Control;

impl Control {
    /// Makes the changes that are due, and journals them.
    pub(crate) fn keep_up(&mut self) {
        self.ask_where_closed();
        let keeps = !self.world.reservations().is_empty() || self.world.drained().next().is_some();
        let grows = self.world.elastic().next().is_some() || self.world.joiners().next().is_some();
        if !(keeps || grows) && self.unsaid.is_empty() {
            return;
        }
        self.seq = self.world.cluster().last_seq.next();
        let mut kept = std::mem::take(&mut self.unsaid);
        self.end_reservations(&mut kept);
        self.replace_devices(&mut kept);
        self.displace_for_reservations(&mut kept);
        self.displace_for_drains(&mut kept);
        self.let_leave(&mut kept);
        self.let_join(&mut kept);
        if !kept.is_empty() {
            self.note(Journaled::Kept { kept });
        }
    }

    fn end_reservations(&mut self, kept: &mut Vec<Upkeep>) {
        let has_left = |it: &Beneficiary| match it {
            Beneficiary::Job { id } => self.world.job(*id).is_none(),
            _ => false,
        };
        let is_over = |it: &&Reservation| it.is_over(self.now) || has_left(&it.beneficiary);
        let over = self.world.reservations().values().filter(is_over);
        let over: Vec<ReservationName> = over.map(|it| it.name.clone()).collect();
        for reservation in over {
            self.world.remove_reservation(&reservation);
            self.publish(Change::ReservationChanged { reservation: reservation.clone() });
            kept.push(Upkeep::Ended { reservation });
        }
    }

    fn replace_devices(&mut self, kept: &mut Vec<Upkeep>) {
        let counted = |it: &&Reservation| it.what.counted.is_some();
        let reservations = self.world.reservations().values().filter(counted);
        let reservations: Vec<Reservation> = reservations.cloned().collect();
        for before in reservations {
            let Some(devices) = self.replaced(&before) else { continue };
            let reservation = before.name.clone();
            let what = Reserved { devices, ..before.what.clone() };
            self.world.put_reservation(Reservation { what, ..before });
            self.publish(Change::ReservationChanged { reservation: reservation.clone() });
            kept.push(Upkeep::Replaced { reservation });
        }
    }

    /// Returns the devices of a reservation by number, with unusable ones replaced; `None` if all
    /// are usable, or no better ones exist.
    fn replaced(&self, it: &Reservation) -> Option<ReservedDevices> {
        let counted = it.what.counted.as_ref()?;
        let good = useful(&self.world, it);
        if good == it.what.devices {
            return None;
        }
        let choose =
            |retained: &ReservedDevices| choose(&self.world, self.now, it, counted, retained).ok();
        // The reservation moves to another node only if none of its jobs run on this one.
        let is_used = !self.entitled_on(it).is_empty();
        let chosen = choose(&good).or_else(|| {
            let anywhere = if is_used { None } else { choose(&ReservedDevices::new()) };
            anywhere.filter(|_| !counted.spread)
        })?;
        Some(chosen).filter(|chosen| *chosen != it.what.devices)
    }

    /// Returns jobs that run on their own reservation.
    fn entitled_on(&self, it: &Reservation) -> Vec<JobId> {
        let others = |spec: &JobSpec| !it.beneficiary.is_for(spec);
        let clearing = Clearing { what: &it.what, by: None, closes: self.now, admits: &others };
        clearing.in_the_way(&self.world)
    }

    fn displace_for_reservations(&mut self, kept: &mut Vec<Upkeep>) {
        let due = |it: &&Reservation| it.at_begin != Displace::LetFinish && it.is_active(self.now);
        let due: Vec<Reservation> =
            self.world.reservations().values().filter(due).cloned().collect();
        for it in due {
            let admits = |spec: &JobSpec| it.beneficiary.is_for(spec);
            let clearing = Clearing { what: &it.what, by: None, closes: self.now, admits: &admits };
            let word = if it.is_maintenance() { "maintenance" } else { "reservation" };
            let by = format!("{word} {}", it.name);
            for job in clearing.in_the_way(&self.world) {
                self.displace(job, it.at_begin, &it.made_by, &by, kept);
            }
        }
    }

    fn displace_for_drains(&mut self, kept: &mut Vec<Upkeep>) {
        let mut due = Vec::new();
        for row in self.world.drained() {
            let node = &row.node;
            let is_due = |drain: &&gpool_model::Drain| {
                drain.at_deadline != Displace::LetFinish
                    && drain.by.is_some_and(|by| by <= self.now)
            };
            if let Some(drain) = node.drain.as_ref().filter(is_due) {
                let mut what = Reserved::default();
                what.nodes.insert(node.name.clone());
                due.push((what, drain.clone(), format!("drain of {}", node.name)));
            }
            for (device, drain) in node.device_drains.iter().filter(|(_, drain)| is_due(drain)) {
                let mut what = Reserved::default();
                let own = what.devices.entry(node.name.clone()).or_default();
                own.extend(node.instances_of(device).map(|instance| instance.uuid.clone()));
                own.insert(device.clone());
                due.push((what, drain.clone(), format!("drain of a GPU of {}", node.name)));
            }
        }
        for (what, drain, by) in due {
            let nobody = |_: &JobSpec| false;
            let clearing = Clearing { what: &what, by: None, closes: self.now, admits: &nobody };
            for job in clearing.in_the_way(&self.world) {
                self.displace(job, drain.at_deadline, &drain.who, &by, kept);
            }
        }
    }

    fn displace(&mut self, job: JobId, how: Displace, who: &str, by: &str, kept: &mut Vec<Upkeep>) {
        let who = Arc::from(format!("{who} ({by})"));
        // A second run would do harm, so the job stays; an admin may cancel it.
        let row = self.world.job(job);
        let never = row.is_some_and(|row| row.spec.life.requeue == Some(false));
        if how == Displace::Requeue && never {
            return;
        }
        match how {
            Displace::LetFinish => return,
            Displace::Requeue => {
                let hold = row.is_some_and(|row| row.job.holder().is_some());
                self.stop(job, StopCause::Requeued { by: who, hold });
            }
            Displace::Cancel => self.stop(job, StopCause::Cancelled { by: who }),
        }
        kept.push(Upkeep::Displaced { job, how, by: by.to_owned() });
    }
}
