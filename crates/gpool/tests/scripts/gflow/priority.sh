#!/bin/bash
# GFLOW --priority=5
# GFLOW --gpus=1

python low.py
