"""The command ``missdiff``."""

from missdiff_fast.cli.main import main
from missdiff_fast.cli.parser import build_parser

__all__ = ["build_parser", "main"]
