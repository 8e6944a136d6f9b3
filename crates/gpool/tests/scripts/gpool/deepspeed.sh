#!/bin/bash
# GPOOL --gpus 4 --mem 2G
# GPOOL --time 12:00:00

deepspeed --num_gpus $GPOOL_GPUS train.py --zero 3
