#!/bin/bash
# GPOOL --note 'the second try, with dropout'
# GPOOL -J dropout

python n.py
