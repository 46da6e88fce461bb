#!/usr/bin/env bash
# Runs a program of Python with the first of two interpreters that is there.    with_either.sh PYTHON OTHER ARGUMENTS
python=$1
[ -x "$python" ] || python=$2
exec "$python" "${@:3}"
