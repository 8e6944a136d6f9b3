#!/bin/bash
# GPOOL --gpus 1 --time 1h

python train.py
