#!/usr/bin/env bash
# Does pip install the package, with the library inside and nothing left beside the sources, and does what is installed
# pass the package's tests?      install.sh PYTHON SOURCE LIBRARY FOLDER      exit code 77: pip or numpy is not there
set -euo pipefail
python=$1 source=$2 library=$3 folder=$4
wheel=wheel  # part of setuptools from 70 on
"$python" -c "import setuptools.command.bdist_wheel" 2>/dev/null && wheel=setuptools
for module in numpy pip setuptools $wheel; do
  "$python" -c "import $module" 2>/dev/null || { echo "skipped: $python has no $module"; exit 77; }
done
rm -rf "$folder"
mkdir -p "$folder/empty"
before=$(ls -A "$source/python" "$source/python/plumbline")
PLUMB_LIBRARY=$library "$python" -m pip install --quiet --disable-pip-version-check --no-index --no-build-isolation \
  --no-deps --no-compile --no-cache-dir --target "$folder/site" "$source/python"
after=$(ls -A "$source/python" "$source/python/plumbline")
[ "$before" = "$after" ] || { echo "left beside the sources: $after"; exit 1; }
cmp "$folder/site/plumbline/libplumb.so" "$library"
grep -q '^Tag: py3-none-linux' "$folder"/site/plumbline-*.dist-info/WHEEL
cd "$folder/empty"
env -u PLUMB_LIBRARY PYTHONPATH="$folder/site" PYTHONDONTWRITEBYTECODE=1 "$python" "$source/tests/python/package_test.py"
