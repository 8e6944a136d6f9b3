#!/bin/bash
# GPOOL --gpus 40G..:1
# GPOOL --mem 1G
# GPOOL -c 1

python m.py
