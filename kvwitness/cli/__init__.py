"""The command line: ``kvwitness COMMAND``. Exit status 0 pass, 1 violations, 2 could not run as asked."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

import click

from kvwitness.cli.status import COULD_NOT_RUN, SKIP_IN_BISECT
from kvwitness.errors import CannotRun
from kvwitness.version import VERSION
from oracle.model.errors import InvalidCase

COMMANDS = ("verify", "replay", "show", "diff", "kinds", "conform", "deployments", "bench")
"""A command is the ``command`` of the module of its name, which is imported when it is asked for."""


class Commands(click.Group):
    """The commands, in the order in which one meets them."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        return import_module(f"kvwitness.cli.{name}").command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="kvwitness")
def commands() -> None:
    """Check that a KV cache arrives whole and in place when it moves between differently split instances.

    Exit status: 0 pass, 1 violations, 2 could not run as asked.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status, whatever happens."""
    status = _run(arguments)
    return SKIP_IN_BISECT if status == COULD_NOT_RUN and "--bisect" in arguments else status


def _run(arguments: Sequence[str]) -> int:
    try:
        return int(commands.main(args=list(arguments), prog_name="kvwitness", standalone_mode=False) or 0)
    except click.ClickException as error:
        return _could_not_run(arguments, error.format_message(), usage=error)
    except (CannotRun, InvalidCase) as error:
        return _could_not_run(arguments, str(error))
    except (KeyboardInterrupt, click.Abort):
        return _could_not_run(arguments, "interrupted")
    except BrokenPipeError:
        # Whoever read the output has seen enough; what is left to flush at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return COULD_NOT_RUN
    except MemoryError as error:
        return _could_not_run(arguments, f"the memory does not suffice: {error}")
    except Exception as error:
        traceback.print_exc()
        return _could_not_run(arguments, f"a bug in kvwitness or in an extension: {type(error).__name__}: {error}")


def _could_not_run(arguments: Sequence[str], reason: str, *, usage: click.ClickException | None = None) -> int:
    if "--json" in arguments:
        print(json.dumps({"verdict": "not run", "reason": reason}))
    if usage is not None:
        usage.show(sys.stderr)
    else:
        print(f"kvwitness: {reason}", file=sys.stderr)
    return COULD_NOT_RUN


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))
