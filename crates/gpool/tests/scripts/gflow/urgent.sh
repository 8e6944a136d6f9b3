#!/bin/bash
# GFLOW --priority=50
# GFLOW --gpus=1

python urgent.py
