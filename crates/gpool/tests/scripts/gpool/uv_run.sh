#!/bin/bash
# GPOOL --gpus 1
# GPOOL -t 45s

uv run train.py
