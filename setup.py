"""The tables of systems and images are next to workflows and scripts, in no package: a wheel takes copies of them."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

TABLES = ("jube/include/systems.yaml", "jube/include/refused.yaml", "containers/images.yaml")


class BuildWithTables(build_py):
    def run(self):
        super().run()
        if self.editable_mode:  # the originals are there
            return
        folder = str(Path(self.build_lib, "caraml", "tables"))
        self.mkpath(folder)
        for table in TABLES:
            self.copy_file(table, folder)


setup(cmdclass={"build_py": BuildWithTables})
