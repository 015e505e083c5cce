"""Which files a compiled kernel depends on: a change of any of them, and of no other, makes it compile again."""

import ast
import re

import pytest

from windowgrad.kernels.runtime import jit, sources

FILES = {
    "__init__.py": "from made_up.entry import call",
    "entry.py": "def call():\n    from made_up.inner.kernels import own",
    "inner/__init__.py": "",
    "inner/kernels.py": "from made_up.inner import (\n    # (a comment)\n    helpers,\n)\nimport numpy\n",
    "inner/helpers.py": "import made_up.deep as below\nSIZE = 1\n",
    "inner/other.py": "from made_up.deep import something",
    "deep.py": "'nothing'",
    "alone.py": "from made_up_too import deep\n",
}
USERS = {
    "deep.py": {"", "entry", "inner.kernels", "inner.helpers", "inner.other", "deep"},
    "inner/helpers.py": {"", "entry", "inner.kernels", "inner.helpers"},
    "inner/__init__.py": {"", "entry", "inner.kernels", "inner"},
    "inner/other.py": {"inner.other"},
    "entry.py": {"", "entry"},
    "alone.py": {"alone"},
}
UNREADABLE = [
    "from . import deep",
    "import numpy; import made_up.deep",
    "from made_up import \\\n    deep",
    "import_module('made_up.deep')",
]


def forget():
    for cached in (sources.sources, sources.imported_by, sources.digest_of, jit.cache_folder):
        cached.cache_clear()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package in the place of the kernels."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sources, "SOURCES", tmp_path)
    monkeypatch.setattr(sources, "PACKAGE", "made_up")
    monkeypatch.setattr(sources, "EVERYWHERE", ())
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", str(tmp_path / "cache"))
    forget()
    yield tmp_path
    monkeypatch.undo()
    forget()


def folders():
    """Where kernels of each module are kept, as a new process would see it."""
    forget()
    modules = [name.removesuffix(".py").removesuffix("__init__").strip("/").replace("/", ".") for name in FILES]
    return {module: jit.cache_folder(".".join(filter(None, ("made_up", module)))) for module in modules}


def moved(package, changed, text):
    """The modules whose kernels are kept elsewhere once a file has changed."""
    before = folders()
    assert len(set(before.values())) == len(FILES)
    assert folders() == before
    (package / changed).write_text(text)
    return {module for module, folder in folders().items() if folder != before[module]}


@pytest.mark.parametrize("changed", USERS)
def test_a_changed_file_moves_the_kernels_of_the_modules_that_import_it_and_of_no_other(package, changed):
    assert moved(package, changed, FILES[changed] + "\n# changed") == USERS[changed]


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_module_whose_imports_cannot_be_read_depends_on_every_file(package, text):
    (package / "alone.py").write_text(text)
    assert moved(package, "inner/other.py", "# changed") == {"alone", "inner.other"}


def test_a_file_that_is_changed_while_a_process_runs_moves_nothing(package):
    """Its kernels are those of the text that was read, also if they are compiled later."""
    forget()
    before = sources.digest_of("made_up.alone")
    (package / "deep.py").write_text("# changed")
    late = sources.digest_of("made_up.deep")
    forget()
    assert sources.digest_of("made_up.alone") == before
    assert sources.digest_of("made_up.deep") != late


def test_a_module_of_another_package_depends_on_every_file_and_one_without_a_file_on_none(package):
    before = sources.digest_of("numpy")
    assert sources.digest_of("made_up.missing") is None
    (package / "new.py").touch()
    forget()
    assert sources.digest_of("numpy") != before


def test_what_a_factory_was_given_from_another_module_is_part_of_the_kernel(package):
    """Its module need not import that one."""

    def key():
        forget()
        space = {"__name__": "made_up.deep"}
        exec("def given(v): return v", space)
        made = {"__name__": "made_up.alone", "given": space["given"]}
        exec("def own(v): return given(v)", made)
        return jit.key_of(made["own"])

    before = key()
    assert key() == before
    (package / "inner/other.py").write_text("# changed")
    assert key() == before
    (package / "deep.py").write_text("# changed")
    assert key() != before


def imports(text):
    """The modules that Python imports for a text, and all names in them that could be modules."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def test_the_imports_of_all_kernels_are_found():
    """As Python's own parser finds them; and each module depends on a part of the files only."""
    for name, text in sources.sources().items():
        wanted = {found for module in imports(text) if (found := sources.file_of(module)) is not None}
        assert sources.imported_by(name) == wanted, name
    assert len(sources.files_of("windowgrad.kernels.pool.max.rows")) < len(sources.sources()) / 2


def test_what_numba_is_told_for_code_that_does_not_name_it_is_part_of_every_kernel():
    telling = re.compile(rb"^\s*@(infer|infer_global|infer_getattr|lower_\w+|type_callable|typeof_impl)\b", re.MULTILINE)
    assert {name for name, text in sources.sources().items() if telling.search(text)} == set(sources.EVERYWHERE)
