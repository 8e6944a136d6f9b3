#!/bin/bash
# GFLOW --gpus=1
# GFLOW --time=45

python train.py --resume last.ckpt || exit $?
