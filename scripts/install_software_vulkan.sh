#!/usr/bin/env bash
# Software Vulkan for SAPIEN (ManiSkill, Open3D's pictures) on a machine without a GPU. As root.
# SAPIEN refuses the Mesa 22.3 of Debian 12, so there it comes from bookworm-backports, on the mirror
# that this machine uses already; elsewhere from the distribution, which must have Mesa 23 or newer.
set -euo pipefail

if ! command -v apt-get >/dev/null; then
  echo "no apt-get here: install your distribution's Vulkan loader and Mesa's lavapipe, 23 or newer" >&2
  exit 1
fi
if [ "$(id -u)" != 0 ]; then
  echo "run it as root: sudo bash $0" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
from=()
if [ "$codename" = bookworm ]; then
  from=(-t bookworm-backports)
  list=/etc/apt/sources.list.d/backports.sources
  if [ ! -e "$list" ]; then
    mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/*.sources 2>/dev/null | head -n 1 || true)
    [ -n "$mirror" ] || mirror=$(sed -n 's/^deb *\([^ ]*\).*/\1/p' /etc/apt/sources.list | head -n 1 || true)
    cat >"$list" <<EOF
Types: deb
URIs: $mirror
Suites: bookworm-backports
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
EOF
  fi
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends libvulkan1 >/dev/null
apt-get install -y -qq --no-install-recommends "${from[@]}" mesa-vulkan-drivers >/dev/null
if [ -n "${VK_ICD_FILENAMES+set}" ]; then
  echo "VK_ICD_FILENAMES is set; unset it, or Vulkan looks at that file alone" >&2
fi
dpkg-query -W mesa-vulkan-drivers
