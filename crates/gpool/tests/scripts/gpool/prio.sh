#!/bin/bash
# GPOOL --prio -5

python p.py
