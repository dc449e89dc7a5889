"""Robots by name; a driver's own library is imported when it is opened."""

from pkgutil import resolve_name

from stages.envs.errors import EnvConfigError
from stages.envs.real.driver import RobotDriver

DRIVERS = {
    "socket": "stages.envs.real.drivers.socket:SocketDriver",
    "xarm": "stages.envs.real.drivers.xarm:XArmDriver",
}


def open_driver(what: str) -> RobotDriver:
    """`NAME:ADDRESS` -> a connected driver. Raises EnvConfigError or ConnectionLostError."""
    name, _, address = what.partition(":")
    if name not in DRIVERS or not address:
        raise EnvConfigError(
            f"driver {what!r}: expected NAME:ADDRESS with a name of {', '.join(DRIVERS)}"
        )
    return resolve_name(DRIVERS[name])(address)
