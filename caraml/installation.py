"""Installed parts of the suite: a checkout, the tables of systems and images, and packages that a command needs.

Only a checkout has workflows, images and site.yaml. An installed `caraml` uses the checkout that contains the current
folder; without one, it has the tables as copies that setup.py puts into the package.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from caraml.errors import NoCheckout

PACKAGE = Path(__file__).resolve().parent
SYSTEMS, IMAGES = Path("jube/include/systems.yaml"), Path("containers/images.yaml")
REFUSED = SYSTEMS.with_name("refused.yaml")
SYSTEM = SYSTEMS.with_name("system.yaml")  # for JUBE: the blocks as one set
OURS = ("benchmarks", "caraml", "ioprof", "results")
SAMPLER = "jpwr"  # a separate distribution, possibly in another folder


class _OwnPackages:
    """Finder of our packages in the folder of `caraml`."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return where one of our packages is; None for others."""
        return PathFinder.find_spec(name, [str(PACKAGE.parent)]) if name in (*OURS, SAMPLER) else None


def find_own_packages_first() -> None:
    """Import our packages from the folder of `caraml`.

    Names such as `results` are common: a folder on PYTHONPATH, or the current one, may have them, too.
    """
    sys.meta_path.insert(0, _OwnPackages)


def find_checkout() -> Path | None:
    """Return the checkout with this code, else the one that contains the current folder; None without one."""
    here = Path.cwd()
    return next((folder for folder in (PACKAGE.parent, here, *here.parents) if (folder / SYSTEMS).is_file()), None)


def checkout() -> Path:
    """Return the checkout; raises NoCheckout if there is none."""
    found = find_checkout()
    if found is None:
        raise NoCheckout(
            f"this needs a checkout of CARAML, with its workflows and site.yaml, and {Path.cwd()} is in none: "
            "change to one and try again"
        )
    return found


def missing_package(error: ImportError) -> str:
    """Return one sentence on a package that is missing or cannot be loaded; raises the error if it is ours."""
    name = (error.name or "").partition(".")[0]
    if name in OURS:
        raise error
    project = "./jpwr" if name == SAMPLER else "'.[report]'"
    in_checkout = (PACKAGE.parent / SYSTEMS).is_file()
    to_do = "make setup" if in_checkout else f"pip install {project} in a checkout of CARAML"
    found = f"has no module {name}" if isinstance(error, ModuleNotFoundError) else f"cannot load {name}: {error}"
    return f"{sys.executable} {found}: install it with {to_do}"
