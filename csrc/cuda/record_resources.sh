#!/bin/sh
# Runs nvcc with -Xptxas=-v and writes what it prints (registers, spills and shared memory of each kernel) beside the
# object, as OBJECT.resources; prints warnings and errors. CMake wraps nvcc in it with -DMISSDIFF_RECORD_RESOURCES=ON;
# bench/gpu/resources.py compares the result with resources.json.
previous= object=
for word; do
    [ "$previous" = -o ] && object=$word
    previous=$word
done
"$@" 2>"$object.resources"
status=$?
grep -v -e '^ptxas info' -e 'bytes stack frame' -e '^[[:space:]]*$' "$object.resources" >&2
exit $status
