#!/bin/bash
# GFLOW --gpus=2
# GFLOW --time=1:00:00

torchrun --nproc-per-node 2 train.py
