#!/usr/bin/env bash
# aarch64.sh FOLDER PYTHON: run .ci/digest.py by FOLDER's wheel for aarch64, on Debian's Python for that machine, emulated. Needs Debian or Ubuntu, and root.
set -euo pipefail
folder=$1 python=$2 here=$(cd "$(dirname "$0")/.." && pwd) scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
apt=(apt-get -qq -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root)
{
  "${apt[@]}" update
  command -v qemu-aarch64-static || "${apt[@]}" install --yes --no-install-recommends qemu-user-static
  mkdir "$scratch/packages" "$scratch/root"
  version=$(apt-cache depends python3 | sed -n 's/.*Depends: python\(3\.[0-9]*\)$/\1/p' | head -1)
  (cd "$scratch/packages" && "${apt[@]}" download "python$version-minimal:arm64" "libpython$version-minimal:arm64" "libpython$version-stdlib:arm64" \
    {libc6,libgcc-s1,libstdc++6,zlib1g,libexpat1,libffi8,libssl3,libbz2-1.0,liblzma5,libsqlite3-0,libuuid1}:arm64)
  for package in "$scratch"/packages/*.deb; do dpkg-deb --extract "$package" "$scratch/root"; done
  for needed in "--require-hashes --requirement $here/requirements/service.txt" "$folder/explanation_sidecar-*_aarch64.whl"; do
    # shellcheck disable=SC2086  each word is one argument
    "$python" -m pip install --no-compile --no-deps --only-binary=:all: --target "$scratch/site" --python-version "$version" \
      --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 $needed
  done
} >&2
PYTHONPATH="$scratch/site" qemu-aarch64-static -L "$scratch/root" "$scratch/root/usr/bin/python$version" "$here/.ci/digest.py"
