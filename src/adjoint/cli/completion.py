"""`adjoint completion SHELL`: completions of the command for bash, zsh and fish.

They are written from the parser, so that they know every command and option; names of operators
are asked of the command itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

from adjoint.cli.parser import FAMILY, FILE, OPERATOR, add_command, commands_of, helps, kind_of

_ASK = {
    OPERATOR: "adjoint ops --names 2>/dev/null",
    FAMILY: "adjoint ops --families 2>/dev/null",
}


def add_completion(commands: Any, parser: Callable[[], argparse.ArgumentParser]) -> None:
    """Describe `adjoint completion`."""
    made = add_command(
        commands, "completion", "print completions for a shell",
        examples=(
            'eval "$(adjoint completion bash)"    # in ~/.bashrc',
            "adjoint completion zsh > ~/.zfunc/_adjoint    # with fpath+=~/.zfunc in ~/.zshrc",
            "adjoint completion fish > ~/.config/fish/completions/adjoint.fish",
        ),
    )  # fmt: skip
    made.add_argument("shell", choices=sorted(SHELLS))
    made.set_defaults(run=lambda args: SHELLS[args.shell](parser()))


def _options(command: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    return (action for action in command._actions if action.option_strings)


def _words(command: argparse.ArgumentParser) -> list[str]:
    """The options of a command, and the words that its arguments may be."""
    options = [text for action in _options(command) for text in action.option_strings]
    return [*options, *(str(c) for a in _arguments(command) for c in a.choices or ())]


def _choices(parser: argparse.ArgumentParser) -> list[str]:
    """The values of the options that stand before the command."""
    return [str(choice) for action in _options(parser) for choice in action.choices or ()]


def _arguments(command: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    return (action for action in command._actions if not action.option_strings)


def _kinds(command: argparse.ArgumentParser) -> set[str]:
    return {kind for action in _arguments(command) if (kind := kind_of(action))}


# -- bash ------------------------------------------------------------------------------------------


def bash(parser: argparse.ArgumentParser) -> Iterator[str]:
    """A function that fills COMPREPLY."""
    commands = commands_of(parser)
    yield "_adjoint() {"
    yield '  local word command="" words="" current="${COMP_WORDS[COMP_CWORD]}"'
    yield '  local before="${COMP_WORDS[COMP_CWORD-1]}"'
    yield '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield f'    case "$word" in -*|{"|".join(_choices(parser))}) ;;'
    yield '      *) command="$word"; break ;; esac'
    yield "  done"
    yield '  case "$command $before" in'
    for reply, options in _replies({"": parser, **commands}).items():
        yield f"    {'|'.join(options)})"
        yield f"      {reply}"
        yield "      return ;;"
    yield "  esac"
    yield '  case "$command" in'
    yield f'    "") words="{" ".join([*commands, *_words(parser)[: -len(commands)]])}" ;;'
    for name, command in commands.items():
        asked = "".join(f" $({_ASK[kind]})" for kind in sorted(_kinds(command) & {*_ASK}))
        yield f'    {name}) words="{" ".join(_words(command))}{asked}" ;;'
    yield "  esac"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$current"))'
    files = [name for name, command in commands.items() if FILE in _kinds(command)]
    yield f'  case "$command" in {"|".join(files)})'
    yield '    COMPREPLY+=($(compgen -f -- "$current")) ;;'
    yield "  esac"
    yield "}"
    yield "complete -o nosort -F _adjoint adjoint"


def _replies(commands: dict[str, argparse.ArgumentParser]) -> dict[str, list[str]]:
    """What completes the value of an option, and which options those are: "trace --svg"."""
    found: dict[str, list[str]] = {}
    for name, command in commands.items():
        for action in _options(command):
            if action.nargs != 0:
                patterns = [f'"{name} {text}"' for text in action.option_strings]
                found.setdefault(_bash_reply(action), []).extend(patterns)
    return found


def _bash_reply(action: argparse.Action) -> str:
    kind = kind_of(action)
    if action.choices is not None:
        words = " ".join(map(str, action.choices))
    elif kind in _ASK:
        words = f"$({_ASK[kind]})"
    else:
        flag = "-f" if kind == FILE else '-W ""'
        return f'COMPREPLY=($(compgen {flag} -- "$current"))'
    return f'COMPREPLY=($(compgen -W "{words}" -- "$current"))'


# -- zsh -------------------------------------------------------------------------------------------


def zsh(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Descriptions of commands, and `_arguments` of each."""
    said = helps(parser)
    yield "#compdef adjoint"
    yield "_adjoint() {"
    yield "  local -a commands"
    yield "  commands=("
    yield from (f"    {_quoted(f'{name}:{said[name]}')}" for name in commands_of(parser))
    yield "  )"
    yield "  if (( CURRENT == 2 )); then _describe command commands; return; fi"
    yield '  local command="$words[2]"'
    yield "  shift words; (( CURRENT-- ))"
    yield '  case "$command" in'
    for name, command in commands_of(parser).items():
        specifications = " ".join(map(_quoted, _zsh_arguments(command)))
        yield f"    {name}) _arguments {specifications} ;;"
    yield "  esac"
    yield "}"
    yield '_adjoint "$@"'


def _zsh_arguments(command: argparse.ArgumentParser) -> Iterator[str]:
    for action in _options(command):
        said = (action.help or "").replace("[", "(").replace("]", ")").replace(":", " ")
        value = (
            "" if action.nargs == 0 else f":{action.metavar or action.dest}:{_zsh_value(action)}"
        )
        yield from (f"{text}[{said}]{value}" for text in action.option_strings)
    for action in _arguments(command):
        name = str(action.metavar or action.dest).replace(":", " ")
        yield f"*:{name}:{_zsh_value(action)}"


def _zsh_value(action: argparse.Action) -> str:
    if action.choices is not None:
        return f"({' '.join(map(str, action.choices))})"
    kind = kind_of(action)
    return "_files" if kind == FILE else f"($({_ASK[kind]}))" if kind in _ASK else " "


def _quoted(text: str) -> str:
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"


# -- fish ------------------------------------------------------------------------------------------


def fish(parser: argparse.ArgumentParser) -> Iterator[str]:
    """A line for each command and for each option."""
    said = helps(parser)
    yield "complete -c adjoint -f"
    for name, command in commands_of(parser).items():
        yield f"complete -c adjoint -n __fish_use_subcommand -a {name} -d {_quoted(said[name])}"
        seen = f"complete -c adjoint -n '__fish_seen_subcommand_from {name}'"
        for action in _options(command):
            flags = "".join(
                f" -{'l' if text.startswith('--') else 's'} {text.lstrip('-')}"
                for text in action.option_strings
            )
            yield f"{seen}{flags}{_fish_value(action)} -d {_quoted(action.help or '')}"
        for action in _arguments(command):
            yield f"{seen}{_fish_argument(action)}"


def _fish_value(action: argparse.Action) -> str:
    return "" if action.nargs == 0 else f" -r{_fish_argument(action)}"


def _fish_argument(action: argparse.Action) -> str:
    if action.choices is not None:
        return f" -a {_quoted(' '.join(map(str, action.choices)))}"
    kind = kind_of(action)
    return " -F" if kind == FILE else f" -a '({_ASK[kind]})'" if kind in _ASK else ""


SHELLS: dict[str, Callable[[argparse.ArgumentParser], Iterator[str]]] = {
    "bash": bash,
    "zsh": zsh,
    "fish": fish,
}
