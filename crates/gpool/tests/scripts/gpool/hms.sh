#!/bin/bash
# GPOOL --time 2-00:00:00

python m.py
