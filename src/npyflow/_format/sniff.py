"""What a file is, if it is no ``.npy``: told from its first bytes."""

from __future__ import annotations

import re

SNIFF_BYTES = 256

# First bytes, the kind in a word, what that is, what to do about it.
_PICKLE = ("pickle", "a pickle, which npyflow never loads", "if it is your own, load it and np.save its arrays")
_SIGNATURES: tuple[tuple[bytes, tuple[str, str, str]], ...] = (
    (b"PK\x03\x04", ("zip", "a zip or .npz archive", "unpack it and save its arrays with np.save")),
    (b"\x1f\x8b", ("gzip", "a gzip file", "unpack it with gunzip")),
    (b"\x89HDF\r\n\x1a\n", ("hdf5", "an HDF5 file", "export its arrays with h5py and np.save")),
    (b"\x00\x05\x16\x07", ("appledouble", "an AppleDouble file (macOS metadata, no data)", "delete it")),
    *((bytes([0x80, protocol]), _PICKLE) for protocol in (2, 3, 4, 5)),
    (b"\x89PNG", ("picture", "a PNG picture", "read it with tf.io.decode_png")),
    (b"\xff\xd8\xff", ("picture", "a JPEG picture", "read it with tf.io.decode_jpeg")),
    (
        b"/annex/objects/",
        ("annex-pointer", "a git-annex pointer, not the data", "fetch the data with git annex get"),
    ),
)
_LFS = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?size ([0-9]+)")
_HTML = re.compile(rb"\s*(?:<!doctype|<html|<\?xml)", re.IGNORECASE)


def identify(start: bytes, size: int) -> tuple[str, str, str]:
    """Say what a file is that does not begin with the ``.npy`` magic: its kind in a word, in words, and what to do.

    Parameters
    ----------
    start : bytes
        The first `SNIFF_BYTES` of the file, or all of it.
    size : int
        Bytes of the whole file.
    """
    if size == 0:
        return "empty", "an empty file", "write or download it again; an interrupted job leaves such files"
    if lfs := _LFS.match(start):
        real = f"{int(lfs[1]):,}"
        return "lfs-pointer", f"a Git LFS pointer to {real} bytes, not the data", "fetch the data with git lfs pull"
    if _HTML.match(start):
        return "html", "an HTML or XML page", "download it again; the link led to a web page, not to the file"
    for signature, what in _SIGNATURES:
        if start.startswith(signature):
            return what
    if b"\x93NUMPY".startswith(start[:6]):
        return "truncated-header", f"a .npy file cut off after {size} bytes", "write or download it again"
    return "no-npy", f"no .npy file (it begins with {start[:8].hex(' ')})", _raw_advice(size)


def _raw_advice(size: int) -> str:
    fitting = [str(width) for width in (8, 4, 2) if size % width == 0]
    if not fitting:
        return "find out what wrote it"
    sizes = " or ".join(fitting)
    return (
        f"if it holds bare samples ({size:,} bytes, divisible by {sizes}), "
        f"read it with np.fromfile(path, dtype) and np.save it"
    )
