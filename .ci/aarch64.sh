#!/usr/bin/env bash
# aarch64.sh HOME WHEEL PYTHON: make HOME/bin/python, Debian's Python for aarch64, emulated, with a wheel of the sidecar for that machine. Needs Debian or Ubuntu, and root.
set -euo pipefail
home=$1 wheel=$2 python=$3 here=$(cd "$(dirname "$0")/.." && pwd)
apt=(apt-get -qq -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root)
"${apt[@]}" update
command -v qemu-aarch64-static || "${apt[@]}" install --yes --no-install-recommends qemu-user-static
mkdir -p "$home/packages" "$home/root" "$home/bin"
version=$(apt-cache depends python3 | sed -n 's/.*Depends: python\(3\.[0-9]*\)$/\1/p' | head -1)
(cd "$home/packages" && "${apt[@]}" download "python$version-minimal:arm64" "libpython$version-minimal:arm64" "libpython$version-stdlib:arm64" \
  {libc6,libgcc-s1,libstdc++6,zlib1g,libexpat1,libffi8,libssl3,libbz2-1.0,liblzma5,libsqlite3-0,libuuid1}:arm64)
for package in "$home"/packages/*.deb; do dpkg-deb --extract "$package" "$home/root"; done
for needed in "--require-hashes --requirement $here/requirements/service.txt" "$wheel"; do
  # shellcheck disable=SC2086  each word is one argument
  "$python" -m pip install --quiet --no-compile --no-deps --only-binary=:all: --target "$home/site" --python-version "$version" \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 $needed
done
# Processes that it starts are started by this file as well.
cat > "$home/bin/python" <<END
#!/bin/sh
PYTHONPATH="$home/site" exec qemu-aarch64-static -0 "\$0" -L "$home/root" "$home/root/usr/bin/python$version" "\$@"
END
chmod +x "$home/bin/python"
