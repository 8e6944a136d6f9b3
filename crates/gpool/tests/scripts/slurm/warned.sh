#!/bin/bash
#SBATCH -J warned
#SBATCH --gres=gpu:1
#SBATCH --time=1:00:00
#SBATCH --signal=B:USR1@300

trap 'touch stop' USR1
python train.py --until-told &
wait
