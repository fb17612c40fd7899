"""The parser of the command line: commands with examples, and words that completion knows."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from adjoint.core.errors import did_you_mean

# What an argument is, for shells that complete it.
OPERATOR, FAMILY, FILE = "operator", "family", "file"


class Parser(argparse.ArgumentParser):
    """A parser whose errors name what was perhaps meant."""

    def __init__(self, **keywords: Any) -> None:
        keywords.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**keywords)

    def error(self, message: str) -> NoReturn:
        """Print the error, what may have been meant and where to read on; end with status 2."""
        found = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if found:
            message = f"there is no {found[1]!r}" + did_you_mean(
                found[1], re.findall(r"[\w-]+", found[2])
            )
        elif message.startswith("unrecognized arguments: ") and "--" not in message:
            message += "; values of a function's arguments stand after --at"
        print(f"{self.prog}: {message}", file=sys.stderr)
        print(f"{self.prog} --help says what there is.", file=sys.stderr)
        raise SystemExit(2)


def add_command(commands: Any, name: str, says: str, *, examples: Sequence[str] = ()) -> Any:
    """Add a command; its help ends in examples."""
    lines = "".join(f"\n  {example}" for example in examples)
    return commands.add_parser(
        name, help=says, description=f"{says[0].upper()}{says[1:]}.",
        epilog=f"examples:{lines}" if examples else None,
    )  # fmt: skip


def completes(action: argparse.Action, kind: str) -> None:
    """Say what an argument is, to shells."""
    action.completes = kind  # type: ignore[attr-defined]


def kind_of(action: argparse.Action) -> str:
    """What an argument is: an operator, a family, a file, or nothing that could be listed."""
    return getattr(action, "completes", "")


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def helps(parser: argparse.ArgumentParser) -> dict[str, str]:
    """What each command says of itself."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {choice.dest: choice.help or "" for choice in action._choices_actions}
    return {}
