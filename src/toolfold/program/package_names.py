"""What a module is called on the package index, where that is another name; and what of the usual ones is installed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

from toolfold.models import InstalledSet

PACKAGE_OF: Final = {
    "airflow": "apache-airflow", "attr": "attrs", "barcode": "python-barcode", "Bio": "biopython",
    "bs4": "beautifulsoup4", "cairo": "pycairo", "community": "python-louvain", "Crypto": "pycryptodome",
    "cv2": "opencv-python", "dateutil": "python-dateutil", "discord": "discord.py", "dns": "dnspython",
    "docx": "python-docx", "dotenv": "python-dotenv", "elftools": "pyelftools", "engineio": "python-engineio",
    "faiss": "faiss-cpu", "fitz": "pymupdf", "gi": "pygobject", "git": "gitpython", "github": "pygithub",
    "gnupg": "python-gnupg", "googleapiclient": "google-api-python-client", "grpc": "grpcio", "hydra": "hydra-core",
    "imblearn": "imbalanced-learn", "jks": "pyjks", "jnius": "pyjnius", "jose": "python-jose", "jwt": "pyjwt",
    "kafka": "kafka-python", "ldap": "python-ldap", "magic": "python-magic", "multipart": "python-multipart",
    "MySQLdb": "mysqlclient", "nacl": "pynacl", "nmap": "python-nmap", "odf": "odfpy", "OpenSSL": "pyopenssl",
    "osgeo": "gdal", "PIL": "pillow", "pkg_resources": "setuptools", "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary", "pythoncom": "pywin32", "pyximport": "cython",
    "rest_framework": "djangorestframework", "ruamel": "ruamel.yaml", "serial": "pyserial", "shapefile": "pyshp",
    "skimage": "scikit-image", "sklearn": "scikit-learn", "skopt": "scikit-optimize", "sksurv": "scikit-survival",
    "slugify": "python-slugify", "snappy": "python-snappy", "socketio": "python-socketio", "socks": "pysocks",
    "speech_recognition": "speechrecognition", "talib": "ta-lib", "telegram": "python-telegram-bot",
    "umap": "umap-learn", "usb": "pyusb", "websocket": "websocket-client", "win32api": "pywin32", "wx": "wxpython",
    "Xlib": "python-xlib", "yaml": "pyyaml", "zmq": "pyzmq",
}  # fmt: skip
"""Modules whose package has another name than one would guess."""

_USUAL: Final = (
    "numpy", "pandas", "matplotlib", "scipy", "sklearn", "seaborn", "statsmodels", "plotly", "sympy", "openpyxl",
    "xlsxwriter", "tabulate",
)  # fmt: skip
_MOST_NAMED: Final = 12


def package_of(module: str) -> str:
    """The usual name on the index."""
    return PACKAGE_OF.get(module, module.replace("_", "-").lower())


def named_installed(installed: Container[str], sets: Sequence[InstalledSet]) -> str:
    """The libraries that there are, for a message; the operator's own first."""
    names = list(dict.fromkeys(_names(installed, sets)))
    return ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")


def _names(installed: Container[str], sets: Iterable[InstalledSet]) -> Iterator[str]:
    for one in sets:
        yield from one.offers
    yield from (name for name in _USUAL if name in installed)
