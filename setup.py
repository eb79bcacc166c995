"""Builds the record kernel with Cython where a C compiler is there; without one the same file runs as plain Python."""

import sys

from Cython.Build import cythonize
from setuptools import Extension, setup

setup(
    ext_modules=cythonize(
        [
            Extension(
                "ottla.records.kernel",
                ["src/ottla/records/kernel.py"],
                depends=["src/ottla/records/kernel.pxd"],
                # debugging information would be nine tenths of the file
                extra_compile_args=[] if sys.platform == "win32" else ["-g0"],
                optional=True,
            )
        ],
        build_dir="build",
        compiler_directives={
            "language_level": "3",
            # the types are in kernel.pxd; the annotations in kernel.py are Python's
            "annotation_typing": False,
            # every index is checked by the code itself, as it must be to name what is wrong
            "boundscheck": False,
            "wraparound": False,
            "initializedcheck": False,
            "cdivision": True,
        },
    )
)
