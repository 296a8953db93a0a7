"""Reading and writing files: plain, compressed, or standard streams; and locks.

The length of a line is bounded, and so is the amount skipped. Writing is atomic: a file or folder
appears under its name when it is complete. A killed run leaves hidden temporary files, whose locks
end with it; the next run that writes to the folder removes those that are not locked (none if the
file system has no locks).
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import gzip
import io
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from kbforge.errors import (
    BadRecord,
    KBForgeError,
    OutputError,
    UsageError,
    escaped_lines,
    quoted,
    without_password,
)

if TYPE_CHECKING:
    from kbforge.contracts.fragment import OnBad


MAX_LINE_BYTES = 16 * 1024 * 1024
MOST_BLANK = 100_000
"""Maximum number of blank lines in a row: a compressed file of a kilobyte may have billions."""
MOST_SKIPPED = 256 * 1024 * 1024
"""Maximum number of bytes of an endless record to skip in search of the next one."""
_SURELY_SMALL = 1 << 25
_MOST_TIMES = 100  # how often larger a file is unpacked that is read at once, if it is not small
_ZSTD_STEP = 4096
_FAR = (1 << 31) - 2  # the last byte but one that Windows can lock
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_BZIP2_MAGIC = b"BZh"
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")  # a text may begin with the magic, not with these


def called(path: str) -> str:
    """The name of an input or output in messages; the address of a database has no password."""
    return "standard input" if path == "-" else without_password(path)


def file_of(path: str) -> str:
    """The file of a database such as `sqlite:///crm.sqlite`; another path is returned as it is."""
    scheme, _, file = path.partition(":///")
    return file if scheme in ("sqlite", "duckdb") else path


@contextlib.contextmanager
def open_input(path: str) -> Iterator[BinaryIO]:
    """Open for reading bytes; gzip, bzip2 and zstd are recognised by content, not by name."""
    with contextlib.ExitStack() as stack:
        try:
            raw = sys.stdin.buffer if path == "-" else stack.enter_context(open(path, "rb"))
            if raw.closed:
                raise KBForgeError("standard input can be read only once, got - again")
            buffered = io.BufferedReader(cast(Any, raw), 1 << 20)
            magic = buffered.peek(10)[:10]
        except OSError as error:
            where = f"cannot read {quoted(called(path), 400)}"
            raise KBForgeError(f"{where}: {reason_of(error)}") from error
        if magic.startswith(_GZIP_MAGIC):
            unpacked: Any = stack.enter_context(gzip.GzipFile(fileobj=buffered))
            yield cast(BinaryIO, io.BufferedReader(unpacked, 1 << 16))
        elif magic.startswith(_BZIP2_MAGIC) and magic[4:].startswith(_BZIP2_BLOCKS):
            import bz2  # a Python may be built without it

            unpacked = stack.enter_context(bz2.BZ2File(buffered))
            yield cast(BinaryIO, io.BufferedReader(unpacked, 1 << 16))
        elif magic.startswith(_ZSTD_MAGIC):
            yield stream_of(_unpacked_zstd(buffered))
        else:
            yield cast(BinaryIO, buffered)


def _unpacked_zstd(packed: BinaryIO) -> Iterator[bytes]:
    """The content of a zstd stream; an OSError if it is damaged or cut short."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    with zstd.ZstdFile(packed) as stream:
        while True:
            try:
                # small steps, because a step that meets damage is lost as a whole
                chunk = stream.read1(_ZSTD_STEP)
            except (zstd.ZstdError, EOFError) as error:
                raise OSError(str(error)) from error
            if not chunk:
                return
            yield chunk


