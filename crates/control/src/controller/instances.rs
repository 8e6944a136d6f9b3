//! MIG instances by demand, in the pools with the setting `mig_auto`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpool_model::{DeviceUuid, PoolName};
use gpool_sched::Explainer;
use gpool_sched::mig_plan::{self, MigStep};
use gpool_world::World;

use super::{Act, Controller, Look, Needs, Next, Outcome};

/// How long a device is left alone after a failed change, and the longest wait for the report of a
/// new instance.
const REST: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default)]
pub struct MigController {
    /// The uptime at the last failed change of each device.
    failed: BTreeMap<DeviceUuid, Duration>,
    /// The last new instance, with the uptime. Until the state has it, a plan would create another.
    awaited: Option<(DeviceUuid, Duration)>,
}

impl Controller for MigController {
    fn needs(world: &World) -> Needs {
        let is_on = world.policy().all().any(|policy| policy.mig_auto);
        if is_on && !mig_plan::waiting(world).is_empty() { Needs::Reasons } else { Needs::Nothing }
    }

    fn round(&mut self, look: &Look<'_>) -> Vec<Act> {
        let is_recent = |since: Duration| look.uptime.saturating_sub(since) < REST;
        self.failed.retain(|_, since| is_recent(*since));
        self.awaited.take_if(|(it, since)| !is_recent(*since) || is_known(look.world, it));
        if self.awaited.is_some() {
            return Vec::new();
        }
        let except = self.failed.keys().cloned().collect();
        let is_auto = |pool: &PoolName| look.world.makes_instances(pool);
        let steps = mig_steps(look.world, look.explainer, &is_auto, &except);
        steps.into_iter().map(|step| Act::ChangeInstances(Box::new(step))).collect()
    }

    fn note(&mut self, act: &Act, outcome: &Outcome, uptime: Duration) -> Next {
        let Act::ChangeInstances(step) = act else { return Next::Act };
        match outcome {
            Outcome::Done => return Next::Act,
            // It may start a job that the rest of the plan did not expect.
            Outcome::Created(instance) => self.awaited = Some((instance.clone(), uptime)),
            Outcome::Outdated => {}
            Outcome::Failed => drop(self.failed.insert(step.device.clone(), uptime)),
        }
        Next::Round
    }
}

fn is_known(world: &World, instance: &DeviceUuid) -> bool {
    let mut devices = world.nodes().iter().flat_map(|row| &row.node.devices);
    devices.any(|device| device.uuid == *instance)
}

/// The changes of instances that waiting jobs need, in the pools of `is_auto`. Devices of `except`
/// stay as they are.
#[must_use]
pub fn mig_steps(
    world: &World,
    explainer: &Explainer<'_>,
    is_auto: &dyn Fn(&PoolName) -> bool,
    except: &BTreeSet<DeviceUuid>,
) -> Vec<MigStep> {
    let lacks = |row| explainer.briefly(row).first().is_some_and(mig_plan::lacks_instances);
    let mut waiting = mig_plan::waiting(world);
    waiting.retain(|job| world.job(*job).is_some_and(lacks));
    mig_plan::plan(world, &waiting, is_auto, except)
}
