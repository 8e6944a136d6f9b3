#!/bin/bash
# GPOOL --gpus 3

#SBATCH --gres=gpu:1 -t 10
python o.py
