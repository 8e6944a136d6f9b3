"""Sweeps over two parameters with hydra's launcher for submitit."""

import os

import hydra


@hydra.main(version_base=None, config_path=None, config_name=None)
def main(config):
    with open(f"{config.folder}/{config.lr}-{config.seed}", "w") as file:
        file.write(f"{config.lr} {config.seed} {os.environ['SLURM_ARRAY_JOB_ID']}")


if __name__ == "__main__":
    main()
