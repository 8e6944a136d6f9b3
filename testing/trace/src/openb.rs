//! Nodes and tasks of the cluster published with "Beware of Fragmentation" (Weng et al., USENIX ATC
//! 2023; `alibaba/clusterdata`, cluster-trace-gpu-v2023).

use std::path::Path;

use gpool_sched::fragmentation::{FreePart, TaskDemand, WHOLE};

use crate::table::{Table, TraceError};

const MIB: u64 = 1024 * 1024;
/// Each model is one bit.
const MODELS_MAX: usize = 64;

#[derive(Debug, Clone, Default)]
pub struct Cluster {
    /// The names of the nodes, ascending.
    pub names: Vec<String>,
    /// The capacity of each node, in that order.
    pub nodes: Vec<FreePart>,
    /// Models of devices, by number.
    pub models: Vec<String>,
}

impl Cluster {
    /// Reads nodes: `sn,cpu_milli,memory_mib,gpu,model`.
    ///
    /// # Errors
    /// If the file can't be read, or has a wrong line.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let mut table = Table::open(path)?;
        let names = ["sn", "cpu_milli", "memory_mib", "gpu", "model"];
        let [sn, cpus, memory, gpu, model] = columns(&table, names)?;
        let mut models = Vec::<String>::new();
        let mut nodes = Vec::new();
        while table.advance()? {
            let n_gpus: usize = table.value(gpu, "a number of GPUs")?;
            if n_gpus > 1024 {
                return Err(table.malformed(gpu, "a number of GPUs of one node, at most 1024"));
            }
            let known = models.iter().position(|it| it == table.text(model));
            let number = known.unwrap_or(models.len());
            if known.is_none() {
                if number == MODELS_MAX {
                    return Err(table.malformed(model, "one of the first 64 models"));
                }
                models.push(table.text(model).to_owned());
            }
            let left = FreePart {
                model: u32::try_from(number).unwrap_or(0),
                cpus: table.value(cpus, "thousandths of cores, a whole number")?,
                memory: mib(&table, memory)?,
                free: vec![WHOLE; n_gpus],
            };
            nodes.push((table.text(sn).to_owned(), left));
        }
        nodes.sort();
        let (names, nodes) = nodes.into_iter().unzip();
        Ok(Self { names, nodes, models })
    }

    /// Returns the thousandths of all devices.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        self.nodes.iter().map(FreePart::gpus).sum()
    }

    /// Returns the thousandths of devices by number of the model.
    #[must_use]
    pub fn gpus_by_model(&self) -> Vec<u64> {
        let mut by_model = vec![0; self.models.len()];
        for node in &self.nodes {
            by_model[node.model as usize] += node.gpus();
        }
        by_model
    }

    /// Reads tasks: `cpu_milli,memory_mib,num_gpu,gpu_milli` and, if present, `gpu_spec` with
    /// alternative models between bars.
    ///
    /// # Errors
    /// If the file can't be read, or has a wrong line.
    pub fn read_tasks(&self, path: &Path) -> Result<Vec<TaskDemand>, TraceError> {
        let mut table = Table::open(path)?;
        let names = ["cpu_milli", "memory_mib", "num_gpu", "gpu_milli"];
        let [cpus, memory, gpus, part] = columns(&table, names)?;
        let spec = table.optional("gpu_spec");
        let mut tasks = Vec::new();
        while table.advance()? {
            let n_gpus: u32 = table.value(gpus, "a number of GPUs")?;
            let expected = "thousandths of a GPU: 1 to 1000, below 1000 of one GPU alone";
            let part: u32 = match n_gpus {
                0 => 0,
                _ => table.value(part, expected)?,
            };
            if n_gpus > 0 && (part == 0 || part > WHOLE || (part < WHOLE && n_gpus > 1)) {
                let [.., part] = columns(&table, names)?;
                return Err(table.malformed(part, expected));
            }
            let asked = spec.map_or("", |spec| table.text(spec));
            tasks.push(TaskDemand {
                cpus: table.value(cpus, "thousandths of cores, a whole number")?,
                memory: mib(&table, memory)?,
                n_gpus,
                part,
                models: self.models_of(asked),
            });
        }
        Ok(tasks)
    }

    /// All models, unless some are named.
    fn models_of(&self, spec: &str) -> u64 {
        if spec.is_empty() {
            return u64::MAX;
        }
        let named = spec.split('|').map(str::trim);
        let found = named.filter_map(|name| self.models.iter().position(|model| model == name));
        found.fold(0, |bits, model| bits | 1 << model)
    }
}

fn mib(table: &Table, column: usize) -> Result<u64, TraceError> {
    let expected = "MiB of memory, a whole number";
    let mib: u64 = table.value(column, expected)?;
    mib.checked_mul(MIB).ok_or_else(|| table.malformed(column, expected))
}

fn columns<const N: usize>(table: &Table, names: [&str; N]) -> Result<[usize; N], TraceError> {
    let mut found = [0; N];
    for (column, name) in found.iter_mut().zip(names) {
        *column = table.column(name)?;
    }
    Ok(found)
}
