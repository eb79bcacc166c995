"""Compiles every module that has a .pxd file, with Cython and a C compiler. Without a compiler the same files run as
plain Python. Only modules that changed are compiled again."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import Cython
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CCompilerError, ExecError

COMPILED = sorted(".".join(types.with_suffix("").parts[1:]) for types in Path("src").rglob("*.pxd"))
SHARED = "ottla.cython_shared"
"""Written by Cython: memory views and the like, which each module would otherwise have a copy of (a third of all C)."""
LOOPS = (
    "ottla.converters.json_kernel",
    "ottla.records.kernel",
    "ottla.records.columns",
    "ottla.records.columns_encode",
    "ottla.storage.tail",
)
"""Modules whose code is loops over bytes. The others' is calls, which -O2 makes no faster in twice the build time."""


def path_of(module: str, suffix: str) -> str:
    return f"src/{module.replace('.', '/')}{suffix}"


def types_of(module: str) -> Iterator[str]:
    """The .pxd files that a module is compiled with: its own, and those that these cimport."""
    found = [module]
    for one in found:
        yield path_of(one, ".pxd")
        text = Path(path_of(one, ".pxd")).read_text()
        found += [name for name in re.findall(r"^from (ottla\.\S+) cimport", text, re.MULTILINE) if name not in found]


class Build(build_ext):
    """Compiles what changed and prints a line for each module. All modules are compiled or none is: a compiled module
    cannot cimport a plain one."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self._is_in_place = bool(self.inplace)  # setuptools clears `inplace` while it builds
        if self._is_in_place:
            # setuptools removes the folders of an editable build, and the next one would compile everything again
            self.build_lib = self.build_temp = f"build/in-place-{sys.implementation.cache_tag}"

    def build_extensions(self) -> None:
        stale = [one for one in self.extensions if self._is_stale(one)]
        self._stale_count = len(stale)
        self._done_count = 0
        self._generating = threading.Lock()
        try:
            if stale:
                self._try_compiler()
            super().build_extensions()
        except (CCompilerError, ExecError) as error:
            print(f"ottla: built as plain Python, which is slower: no C compiler works here ({error})", file=sys.stderr)
            self._remove_compiled()
            self.extensions = []

    def build_extension(self, extension: Extension) -> None:
        if not self._is_stale(extension):
            return
        with self._generating:  # Cython keeps global state
            self._done_count += 1
            print(f"[{self._done_count:2}/{self._stale_count}] compiling {extension.name}", file=sys.stderr, flush=True)
            extension.sources = generated_sources(extension)
        super().build_extension(extension)

    def _is_stale(self, extension: Extension) -> bool:
        made = Path(self.get_ext_fullpath(extension.name))
        inputs = [Path(path) for path in (*extension.sources, *extension.depends, Cython.__file__)]
        return not made.exists() or made.stat().st_mtime <= max(path.stat().st_mtime for path in inputs)

    def _try_compiler(self) -> None:
        """Fails as the first module would, before any C code is generated."""
        Path(self.build_temp).mkdir(parents=True, exist_ok=True)
        trial = Path(self.build_temp) / "trial.c"
        trial.write_text("#include <Python.h>\n")
        self.compiler.compile([str(trial)], output_dir=self.build_temp)

    def _remove_compiled(self) -> None:
        """An older compiled module would be imported instead of the changed source."""
        for extension in self.extensions:
            Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            if self._is_in_place:
                Path("src", self.get_ext_filename(extension.name)).unlink(missing_ok=True)


class Package(build_py):
    """Adds what runs without a checkout: the console's page, and for `ottla demo` a copy of the pipeline `orders`."""

    def run(self) -> None:
        if not self.editable_mode:
            build_page()
        super().run()
        if not self.editable_mode:
            made = Path(self.build_lib, "ottla", "cli", "demo_pipeline")
            shutil.rmtree(made, ignore_errors=True)
            shutil.copytree("pipelines/orders", made, ignore=shutil.ignore_patterns(".state", "input", "output"))


def build_page() -> None:
    """Builds the console's page if its sources and npm are here. A wheel without the page works but for the console."""
    if Path("tools/console").exists() and os.name == "posix":
        subprocess.run(["tools/console", "build"], check=False)
    if not Path("src/ottla/console/page/index.html").exists():
        print("ottla: built without the console's page: it needs Node 20 and npm at build time", file=sys.stderr)


def generated_sources(extension: Extension) -> list[str]:
    """The C files that Cython makes of a module. Its progress is dropped; its errors go to stderr and end the build."""
    from Cython.Build import cythonize

    with redirect_stdout(StringIO()):
        (generated,) = cythonize(
            [extension],
            build_dir="build",
            include_path=["src"],
            force=True,
            shared_utility_qualified_name=SHARED,
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
        )
    return list(generated.sources)


def extension(module: str, sources: list[str], depends: list[str]) -> Extension:
    # debugging information would be nine tenths of the file
    flags = ["-g0", "-O2" if module in LOOPS else "-O1"]
    return Extension(
        module,
        sources,
        depends=["setup.py", *depends],
        extra_compile_args=[] if sys.platform == "win32" else flags,
    )


setup(
    ext_modules=[
        extension(SHARED, [], []),
        *(extension(module, [path_of(module, ".py")], list(types_of(module))) for module in COMPILED),
    ],
    cmdclass={"build_ext": Build, "build_py": Package},
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
