#!/bin/bash
# GPOOL --gpus h100:2
# GPOOL -t 2d
# GPOOL -J model

torchrun --nproc-per-node $GPOOL_GPUS train.py