class _ChunkStream(io.RawIOBase):
    """Chunks of bytes as a raw stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._ready = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._ready = memoryview(chunk)
        given = self._ready[: len(buffer)]
        buffer[: len(given)] = given
        self._ready = self._ready[len(given) :]
        return len(given)


def stream_of(chunks: Iterator[bytes], size: int = 1 << 20) -> BinaryIO:
    """A buffered stream of chunks; reading raises the errors of their iterator."""
    return cast(BinaryIO, io.BufferedReader(_ChunkStream(chunks), size))


def read_small(path: str, what: str, most: int, error: type[KBForgeError] = KBForgeError) -> bytes:
    """The content of a file that is read at once; "-" is standard input.

    `what` the file should be ("a calibration file") and the limit of `most` uncompressed bytes are
    used in the `error` about content that is damaged, truncated or too large.
    """
    where = quoted(called(path), 400)
    if Path(path).is_file():
        most = min(most, max(_SURELY_SMALL, _MOST_TIMES * Path(path).stat().st_size))
    with open_input(path) as stream:
        try:
            content = stream.read(most + 1)
        except (OSError, EOFError, zlib.error) as problem:
            raise error(f"{where}: expected {what}, got {damage_of(problem)}") from problem
    if len(content) > most:
        raise error(f"{where}: expected {what}, got more than {most:,} bytes")
    return content


def read_lines(path: str, on_bad: OnBad | None = None) -> Iterator[tuple[int, bytes]]:
    """`lines_of` a file, or of standard input for "-"."""
    with open_input(path) as stream:
        yield from lines_of(stream, called(path), on_bad)


def lines_of(
    stream: BinaryIO, name: str, on_bad: OnBad | None = None, number: int = 0, blank: int = 0
) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, line without its newline) for every line that is not blank.

    `on_bad` is called with the first bytes of a line longer than `MAX_LINE_BYTES`; reading
    continues if the line has an end. It is also called if a stream is damaged, truncated, or blank
    for long, which ends the reading. `number` lines come before the stream, of which the last ones
    are blank and weigh `blank`.

    Raises:
        BadRecord: as above, if `on_bad` is None or raises it.
    """
    while True:
        try:
            line = stream.readline(MAX_LINE_BYTES + 1)
            whole = len(line) <= MAX_LINE_BYTES or line.endswith(b"\n")
            has_end = whole or _skip_line(stream)
        except (OSError, EOFError, zlib.error) as error:
            _report(
                BadRecord(f"{name}:{number + 1}", "a whole file", damage_of(error)), b"", on_bad
            )
            return
        if not line:
            return
        number += 1
        if not whole:
            expected = f"a line of at most {MAX_LINE_BYTES:,} bytes"
            _report(BadRecord(f"{name}:{number}", expected, "a longer one"), line, on_bad)
            if not has_end:
                return
            continue
        line = line.rstrip(b"\r\n")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            blank = 0
            yield number, line
            continue
        blank += 1 + (len(line) >> 10)  # long ones take longer
        if blank > MOST_BLANK:
            expected = f"text within {MOST_BLANK:,} lines"
            _report(BadRecord(f"{name}:{number}", expected, "only blank ones"), b"", on_bad)
            return


