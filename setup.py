"""Builds the record kernel with Cython where a C compiler is there; without one the same file runs as plain Python."""

from Cython.Build import cythonize
from setuptools import Extension, setup

setup(
    ext_modules=cythonize(
        [Extension("ottla.records.kernel", ["src/ottla/records/kernel.py"], optional=True)],
        compiler_directives={"language_level": "3"},
    )
)
