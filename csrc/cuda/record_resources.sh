#!/bin/sh
# Runs nvcc and keeps what ptxas tells of each kernel (registers, spills, shared memory) beside the object; all else that
# it tells is printed. bench/gpu/resources.py holds it to what is stored.
previous= object=
for word; do
    [ "$previous" = -o ] && object=$word
    previous=$word
done
"$@" 2>"$object.resources"
status=$?
grep -v -e '^ptxas info' -e 'bytes stack frame' -e '^[[:space:]]*$' "$object.resources" >&2
exit $status
