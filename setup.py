"""Builds what is hot with Cython where a C compiler is there; without one the same files run as plain Python."""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

COMPILED = sorted(".".join(types.with_suffix("").parts[1:]) for types in Path("src").rglob("*.pxd"))
"""Whatever has a .pxd file beside it."""
LOOPS = ("ottla.records.", "ottla.storage.")
"""Packages whose compiled code is loops over bytes. Others' is calls: gcc makes them no faster in twice the time."""

setup(
    ext_modules=cythonize(
        [
            Extension(
                module,
                [f"src/{module.replace('.', '/')}.py"],
                depends=[f"src/{name.replace('.', '/')}.pxd" for name in COMPILED],
                # debugging information would be nine tenths of the file
                extra_compile_args=[]
                if sys.platform == "win32"
                else ["-g0", "-O2" if module.startswith(LOOPS) else "-O1"],
                optional=True,
            )
            for module in COMPILED
        ],
        build_dir="build",
        include_path=["src"],
        compiler_directives={
            "language_level": "3",
            # the types are in the .pxd files; the annotations are Python's
            "annotation_typing": False,
            # every index is checked by the code itself, as it must be to name what is wrong
            "boundscheck": False,
            "wraparound": False,
            "initializedcheck": False,
            "cdivision": True,
        },
    ),
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