def _skip_line(stream: BinaryIO) -> bool:
    """Read to the end of an over-long line; False if there is no end soon."""
    for _ in range(MOST_SKIPPED // MAX_LINE_BYTES):
        rest = stream.readline(MAX_LINE_BYTES)
        if not rest or rest.endswith(b"\n"):
            return True
    return False


def reason_of(error: OSError) -> str:
    """Why a file could not be opened, read or written, in words for a sentence."""
    if error.errno == errno.EBADF:  # a standard stream that was closed when the program started
        return "it is closed"
    return (error.strerror or str(error)).lower()


def damage_of(error: Exception) -> str:
    """The damage of a stream that could not be read completely, for an error's `got`."""
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        return "one that is closed"
    return f"a damaged or truncated one ({quoted(str(error))})"


def _report(error: BadRecord, raw: bytes, on_bad: OnBad | None) -> None:
    if on_bad is None:
        raise error
    on_bad(error, raw)


def require_writable(path: str) -> None:
    """Check before long work that a result can be written."""
    folder = _followed(path).parent
    if path == "-" or (folder.is_dir() and os.access(folder, os.W_OK)):
        return
    reason = "permission denied" if folder.is_dir() else "no such file or directory"
    raise OutputError(f"cannot write {quoted(path, 400)}: {reason}")


@contextlib.contextmanager
def open_output(path: str) -> Iterator[BinaryIO]:
    """Open for writing bytes, atomically; "-" is standard output; `.gz` compresses.

    A replaced file keeps its mode. If it is a link, the linked file is replaced. / OutputError: the
    folder is missing, not writable, or the disk is full.
    """
    try:
        if path == "-":
            yield bytes_of(sys.stdout)
            sys.stdout.buffer.flush()
            return
        target = _followed(path)
        # a device or a pipe is written in place; a regular file is replaced when whole
        if target.exists() and not target.is_file():
            with open(target, "wb") as device:
                yield device
            return
        sweep(target.parent)
        with temporary_file(target.parent) as (temporary, raw):
            if path.endswith(".gz"):
                # no name and no time in the header: same content, same bytes
                with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
            temporary.chmod(mode_of(target, 0o666))
            if os.name == "nt":  # an open file can be neither renamed nor removed there
                raw.close()
            os.replace(temporary, target)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None and not _is_about(str(error.filename), path):
            raise
        reason = reason_of(error)
        place = "standard output" if path == "-" else quoted(path, 400)
        raise OutputError(f"cannot write {place}: {reason}") from error


def bytes_of(stream: TextIO) -> BinaryIO:
    """A standard stream for bytes: escaped on a terminal, unchanged elsewhere."""
    out = stream.buffer
    return cast(BinaryIO, _TerminalStream(out)) if stream.isatty() else out


class _TerminalStream(io.RawIOBase):
    """Passes text to a terminal without control characters."""

    def __init__(self, terminal: BinaryIO) -> None:
        self._terminal = terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        text = self._decoder.decode(bytes(data))
        self._terminal.write(escaped_lines(text).encode())
        self._terminal.flush()
        return len(data)


def _is_about(file: str, output: str) -> bool:
    """Whether an error's file is the output or a folder above it, not an input."""
    if output == "-":
        return False
    target = _followed(output)
    temporary = Path(file).parent == target.parent and Path(file).name.startswith(PREFIX)
    return temporary or file in (output, str(target))


def _followed(path: str) -> Path:
    """The target of a link to a file; other paths stay as they are."""
    there = Path(path)
    return there if there.exists() and not there.is_file() else Path(os.path.realpath(path))


def mode_of(path: Path, new: int) -> int:
    """The mode of an existing file, or `new` minus the umask."""
    with contextlib.suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return new & ~umask


@contextlib.contextmanager
def open_folder(path: str, names: Collection[str], what: str) -> Iterator[Path]:
    """A new folder to write files into; it replaces `path` at the end.

    An existing folder is replaced if it holds only files with these names. `what` is the writer
    ("exporter neo4j"), for errors.

    Raises:
        UsageError: "-".
        OutputError: something else has that name, or it cannot be written.
    """
    if path == "-":
        raise UsageError(f"{what}: expected a folder, got standard output; give -o FOLDER")
    require_writable(path)
    folder = Path(os.path.realpath(path))
    try:
        if folder.exists():
            _require_ours(folder, names, path, what)
        sweep(folder.parent)
        with temporary_folder(folder.parent) as temporary:
            yield temporary
            for file in filter(Path.is_file, temporary.rglob("*")):
                with open(file, "r+b") as written:  # Windows flushes only what can be written
                    os.fsync(written.fileno())
                file.chmod(mode_of(folder / file.relative_to(temporary), 0o666))
            temporary.chmod(mode_of(folder, 0o777))
            put_in_place(temporary, folder)
    except OSError as error:
        raise OutputError(f"cannot write {quoted(path, 400)}: {reason_of(error)}") from error


def put_in_place(new: Path, folder: Path) -> None:
    """Replace a folder with another one; if that fails, the old one stays."""
    if not folder.exists():
        os.rename(new, folder)
        return
    # a folder cannot be replaced in one step: the old one steps aside, and back on failure
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=new.parent))
    os.rename(folder, aside / folder.name)
    try:
        os.rename(new, folder)
    except OSError:
        os.rename(aside / folder.name, folder)
        raise
    finally:
        with contextlib.suppress(OSError):
            if folder.exists():
                shutil.rmtree(aside)


def _require_ours(folder: Path, names: Collection[str], path: str, what: str) -> None:
    if folder.is_dir():
        strange = sorted(file.name for file in folder.iterdir() if file.name not in names)
        if not strange:
            return
        got = f"a folder with {quoted(strange[0])}"
    else:
        got = "something else"
    raise OutputError(
        f"{what}: {quoted(path, 400)}: expected no such folder, or one that it wrote, got {got}; "
        "name another"
    )


def require_apart(
    output: str | Path, inputs: Iterable[str | Path | None], whole: bool = False
) -> None:
    """Refuse an output that would replace an input.

    Inputs that are not files are skipped. An output in an input folder replaces an input if the
    folder has such a file; if `whole`, a folder is replaced with all its content.
    """
    for given in inputs:
        if given is not None and str(given) and _is_same(str(output), str(given), whole):
            name = "standard output" if output == "-" else quoted(str(output), 400)
            same = "" if str(output) == str(given) else f" ({quoted(called(str(given)), 400)})"
            raise UsageError(
                f"the output {name} is an input{same}, which it would replace; name another output"
            )


def require_distinct(outputs: Iterable[tuple[str, str | None]]) -> None:
    """Refuse two outputs that are the same file; each is a name and a path."""
    seen: list[tuple[str, str]] = []
    for what, path in outputs:
        if path is None:
            continue
        for other, place in seen:
            # what is not there yet is told by its name
            if path == place or _resolved(path) == _resolved(place) or _is_same(path, place):
                raise UsageError(f"the {other} and the {what} are both {quoted(path, 400)}")
        seen.append((what, path))


def _is_same(output: str, given: str, whole: bool = False) -> bool:
    out, there = _status(output, 1), _status(given, 0)
    if out is None or there is None:
        return False  # there is nothing to replace, or nothing that is read
    if os.path.samestat(out, there):
        return stat.S_ISREG(out.st_mode) or stat.S_ISDIR(out.st_mode)
    if "-" in (output, given) or not (stat.S_ISREG(out.st_mode) or stat.S_ISREG(there.st_mode)):
        return False
    one, other = Path(_resolved(output)), Path(_resolved(given))
    return one.parent == other or (whole and other.is_relative_to(one))


