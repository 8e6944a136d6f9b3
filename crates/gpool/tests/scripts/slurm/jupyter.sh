#!/bin/bash
#SBATCH --job-name=jupyter
#SBATCH --gres=gpu:1
#SBATCH --time=8:00:00
#SBATCH --output=jupyter.log

XDG_RUNTIME_DIR=""
port=8888
echo "ssh -N -L ${port}:$(hostname):${port} $USER"
jupyter lab --no-browser --port=${port}
