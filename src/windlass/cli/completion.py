"""`windlass completion`: prints a completion script for a shell."""

import argparse
import sys

from windlass.errors import ConfigError

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")

DESCRIPTION = """\
Prints a script that completes commands and options of `windlass` with Tab."""

EPILOG = """\
examples, for all shells that you start:
  windlass completion bash > ~/.local/share/bash-completion/completions/windlass
  windlass completion zsh > ~/.zfunc/_windlass
      # and in ~/.zshrc, before compinit: fpath+=~/.zfunc
  windlass completion fish > ~/.config/fish/completions/windlass.fish
  windlass completion tcsh > ~/.windlass.tcsh
      # and in ~/.tcshrc: source ~/.windlass.tcsh
  windlass completion powershell > windlass.ps1
      # and in $PROFILE: . the path of windlass.ps1

for the current shell only:
  eval "$(windlass completion bash)"

It needs shtab, which the extra `cli` installs: pip install 'windlass[cli]'"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError` if shtab is not installed."""
    from windlass.cli import whole_parser

    try:
        import shtab
    except ModuleNotFoundError as error:
        raise ConfigError("completion needs shtab: pip install 'windlass[cli]'") from error
    sys.stdout.write(shtab.complete(whole_parser(), options.shell))
    return 0
