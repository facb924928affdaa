"""Files: atomic writes, JSON and JSONL with errors that name the line, hashes.

Every write goes to a temporary file next to its target, which then replaces the target by renaming. So a reader (or a
run resumed after ``kill -9``) finds the old content or the new, never a mixture.
"""

from __future__ import annotations

import codecs
import errno
import hashlib
import json
import os
import secrets
import shutil
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from mrag_rl.checked_json import LONGEST, UnacceptableJSON, parse_json
from mrag_rl.errors import InputError

if TYPE_CHECKING:
    import numpy as np

StrPath = str | os.PathLike[str]

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Of a file that is damaged; the second comes if the message quotes bytes of it that are no text."""

_MENDS = {
    errno.ENOSPC: "the disk is full; free some space and run it again (train.py goes on with --resume)",
    errno.EDQUOT: "the disk quota is used up; free some space and run it again (train.py goes on with --resume)",
    errno.EFBIG: "the file exceeds the size limit; raise it (ulimit -f), run it again (train.py: --resume)",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n) and run it again",
    errno.EEXIST: "a file is in the way; choose another folder",
    errno.ENOTDIR: "a file is in the way; choose another folder",
    errno.EIO: "the disk reports an error; check it, and run it again (train.py goes on with --resume)",
    errno.EROFS: "the folder is read-only; make it writable or choose another one",
    errno.EACCES: "permission denied; make the folder writable or choose another one",
    errno.EPERM: "operation not permitted; make the folder writable or choose another one",
}
_BLOCK = 1 << 16  # bytes
_LONGEST_LINE = 4 * LONGEST
"""Bytes of a line, or of a file of one JSON value: no character of UTF-8 has more than four."""
_ICONV = "iconv -f {} -t UTF-8 OLD > NEW"


def describe_os_error(error: OSError, path: StrPath | None = None) -> InputError:
    """The one-line ``InputError`` for a failed write (full disk, read-only folder, no permission...), naming the path.

    ``path`` is used when the error itself names none.
    """
    where = error.filename if error.filename is not None else path
    mend = _MENDS.get(error.errno or 0, error.strerror or str(error) or type(error).__name__)
    return InputError(f"cannot write {os.fspath(where)}: {mend}" if where is not None else f"cannot write: {mend}")


@contextmanager
def names_path(path: StrPath) -> Iterator[None]:
    """Let an OSError of the block name this path, which the system does not know once a file is open."""
    try:
        yield
    except OSError as error:
        # NumPy reports a short write without a number, which means that the disk is full.
        raise OSError(error.errno or errno.ENOSPC, error.strerror, os.fspath(path)) from error


@contextmanager
def reported_writes(path: StrPath) -> Iterator[None]:
    """Turn a failed write of the block into an InputError that names this path."""
    try:
        with names_path(path):
            yield
    except OSError as error:
        raise describe_os_error(error) from error


@contextmanager
def atomic_file(path: StrPath) -> Iterator[BinaryIO]:
    """Write a file piece by piece: yields an empty temporary one, renamed to ``path`` if the block succeeds.

    So the file always has either the old bytes or the new ones. Raises OSError.
    """
    path = Path(path)
    temporary = _temporary_sibling(path)
    try:
        with names_path(path):  # the temporary name means nothing to a user
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):  # a read-only folder refuses this too
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def atomic_write_bytes(path: StrPath, data: bytes) -> None:
    """Write ``data`` to ``path`` as `atomic_file` does. Raises OSError."""
    with atomic_file(path) as file:
        file.write(data)


def atomic_write_text(path: StrPath, text: str) -> None:
    """``atomic_write_bytes`` of ``text`` in UTF-8."""
    atomic_write_bytes(path, text.encode("utf-8"))


def write_npz(path: StrPath, arrays: Mapping[str, np.ndarray], *, compressed: bool = False) -> None:
    """Write arrays to one npz file, atomically. Raises OSError, and ValueError for an array that needs a pickle."""
    import numpy as np  # Commands that only print their help do without

    save = np.savez_compressed if compressed else np.savez
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:  # NumPy before 2.1 has no `allow_pickle` here
            raise ValueError(f"{name} needs a pickle")
    with atomic_file(path) as file:
        save(file, **arrays)  # type: ignore[arg-type]  # of a name that a keyword has


def read_npz(path: StrPath) -> dict[str, np.ndarray]:
    """The arrays of an npz file, without pickles. Raises OSError, and ValueError for any other or a damaged file."""
    import numpy as np

    with _numpy_errors(), np.load(path, allow_pickle=False) as archive:
        arrays: dict[str, np.ndarray] = {name: archive[name] for name in archive.files}
        if others := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
            raise ValueError(f"{others[0]} in it is no array")
    return arrays


def npy_header(file: BinaryIO) -> tuple[np.dtype[Any], tuple[int, ...], Literal["C", "F"], int]:
    """The type, shape and order of an npy file's array, and where it begins. Raises OSError, ValueError for another."""
    import numpy as np

    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with _numpy_errors():
        shape, in_columns, dtype = read[np.lib.format.read_magic(file)](file)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError(f"{dtype} of shape {shape}")
    return dtype, shape, "F" if in_columns else "C", file.tell()


