//! Changes the size of the shares of running jobs.

use gpool_model::resource::ResourceKind;
use gpool_model::{
    Allocation, Bytes, GpuAmount, GpuRequest, GpuTime, Job, JobSpec, MilliGpu, Phase, Refusal,
    Share, Slot, SlotPart,
};
use gpool_world::JobRow;

use crate::control::Control;
use crate::project_tree;

impl Control {
    /// Checks that the shares of a running job can have the size of its edited spec: its devices
    /// have room, and its project and user may hold that much.
    pub(crate) fn check_size(&self, row: &JobRow, spec: &JobSpec) -> Result<(), Refusal> {
        if row.spec.gpus == spec.gpus {
            return Ok(());
        }
        let share = same_but_size(&row.spec.gpus, &spec.gpus).ok_or_else(|| {
            invalid(
                "while a job runs, only the size of its shares can change, for example from 0.25 \
                 to 0.5:1; cancel the job and submit it again for other GPUs"
                    .to_owned(),
            )
        })?;
        for allocation in row.job.phase.allocations() {
            for slot in &allocation.slots {
                self.check_room(allocation, slot, share)?;
            }
        }
        self.check_held(row, spec)
    }

    fn check_room(
        &self,
        allocation: &Allocation,
        slot: &Slot,
        share: Share,
    ) -> Result<(), Refusal> {
        let node = self.world.node(&allocation.node);
        let found = node.and_then(|row| {
            let ix = row.node.devices.iter().position(|it| it.uuid == slot.device)?;
            Some((row, ix))
        });
        let Some((row, ix)) = found else {
            let why = format!("GPU {} of {} is missing now", slot.index, allocation.node);
            return Err(invalid(why));
        };
        let memory = row.node.devices[ix].memory;
        let most = row.free_memory(ix).saturating_add(slot.part.memory_of(memory)).min(memory);
        let wanted = share.memory_of(memory);
        if wanted <= most || wanted <= slot.part.memory_of(memory) {
            return Ok(());
        }
        let most = match share {
            Share::Part { .. } => {
                let request = MilliGpu::new(part_of(most, memory));
                Share::Part { request, limit: request }
            }
            Share::Memory { .. } => Share::Memory { request: most, limit: most },
        };
        Err(invalid(format!(
            "GPU {} of {} has room for at most {most} of this job, because other jobs have the \
             rest; request that, or run gpool requeue {} and change it while it waits",
            slot.index, allocation.node, allocation.task.job
        )))
    }

    /// Checks the limits of the projects and the user. What is not preemptible stays within the
    /// guarantee, as at its start.
    fn check_held(&self, row: &JobRow, spec: &JobSpec) -> Result<(), Refusal> {
        let mut job = row.job.clone();
        resize(&mut job, spec, &|allocation, slot| self.memory_of(allocation, slot));
        let projects = self.world.projects();
        let children = project_tree::children(projects);
        let is_bounded = self.world.policy().shares() && row.spec.life.preemptible != Some(true);
        let mut gpus = 0;
        for (old, new) in row.job.phase.allocations().iter().zip(job.phase.allocations()) {
            let before = self.world.booked(old);
            for (kind, amount) in self.world.booked(new).iter() {
                let more = amount.saturating_sub(before.get(kind));
                if more == 0 {
                    continue;
                }
                if *kind == ResourceKind::Gpu {
                    gpus += more;
                }
                let own = projects.get(&spec.project).into_iter();
                for project in own.chain(self.world.upwards(&spec.project)) {
                    let Some(held) = self.world.project_row(&project.name) else { continue };
                    let (held, for_good) = (held.sum.held.get(kind), held.sum.for_good.get(kind));
                    let limit = project.quota(kind).limit;
                    let most = project_tree::guaranteed(projects, &children, project, kind);
                    let is_over = !limit.allows(held.saturating_add(more))
                        || (is_bounded
                            && self.world.promises(kind)
                            && !most.allows(for_good.saturating_add(more)));
                    if is_over {
                        return Err(invalid(format!(
                            "project {} may not hold that much more; see gpool project show {}",
                            project.name, project.name
                        )));
                    }
                }
            }
        }
        let held = self.world.held_by(spec.owner.uid).gpus.get();
        let most = self.world.caps_of(spec.owner.uid).gpus;
        match most {
            Some(most) if gpus > 0 && held.saturating_add(gpus) > most.get() => {
                let user = &spec.owner.user;
                Err(invalid(format!("user {user} may not hold that much more; see gpool limits")))
            }
            _ => Ok(()),
        }
    }

    /// Gives the shares of a running job the size of its edited spec. Returns whether it changed.
    pub(crate) fn resize(&self, job: &mut Job, spec: &JobSpec) -> bool {
        if !matches!(job.phase, Phase::Running { .. }) || spec.gpus.share().is_none() {
            return false;
        }
        let before = job.clone();
        resize(job, spec, &|allocation, slot| self.memory_of(allocation, slot));
        if before.phase == job.phase {
            return false;
        }
        let ran = job.ran(self.now);
        let of = |job: &Job| i64::try_from(GpuTime::of(job.allocated_gpus(), ran).get());
        let (was, is) = (of(&before).unwrap_or(i64::MAX), of(job).unwrap_or(i64::MAX));
        job.course.resized = job.course.resized.saturating_add(was.saturating_sub(is));
        job.generation = job.generation.next();
        true
    }

    fn memory_of(&self, allocation: &Allocation, slot: &Slot) -> Option<Bytes> {
        let node = &self.world.node(&allocation.node)?.node;
        Some(node.devices.iter().find(|it| it.uuid == slot.device)?.memory)
    }
}

/// Gives the slots of a job the size of its spec.
fn resize(job: &mut Job, spec: &JobSpec, memory_of: &dyn Fn(&Allocation, &Slot) -> Option<Bytes>) {
    let Some(share) = spec.gpus.share() else { return };
    for allocation in job.phase.allocations_mut() {
        let part = |slot: &Slot| match memory_of(allocation, slot) {
            Some(memory) => share.slot_of(memory),
            None => slot.part,
        };
        let parts: Vec<SlotPart> = allocation.slots.iter().map(part).collect();
        for (slot, part) in allocation.slots.iter_mut().zip(parts) {
            slot.part = part;
        }
        allocation.resources = spec.resources(allocation.task.rank, &allocation.slots);
    }
}

/// The new share, if two requests differ only in the size of their shares.
fn same_but_size(old: &GpuRequest, new: &GpuRequest) -> Option<Share> {
    let (was, is) = (old.share()?, new.share()?);
    let is_form_kept = matches!(
        (was, is),
        (Share::Part { .. }, Share::Part { .. }) | (Share::Memory { .. }, Share::Memory { .. })
    );
    let count = old.n_devices();
    let as_before = GpuRequest { amount: GpuAmount::Shared { count, share: is }, ..old.clone() };
    (is_form_kept && as_before == *new).then_some(is)
}

/// A part of a device in thousandths, rounded down.
fn part_of(memory: Bytes, device: Bytes) -> u64 {
    let milli = u128::from(memory.get()) * 1000 / u128::from(device.get().max(1));
    u64::try_from(milli).unwrap_or(u64::MAX)
}

fn invalid(why: String) -> Refusal {
    Refusal::Invalid { field: "gpus".to_owned(), why }
}
