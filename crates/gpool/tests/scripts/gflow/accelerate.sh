#!/bin/bash
# GFLOW --gpus=4
# GFLOW --time=12:00:00

accelerate launch --num_processes 4 train.py
