#!/bin/bash
# GPOOL --clean-env
# GPOOL -e MODE=test

echo "secret=${SECRET:-none} $MODE"
