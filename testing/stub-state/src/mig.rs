//! Division of a device into MIG instances, as the driver does it: by places in memory slices.

use crate::state::{Device, GpuInstance, Instance, MigProfile};

/// Compute slices of a device.
const SLICES: u32 = 7;

type Shape = (u32, u32, u32, u32, u32, &'static [u32]);

/// Kind, number, compute slices, memory slices, most, and places of the profiles of all devices
/// with 80 GB or more.
///
/// Source: NVIDIA Multi-Instance GPU user guide, "Supported MIG profiles".
const SHAPES: [Shape; 7] = [
    (0, 19, 1, 1, 7, &[0, 1, 2, 3, 4, 5, 6]),
    (7, 20, 1, 1, 1, &[0, 1, 2, 3, 4, 5, 6]),
    (9, 15, 1, 2, 4, &[0, 2, 4, 6]),
    (1, 14, 2, 2, 3, &[0, 2, 4]),
    (2, 9, 3, 4, 2, &[0, 4]),
    (3, 5, 4, 4, 1, &[0]),
    (4, 0, 7, 8, 1, &[0]),
];

/// The profiles from names, multiprocessors and MiB of memory.
fn profiles(sizes: [(&str, u32, u64); 7]) -> Vec<MigProfile> {
    let profile = |((kind, id, slices, size, most, starts), (name, sms, memory_mb))| MigProfile {
        kind,
        id,
        name: format!("MIG {name}"),
        slices,
        most,
        multiprocessors: sms,
        memory_mb,
        size,
        starts: <[u32]>::to_vec(starts),
    };
    SHAPES.into_iter().zip(sizes).map(profile).collect()
}

impl MigProfile {
    /// The profiles of an A100 with 80 GB.
    #[must_use]
    pub fn of_a100() -> Vec<Self> {
        profiles([
            ("1g.10gb", 14, 9856),
            ("1g.10gb+me", 14, 9856),
            ("1g.20gb", 14, 19_968),
            ("2g.20gb", 28, 19_968),
            ("3g.40gb", 42, 40_192),
            ("4g.40gb", 56, 40_192),
            ("7g.80gb", 98, 80_384),
        ])
    }

    /// The profiles of an H100 with 80 GB.
    #[must_use]
    pub fn of_h100() -> Vec<Self> {
        profiles([
            ("1g.10gb", 16, 9984),
            ("1g.10gb+me", 16, 9984),
            ("1g.20gb", 26, 20_096),
            ("2g.20gb", 32, 20_096),
            ("3g.40gb", 60, 40_448),
            ("4g.40gb", 64, 40_448),
            ("7g.80gb", 132, 81_008),
        ])
    }

    /// The profiles of an H200.
    #[must_use]
    pub fn of_h200() -> Vec<Self> {
        profiles([
            ("1g.18gb", 16, 18_432),
            ("1g.18gb+me", 16, 18_432),
            ("1g.35gb", 26, 35_840),
            ("2g.35gb", 32, 35_840),
            ("3g.71gb", 60, 72_704),
            ("4g.71gb", 64, 72_704),
            ("7g.141gb", 132, 144_384),
        ])
    }
}

impl Device {
    /// The profile with a number.
    #[must_use]
    pub fn mig_profile(&self, id: u32) -> Option<&MigProfile> {
        self.mig_profiles.iter().find(|profile| profile.id == id)
    }

    /// The places where further instances of a profile could be, all at once.
    #[must_use]
    pub fn mig_places(&self, profile: &MigProfile) -> Vec<u32> {
        let all = self.gpu_instances.iter();
        let present: Vec<(&GpuInstance, &MigProfile)> =
            all.filter_map(|it| Some((it, self.mig_profile(it.profile)?))).collect();
        let slices: u32 = present.iter().map(|(_, own)| own.slices).sum();
        let n_own = present.iter().filter(|(_, own)| own.id == profile.id).count();
        let by_compute = SLICES.saturating_sub(slices) / profile.slices;
        let left = profile.most.saturating_sub(u32::try_from(n_own).unwrap_or(u32::MAX));
        let is_free = |start: u32| {
            let apart = |(it, own): &(&GpuInstance, &MigProfile)| {
                start + profile.size <= it.start || it.start + own.size <= start
            };
            present.iter().all(apart)
        };
        let mut places = Vec::new();
        let mut end = 0;
        for start in profile.starts.iter().copied().filter(|start| is_free(*start)) {
            if start >= end {
                places.push(start);
                end = start + profile.size;
            }
        }
        places.truncate(left.min(by_compute) as usize);
        places
    }

    /// Makes a GPU instance at the first place, without compute instance; `None` if there is no
    /// place.
    pub fn add_gpu_instance(&mut self, profile: u32) -> Option<u32> {
        let start = *self.mig_places(self.mig_profile(profile)?).first()?;
        let is_taken = |id: u32| self.gpu_instances.iter().any(|it| it.id == id);
        let id = (1..).find(|id| !is_taken(*id))?;
        self.gpu_instances.push(GpuInstance { id, profile, start });
        Some(id)
    }

    /// Makes the compute instance, and so the MIG device, of a GPU instance.
    pub fn add_compute_instance(&mut self, gpu_instance: u32) -> Option<()> {
        let of = self.gpu_instances.iter().find(|it| it.id == gpu_instance)?.profile;
        let profile = self.mig_profile(of)?;
        let instance = Instance {
            uuid: format!("MIG-{}-{}", self.uuid, self.n_divided),
            memory_mb: profile.memory_mb,
            slices: profile.slices,
            name: Some(format!("{} {}", self.name, profile.name)),
            gpu_instance: Some(gpu_instance),
            ..Instance::default()
        };
        self.n_divided += 1;
        match self.instances.iter_mut().find(|it| it.uuid.is_empty()) {
            Some(place) => *place = instance,
            None => self.instances.push(instance),
        }
        Some(())
    }

    /// The MIG device of a GPU instance.
    #[must_use]
    pub fn instance_of(&self, gpu_instance: u32) -> Option<&Instance> {
        self.instances.iter().find(|it| it.gpu_instance == Some(gpu_instance))
    }

    /// Removes the MIG device of a GPU instance; its place stays.
    pub fn remove_compute_instance(&mut self, gpu_instance: u32) {
        let is_it = |it: &&mut Instance| it.gpu_instance == Some(gpu_instance);
        self.instances.iter_mut().filter(is_it).for_each(|it| *it = Instance::default());
    }
}