_PARSING = threading.Lock()  # In Python 3.11, threads that parse headers at a time can end in a SystemError


@contextmanager
def _numpy_errors() -> Iterator[None]:
    """Turn the many types of errors that NumPy, zipfile and tokenize raise for a damaged file into ValueError; threads
    read one after the other."""
    try:
        with _PARSING:
            yield
    except (OSError, ValueError):
        raise
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def write_json(path: StrPath, obj: Any) -> None:
    """Write ``obj`` as indented UTF-8 JSON, atomically. Raises ValueError for NaN and infinities, which JSON lacks."""
    atomic_write_text(path, json.dumps(obj, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: StrPath, *, infinite: bool = False) -> Any:
    """The JSON value in ``path``, within the bounds of `mrag_rl.checked_json`.

    infinite: also accept NaN and infinities, which some models' configurations have. Raises InputError naming the file
    and the broken line.
    """
    with suppress(OSError):  # which read_text tells of
        if (size := os.path.getsize(path)) > _LONGEST_LINE:
            raise InputError(f"{os.fspath(path)}: {size:,} bytes, too many for one JSON value; split it")
    text = read_text(path)
    try:
        return parse_json(text, infinite=infinite)
    except json.JSONDecodeError as error:
        raise InputError(f"{os.fspath(path)}:{error.lineno}: not valid JSON ({error.msg}); fix that line") from error
    except UnacceptableJSON as error:
        raise InputError(f"{os.fspath(path)}: {error}") from error


def seal(content: Mapping[str, Any]) -> str:
    """SHA-256 of the JSON of a mapping without its key "seal", however it is written down."""
    rest = {name: value for name, value in content.items() if name != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping with its `seal`, by which a reader sees that nothing in it was changed by accident."""
    return {**content, "seal": seal(content)}


def is_intact(content: Mapping[str, Any]) -> bool:
    """Whether a mapping is as it was when `sealed`; one without a seal, from an earlier version, passes."""
    return "seal" not in content or content["seal"] == seal(content)


def write_jsonl(path: StrPath, objects: Iterable[Any]) -> None:
    """Write one JSON value per line, atomically. Raises OSError, and ValueError for NaN and infinities."""
    with atomic_file(path) as file:
        for value in objects:
            file.write((json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8"))


def read_jsonl(path: StrPath) -> Iterator[tuple[int, Any]]:
    """The values in a JSONL file with their line numbers (from 1), one at a time; blank lines are skipped.

    Raises InputError naming file and line of the first line that is not JSON within the bounds of `checked_json`.
    """
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            value = parse_json(line)
        except json.JSONDecodeError as error:
            problem = f"not valid JSON ({error.msg} at column {error.colno})"
            raise InputError(f"{os.fspath(path)}:{number}: {problem}; write one JSON object on each line") from error
        except UnacceptableJSON as error:
            raise InputError(f"{os.fspath(path)}:{number}: {error}") from error
        yield number, value


def read_text(path: StrPath) -> str:
    """The UTF-8 text in ``path``, without a byte order mark. Raises InputError if missing, a folder, or not UTF-8."""
    return "".join(read_lines(path))


def read_lines(path: StrPath) -> Iterator[str]:
    """The lines of the UTF-8 text in ``path`` one at a time, each with its line feed; see ``read_text``.

    Only line feeds end a line: JSON allows U+2028 and other separators inside strings. Raises InputError, for a line of
    more than 256 MiB as well, before it fills the memory.
    """
    name = os.fspath(path)
    with _reading(path) as file:
        for number, data in enumerate(iter(lambda: file.readline(_LONGEST_LINE + 1), b""), start=1):
            if len(data) > _LONGEST_LINE:
                raise InputError(
                    f"{name}:{number}: a line of more than {_LONGEST_LINE:,} bytes; check that the file is text, and "
                    "split the line"
                )
            if number == 1:
                if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    mend = f"save the file as UTF-8 ({_ICONV.format('UTF-16')})"
                    raise InputError(f"{name}: UTF-16, not UTF-8 text; {mend}")
                data = data.removeprefix(codecs.BOM_UTF8)
            try:
                line = data.decode("utf-8")
            except UnicodeDecodeError as error:
                mend = f"save the file as UTF-8 (if it is Latin-1: {_ICONV.format('LATIN1')})"
                raise InputError(f"{name}:{number}: not UTF-8 text; {mend}") from error
            if "\0" in line:
                raise InputError(
                    f"{name}:{number}: a zero byte, which text has none of; if it is UTF-16, save the file as UTF-8 "
                    f"({_ICONV.format('UTF-16LE')})"
                )
            yield line


def read_blocks(path: StrPath) -> Iterator[bytes]:
    """The bytes in ``path``, a part at a time. Raises InputError if it is missing, a folder, or cannot be read."""
    with _reading(path) as file:
        while block := file.read(_BLOCK):
            yield block


@contextmanager
def _reading(path: StrPath) -> Iterator[BinaryIO]:
    """A file's bytes. Raises InputError if it cannot be opened or read."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            yield file
    except FileNotFoundError as error:
        raise InputError(f"{name}: no such file; check the path") from error
    except IsADirectoryError as error:
        raise InputError(f"{name}: is a folder; give the path of a file") from error
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror}); check the path and its permissions") from error


