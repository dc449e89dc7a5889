"""Vulkan as SAPIEN meets it: which drivers there are, and whether it draws on one of them."""

import re

DRIVERS = """
import ctypes as c
lib = c.CDLL('libvulkan.so.1')
class App(c.Structure):
    _fields_ = [('type', c.c_int), ('next', c.c_void_p), ('name', c.c_char_p), ('v', c.c_uint32),
                ('engine', c.c_char_p), ('ev', c.c_uint32), ('api', c.c_uint32)]
class Create(c.Structure):
    _fields_ = [('type', c.c_int), ('next', c.c_void_p), ('flags', c.c_uint32),
                ('app', c.POINTER(App)), ('rest', c.c_uint64 * 4)]
class Driver(c.Structure):
    _fields_ = [('type', c.c_int), ('next', c.c_void_p), ('id', c.c_int),
                ('name', c.c_char * 256), ('info', c.c_char * 256), ('conformance', c.c_uint32)]
class Properties(c.Structure):
    _fields_ = [('type', c.c_int), ('next', c.c_void_p), ('numbers', c.c_uint32 * 5),
                ('device', c.c_char * 256), ('rest', c.c_uint8 * 4096)]
app = App(api=(1 << 22) | (1 << 12))  # Vulkan 1.1 has vkGetPhysicalDeviceProperties2
create, instance, count = Create(type=1, app=c.pointer(app)), c.c_void_p(), c.c_uint32()
made = lib.vkCreateInstance(c.byref(create), None, c.byref(instance))
assert made == 0, f'no instance (VkResult {made}): no driver is installed, or none loads'
lib.vkEnumeratePhysicalDevices(instance, c.byref(count), None)
assert count.value, 'no device: no driver is installed'
devices = (c.c_void_p * count.value)()
lib.vkEnumeratePhysicalDevices(instance, c.byref(count), devices)
for device in devices:
    driver = Driver(type=1000196000)
    found = Properties(type=1000059001, next=c.cast(c.pointer(driver), c.c_void_p))
    lib.vkGetPhysicalDeviceProperties2(c.c_void_p(device), c.byref(found))
    print(found.device.decode() + ', ' + driver.info.decode())
"""
"""Prints a line a device: its name, and what its driver says of itself."""

DRAWS = (
    "import sapien, torch\n"
    "name = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
    "sapien.render.RenderSystem(sapien.Device(name))\n"
    "print('draws on ' + name)\n"
)
"""Ends with an error where ManiSkill could not render."""

MESA = re.compile(r"Mesa (\d+)\.(\d+)")
REFUSED = (22, 3)  # of Debian 12; 25.0 draws
SCRIPT = "bash scripts/install_software_vulkan.sh"


def old_mesa(drivers: str) -> str:
    """The Mesa of a software driver that SAPIEN refuses, as "Mesa 22.3", or ""."""
    for line in drivers.splitlines():
        found = MESA.search(line)
        if found and "llvmpipe" in line and tuple(map(int, found.groups())) <= REFUSED:
            return found.group()
    return ""


def advice(drivers: str, problem: str, icd: str | None) -> tuple[str, str]:
    """(what is wrong, its fix) when SAPIEN does not draw, as its `problem` says.

    `drivers`: what DRIVERS printed, "" when it failed too. `icd`: VK_ICD_FILENAMES or None.
    """
    if icd is not None and not drivers:
        what = "empty" if not icd else f"{icd!r}"
        return f"{problem}; VK_ICD_FILENAMES is {what}", "unset VK_ICD_FILENAMES"
    if mesa := old_mesa(drivers):
        return f"{problem}; SAPIEN refuses {mesa}'s software driver", SCRIPT
    if not drivers:
        return problem, f"the GPU's driver, or without one: {SCRIPT}"
    return f"{problem}; Vulkan itself has {drivers.splitlines()[0]}", SCRIPT