def _status(path: str, stream: int) -> os.stat_result | None:
    """The status of the file, or of the standard stream for "-"."""
    try:
        if path == "-":
            handle = (sys.stdin, sys.stdout)[stream]
            return os.fstat(handle.fileno())
        return os.stat(file_of(path))
    except (OSError, ValueError):  # not there, no path at all, or no stream with a number
        return None


def _resolved(path: str) -> str:
    return path if path == "-" or "\0" in path else os.path.realpath(file_of(path))


def require_openpyxl() -> None:
    """Refuse to continue without openpyxl, or without the parser that makes it safe."""
    try:
        from openpyxl import DEFUSEDXML
    except ImportError:
        DEFUSEDXML = False
    if not DEFUSEDXML:
        from kbforge.registry import install_command

        raise KBForgeError(
            f"xlsx needs openpyxl and defusedxml, which are not both installed: "
            f"{install_command('excel')}"
        )


PREFIX = ".kbforge-"
_SUFFIX = ".part"
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Open without following links or waiting for pipes without a writer."""


@contextlib.contextmanager
def temporary_file(folder: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file, open for writing, that is deleted at the end unless it was renamed."""
    while True:
        handle, name = tempfile.mkstemp(_SUFFIX, PREFIX, folder)
        path = Path(name)
        try:
            with os.fdopen(handle, "wb") as raw:
                if not _held(path, raw.fileno()):
                    continue
                yield path, raw
                return
        finally:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """A new folder that is deleted at the end unless it was renamed."""
    while True:
        path = Path(tempfile.mkdtemp(_SUFFIX, PREFIX, folder))
        with contextlib.ExitStack() as ended:
            ended.callback(shutil.rmtree, path, ignore_errors=True)
            with contextlib.suppress(PermissionError):  # Windows opens no folder, nor sweeps it
                handle = os.open(path, _OPEN)
                ended.callback(os.close, handle)
                if not _held(path, handle):
                    continue
            yield path
            return


def sweep(folder: Path) -> None:
    """Remove the files and folders that killed runs left in a folder, and nothing else."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.name.endswith(_SUFFIX):
                _remove_if_dead(Path(entry.path))


def _remove_if_dead(path: Path) -> None:
    # another user's, or gone by now: it is not ours to remove
    with contextlib.suppress(OSError):
        if os.name == "nt":  # a file that is in use cannot be removed there
            path.unlink()
            return
        handle = os.open(path, _OPEN)
        try:
            kind = os.fstat(handle)
            if not (stat.S_ISREG(kind.st_mode) or stat.S_ISDIR(kind.st_mode)) or not hold(handle):
                return
            # by now the name may be another one's
            if not os.path.samestat(kind, path.lstat()):
                return
            if stat.S_ISDIR(kind.st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        finally:
            os.close(handle)


def _held(path: Path, handle: int) -> bool:
    """Whether the lock is ours: false if another run removed the file before."""
    try:
        if not hold(handle):
            return False
    except OSError:  # without locks there is nobody who removes it
        return True
    return path.exists() and os.path.samestat(path.stat(), os.fstat(handle))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file, which is created; a killed process holds no lock.

    BlockingIOError: another process holds it. On a system without locks no file is created.
    """
    lock = _system_lock()
    if lock is None:
        yield
        return
    with open(path, "wb") as file:
        lock(file.fileno())
        yield


def hold(handle: int) -> bool:
    """Lock an open file or folder until it is closed; False if another process holds it.

    OSError: this system or its file system has no such locks.
    """
    lock = _system_lock()
    if lock is None:
        raise OSError("no locks on this system")
    try:
        lock(handle)
    except BlockingIOError:
        return False
    return True


def _system_lock() -> Callable[[int], None] | None:
    """A function that locks an open file without waiting (BlockingIOError: it is locked); None
    without locks.

    Windows locks a byte, which other programs then cannot read: one beyond the end of any locked
    file.
    """
    try:
        import fcntl
    except ImportError:
        return _windows_lock()
    return lambda handle: fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _windows_lock() -> Callable[[int], None] | None:
    try:
        msvcrt: Any = import_module("msvcrt")  # by name: type checkers know it on Windows only
    except ImportError:
        return None

    def lock(handle: int) -> None:
        place = os.lseek(handle, 0, os.SEEK_CUR)
        os.lseek(handle, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK)) from error
        finally:
            os.lseek(handle, place, os.SEEK_SET)

    return lock