def file_sha256(path: StrPath) -> str:
    """Hex SHA-256 of a file's bytes. Raises OSError."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def atomic_directory(path: StrPath, *, replace: bool = True) -> Iterator[Path]:
    """Write a folder as a whole: yields an empty temporary folder, renamed to ``path`` if the block succeeds.

    replace: False raises FileExistsError if there is anything at ``path`` by then, and leaves it alone.

    A folder already at ``path`` is replaced (renamed, then removed); if the block raises, it stays unchanged. Two
    folders cannot be exchanged in one portable system call, so after a kill between the two renames the old one is at
    ``.NAME.old`` next to it; ``recover_directory`` restores it.
    """
    path = Path(path)
    if replace:
        recover_directory(path)
    temporary = _temporary_sibling(path)
    with names_path(path):
        temporary.mkdir()
    try:
        yield temporary
        sync_files(temporary)
        if replace:
            backup = _backup_of(path)
            if path.exists():
                os.rename(path, backup)
            os.rename(temporary, path)
            sync_folder(path.parent)
            shutil.rmtree(backup, ignore_errors=True)
        else:
            _rename_to_new(temporary, path)
            sync_folder(path.parent)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if replace:
            recover_directory(path)
        if isinstance(error, OSError):
            named = isinstance(error.filename, str)
            error.filename = error.filename.replace(str(temporary), str(path)) if named else str(path)
        raise


def _rename_to_new(temporary: Path, path: Path) -> None:
    """Rename a folder with files in it to a name that nothing has. Raises FileExistsError."""
    try:
        os.rename(temporary, path)  # fails if there is a file, or a folder that is not empty
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        raise


def sync_file(path: StrPath) -> None:
    """Wait until a file is on the disk. Raises OSError."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_files(folder: StrPath) -> None:
    """Wait until a folder and all files below it are on the disk. Raises OSError."""
    for path in Path(folder).rglob("*"):
        if path.is_file():
            sync_file(path)
    sync_folder(Path(folder))


def recover_directory(path: StrPath) -> None:
    """Clean up after a killed ``atomic_directory``: restore the old folder, or remove it if the new one is in place."""
    path = Path(path)
    backup = _backup_of(path)
    if not backup.exists():
        return
    if path.exists():
        shutil.rmtree(backup, ignore_errors=True)
    else:
        os.rename(backup, path)


def remove_leftovers(folder: StrPath) -> None:
    """Remove the temporary files of killed writes in a folder and its subfolders; no other process may be writing."""
    for path in list(Path(folder).rglob(".*.tmp")):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _backup_of(path: Path) -> Path:
    return path.parent / f".{path.name}.old"


def _temporary_sibling(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def sync_folder(path: Path) -> None:
    """Make new names in a folder durable, if the file system can sync folders."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
